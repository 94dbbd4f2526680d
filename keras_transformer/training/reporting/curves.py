"""A picture of a whole training, from its records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer import system
from keras_transformer.optional_dependencies import install_command, missing
from keras_transformer.training.best_weights import is_checkpoint
from keras_transformer.training.dev_set import selection_score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE = "curves.png"
"""In the run folder."""

Records = Sequence[dict[str, Any]]
_TRAIN, _DEV, _BEST = "#7f7f7f", "#1f77b4", "#d62728"


def write(
    path: Path, records: Records, steps: Records, best_by: str, tell: Callable[[str], None]
) -> None:
    """Draw the curves of a run; a training never fails for them.

    Args:
        path: The run folder.
        records: Of checkpoints and averages, from metrics.jsonl.
        steps: Of the steps in between, from steps.jsonl.
        best_by: As in the configuration.
        tell: Told in a line where nothing can be drawn.
    """
    if not (records or steps):
        return
    place = path / FILE
    if missing(["matplotlib"]):
        command = install_command(["matplotlib"])
        tell(f"{place}: not drawn without matplotlib; after {command}, --resume does")
        return
    try:
        figure = drawn(records, steps, best_by)
        with system.atomic_file(place) as aside:
            figure.savefig(aside, format="png")
    except Exception as error:  # whatever a library of another version does
        reason = str(error).strip().splitlines() or [type(error).__name__]
        tell(f"{place}: not drawn: {reason[0]}")


def drawn(records: Records, steps: Records, best_by: str) -> Figure:
    """The curves of loss, perplexity, BLEU and learning rate over the steps."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    checkpoints = [record for record in records if is_checkpoint(record)]
    # Runs of earlier versions have no steps in between.
    taken = steps or checkpoints
    figure = Figure(figsize=(11, 7.5), dpi=110, layout="constrained")
    (loss, perplexity), (bleu, rate) = figure.subplots(2, 2, sharex=True)
    for axes, name, title in (
        (loss, "loss", "Loss a token, label smoothing included"),
        (perplexity, "perplexity", "Perplexity"),
    ):
        _line(axes, taken, f"train_{name}", color=_TRAIN, linewidth=1, label="training")
        _line(axes, checkpoints, f"dev_{name}", color=_DEV, marker=".", label="dev")
        axes.set_title(title)
    perplexity.set_yscale("log")
    perplexity.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    perplexity.yaxis.set_major_formatter("{x:g}")
    perplexity.yaxis.set_minor_locator(NullLocator())
    _line(bleu, checkpoints, "dev_bleu", color=_DEV, marker=".", label="dev")
    bleu.set_title("BLEU of the dev set, greedy")
    _line(rate, taken, "learning_rate", color=_TRAIN)
    rate.set_title("Learning rate")
    rate.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    _mark_averages(records, {"dev_loss": loss, "dev_perplexity": perplexity, "dev_bleu": bleu})
    _mark_best(records, best_by, [loss, perplexity, bleu, rate])
    for axes in (loss, perplexity, bleu, rate):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
        if axes is not rate and axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    for axes in (bleu, rate):
        axes.set_xlabel("step")
        axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def _line(axes: Axes, records: Records, name: str, **style: Any) -> None:
    """Draw what the records hold of a number; one that is infinite leaves a gap."""
    points = [(record["step"], _number(record[name])) for record in records if name in record]
    if points:
        axes.plot(*zip(*points, strict=True), **style)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _mark_averages(records: Records, places: dict[str, Axes]) -> None:
    """Draw what was tried at the end of the run, or of the last part of it."""
    last = {_kind(record): record for record in records if not is_checkpoint(record)}
    for (kind, record), marker in zip(last.items(), "Ds", strict=False):
        for name, axes in places.items():
            if record.get(name) is not None:
                value = record[name]
                axes.plot(record["step"], value, marker, color=_DEV, mfc="white", label=kind)


def _mark_best(records: Records, best_by: str, places: Sequence[Axes]) -> None:
    """Draw a line at the step whose weights translate."""
    judged = [record for record in records if record.get("dev_loss") is not None]
    if not judged:
        return
    best = max(judged, key=lambda record: selection_score(record, best_by))
    at = "" if is_checkpoint(best) else f" at step {best['step']:,}"
    what = f"best: {_kind(best)}{at}"
    for axes in places:
        axes.axvline(best["step"], color=_BEST, linestyle=":", linewidth=1.5, label=what)


def _kind(record: dict[str, Any]) -> str:
    """What weights a record is about."""
    if "averaged" in record:
        return f"average of {record['averaged']} checkpoints"
    if "ema_decay" in record:
        return "moving average"
    return f"step {record['step']:,}"
