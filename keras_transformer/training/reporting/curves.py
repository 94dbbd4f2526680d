"""Picture of the learning curves of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer import system
from keras_transformer.optional_dependencies import install_command, unusable
from keras_transformer.training.scores import is_checkpoint, selection_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE = "curves.png"
"""Name of the file in the run folder."""

Records = Sequence[dict[str, Any]]
_TRAIN, _DEV, _BEST = "#7f7f7f", "#1f77b4", "#d62728"


def write(
    path: Path, records: Records, steps: Records, best_by: str, log: Callable[[str], None]
) -> None:
    """Draw the curves into ``curves.png``; a failure is logged and does not end the training.

    Args:
        path: The run folder.
        records: Records of checkpoints and averages, from metrics.jsonl.
        steps: Records of every ``log_every`` steps, from steps.jsonl.
        best_by: ``train.best_by`` of the configuration.
        log: Called with a line if nothing can be drawn.
    """
    if not (records or steps):
        return
    file = path / FILE
    problems = unusable(["matplotlib"])
    if problems:
        command = install_command(["matplotlib"])
        install = f"run {command}, then train with --resume to draw it"
        log(f"{file}: not drawn: {problems['matplotlib'] or install}")
        return
    try:
        picture = figure(records, steps, best_by)
        with system.atomic_file(file) as partial:
            picture.savefig(partial, format="png")
    except Exception as error:  # another version of matplotlib may raise anything
        reason = str(error).strip().splitlines() or [type(error).__name__]
        log(f"{file}: not drawn: {reason[0]}")


def figure(records: Records, steps: Records, best_by: str) -> Figure:
    """Draw loss, perplexity, BLEU and learning rate over the steps.

    Args:
        records: As for `write`.
        steps: As for `write`; if empty, the training curves use the checkpoints' records.
        best_by: As for `write`.
    """
    from matplotlib.figure import Figure

    checkpoints = [record for record in records if is_checkpoint(record)]
    train = steps or checkpoints
    result = Figure(figsize=(11, 7.5), dpi=110, layout="constrained")
    (loss, perplexity), (bleu, rate) = result.subplots(2, 2, sharex=True)
    for axes, name in ((loss, "loss"), (perplexity, "perplexity")):
        _line(axes, train, f"train_{name}", color=_TRAIN, linewidth=1, label="training")
        _line(axes, checkpoints, f"dev_{name}", color=_DEV, marker=".", label="dev")
    _line(bleu, checkpoints, "dev_bleu", color=_DEV, marker=".", label="dev")
    _line(rate, train, "learning_rate", color=_TRAIN)
    _mark_averages(records, {"dev_loss": loss, "dev_perplexity": perplexity, "dev_bleu": bleu})
    _mark_best(records, best_by, [loss, perplexity, bleu, rate])
    _style(loss, perplexity, bleu, rate)
    return result


def _style(loss: Axes, perplexity: Axes, bleu: Axes, rate: Axes) -> None:
    """Set titles, scales, grids and legends."""
    from matplotlib.ticker import LogLocator, NullLocator

    loss.set_title("Loss per token, with label smoothing")
    perplexity.set_title("Perplexity")
    perplexity.set_yscale("log")
    perplexity.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    perplexity.yaxis.set_major_formatter("{x:g}")
    perplexity.yaxis.set_minor_locator(NullLocator())
    bleu.set_title("Dev BLEU, greedy search")
    rate.set_title("Learning rate")
    rate.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    for axes in (loss, perplexity, bleu, rate):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
        if axes is not rate and axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    for axes in (bleu, rate):
        axes.set_xlabel("step")
        axes.xaxis.set_major_formatter("{x:,.0f}")


def _line(axes: Axes, records: Records, name: str, **style: Any) -> None:
    """Draw a value over the steps; null (infinity) leaves a gap."""
    points = [
        (record["step"], math.nan if record[name] is None else record[name])
        for record in records
        if name in record
    ]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def _mark_averages(records: Records, axes_by_name: dict[str, Axes]) -> None:
    """Mark the latest record of each average."""
    last = {_label(record): record for record in records if not is_checkpoint(record)}
    for (label, record), marker in zip(last.items(), "Ds", strict=False):
        for name, axes in axes_by_name.items():
            if record.get(name) is not None:
                value = record[name]
                axes.plot(record["step"], value, marker, color=_DEV, mfc="white", label=label)


def _mark_best(records: Records, best_by: str, all_axes: Sequence[Axes]) -> None:
    """Draw a vertical line at the step of the best weights."""
    scored = [record for record in records if record.get("dev_loss") is not None]
    if not scored:
        return
    best = max(scored, key=lambda record: selection_score(record, best_by))
    at = "" if is_checkpoint(best) else f" at step {best['step']:,}"
    label = f"best: {_label(best)}{at}"
    for axes in all_axes:
        axes.axvline(best["step"], color=_BEST, linestyle=":", linewidth=1.5, label=label)


def _label(record: dict[str, Any]) -> str:
    """Return a name for the weights of a record."""
    if "averaged" in record:
        return f"average of {record['averaged']} checkpoints"
    if "ema_decay" in record:
        return "EMA"
    return f"step {record['step']:,}"
