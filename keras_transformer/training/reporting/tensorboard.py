"""Event files for TensorBoard: curves, translations of the dev set, pictures of attention.

They lie in RUN/tensorboard, in a folder for each kind of weights, so that TensorBoard draws the
same number of several kinds into one chart: ``train``, ``dev``, and for what is tried at the end
``average`` and ``ema_decay``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from keras_transformer import system
from keras_transformer.inference.alignment import Attention
from keras_transformer.optional_dependencies import require_installed
from keras_transformer.training.dev_set import Example

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "tensorboard"
"""In the run folder."""
EXAMPLES = 10
"""Dev sentences in the table of translations."""
PICTURES = 3
"""Dev sentences whose attention is drawn."""

_TRAIN = {
    "train_loss": "loss",
    "train_perplexity": "perplexity",
    "learning_rate": "learning rate",
    "gradient_norm": "gradient norm",
    "source_tokens_per_second": "source tokens a second",
    "target_tokens_per_second": "target tokens a second",
}
_DEV = {"dev_loss": "loss", "dev_perplexity": "perplexity", "dev_bleu": "BLEU"}
# Families with Chinese, Japanese and Korean, which matplotlib's own font has not.
_WIDE_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "PingFang SC", "SimHei")


class TensorBoard:
    """Writes the event files of a run.

    Args:
        path: The run folder.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path / FOLDER
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def train(self, step: int, values: dict[str, float]) -> None:
        """Add the numbers of the last steps, named as in steps.jsonl."""
        self._scalars("train", step, values, _TRAIN)

    def dev(
        self,
        step: int,
        scores: dict[str, float],
        examples: Sequence[Example],
        attention: Sequence[Attention],
    ) -> None:
        """Add what the weights of a checkpoint make of the dev set.

        Args:
            step: Of the checkpoint.
            scores: From `DevSet.evaluate`.
            examples: Some sentences.
            attention: Of some sentences.
        """
        self._scalars("dev", step, scores, _DEV)
        with self._writer("dev").as_default(step):
            if examples:
                tf.summary.text("translations", table(examples))
            for number, one in enumerate(attention, start=1):
                tf.summary.image(f"attention/{number}", _pixels(attention_picture(one)))
        self._writer("dev").flush()

    def average(self, kind: str, step: int, scores: dict[str, float]) -> None:
        """Add the scores of averaged weights.

        Args:
            kind: "average" or "ema_decay".
            step: The last one.
            scores: From `DevSet.evaluate`.
        """
        self._scalars(kind, step, scores, _DEV)

    def close(self) -> None:
        """End the files."""
        for writer in self._writers.values():
            writer.close()

    def _scalars(
        self, kind: str, step: int, values: dict[str, float], names: dict[str, str]
    ) -> None:
        with self._writer(kind).as_default(step):
            for name in names.keys() & values.keys():
                tf.summary.scalar(names[name], values[name])
        self._writer(kind).flush()  # to be seen now

    def _writer(self, kind: str) -> tf.summary.SummaryWriter:
        if kind not in self._writers:
            self._writers[kind] = tf.summary.create_file_writer(str(self._folder / kind))
        return self._writers[kind]


def check_installed() -> None:
    """See that event files can be written.

    Raises:
        MissingError: Names what to install.
    """
    require_installed("train.tensorboard", ["tensorboard", "matplotlib"])


def forget_after(path: Path, step: int) -> None:
    """Drop the events of steps after ``step``, which are about to be taken again.

    What was cut short when the run was killed goes too. TensorBoard itself would show steps
    twice that stand in two files.

    Args:
        path: The run folder.
        step: The last that stays.

    Raises:
        FileError: A file cannot be written.
    """
    for file in sorted((path / FOLDER).glob("*/*.tfevents.*")):
        kept = [
            event for event in _events(file) if tf.compat.v1.Event.FromString(event).step <= step
        ]
        with system.atomic_file(file) as place, tf.io.TFRecordWriter(str(place)) as writer:
            for event in kept:
                writer.write(event)


def _events(file: Path) -> Iterator[bytes]:
    try:
        for event in tf.data.TFRecordDataset(str(file)):
            yield event.numpy()
    except tf.errors.DataLossError:  # the last one was being written
        return


def table(examples: Sequence[Example]) -> str:
    """Sentences as a table in Markdown."""
    rows = [Example._fields, ("---",) * len(Example._fields)]
    rows += [tuple(map(_escaped, example)) for example in examples]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a cell of a table."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)


def attention_picture(attention: Attention) -> Figure:
    """How much each piece of a translation looked at each of its source, as shades."""
    from matplotlib import font_manager
    from matplotlib.figure import Figure

    rows, columns = attention.weights.shape
    figure = Figure(figsize=(2.5 + 0.3 * columns, 1.8 + 0.3 * rows), dpi=80, layout="constrained")
    axes = figure.subplots()
    axes.imshow(attention.weights, cmap="Blues", vmin=0.0, vmax=1.0)
    known = set(font_manager.get_font_names())
    family = ["DejaVu Sans", *(name for name in _WIDE_FONTS if name in known)]
    axes.set_xticks(range(columns), _shown(attention.source), rotation=90, family=family)
    axes.set_yticks(range(rows), _shown(attention.target), family=family)
    axes.set(xlabel="source", ylabel="translation")
    return figure


def _shown(micro_batches: Sequence[str]) -> list[str]:
    # A dollar sign would begin a formula.
    return [piece.replace("$", r"\$") for piece in micro_batches]


def _pixels(figure: Figure) -> np.ndarray:
    """(1, height, width, 3) uint8."""
    import warnings

    place = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # shown as a box
        figure.savefig(place, format="png")
    return tf.io.decode_png(place.getvalue(), channels=3)[None].numpy()
