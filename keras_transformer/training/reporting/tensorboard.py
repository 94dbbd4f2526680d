"""TensorBoard event files: scalars, translations of the dev set, attention maps.

RUN/tensorboard has one folder per curve, so that TensorBoard draws the same metric of all folders
into one chart: ``train``, ``dev``, and for the averages at the end, ``average`` and ``ema``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from keras_transformer import system
from keras_transformer.inference.alignment import Attention
from keras_transformer.optional_dependencies import require_installed
from keras_transformer.training.scores import Example
from keras_transformer.utf8_paths import utf8_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "tensorboard"
"""Name of the folder in the run folder."""
EXAMPLES = 10
"""Dev sentences in the table of translations."""
ATTENTION_IMAGES = 3
"""Dev sentences with an attention map."""

_TRAIN_TAGS = {
    "train_loss": "loss",
    "train_perplexity": "perplexity",
    "learning_rate": "learning rate",
    "gradient_norm": "gradient norm",
    "source_tokens_per_second": "source tokens per second",
    "target_tokens_per_second": "target tokens per second",
}
_DEV_TAGS = {"dev_loss": "loss", "dev_perplexity": "perplexity", "dev_bleu": "BLEU"}
# Fonts with Chinese, Japanese and Korean letters, which matplotlib's default font lacks.
_CJK_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "PingFang SC", "SimHei")


class TensorBoardWriter:
    """Writer of the event files of a run.

    Args:
        path: The run folder.
        log: Called with a line about a picture that cannot be drawn.
    """

    def __init__(self, path: Path, log: Callable[[str], None] = lambda line: None) -> None:
        self._folder = path / FOLDER
        self._log = log
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def train(self, step: int, metrics: dict[str, float]) -> None:
        """Write the metrics of the last steps, named as in steps.jsonl."""
        self._scalars("train", step, metrics, _TRAIN_TAGS)

    def dev(
        self,
        step: int,
        scores: dict[str, float],
        examples: Sequence[Example],
        attention: Sequence[Attention],
    ) -> None:
        """Write the results of a checkpoint on the dev set.

        Args:
            step: Step of the checkpoint.
            scores: Scores from `DevSet.evaluate`.
            examples: Sentences for the table of translations.
            attention: Cross-attention to draw, one image each.
        """
        self._scalars("dev", step, scores, _DEV_TAGS)
        with self._writer("dev").as_default(step):
            if examples:
                tf.summary.text("translations", markdown_table(examples))
            for number, one in enumerate(attention, start=1):
                pixels = self._drawn(one)
                if pixels is None:
                    break
                tf.summary.image(f"attention/{number}", pixels)
        self._writer("dev").flush()

    def _drawn(self, attention: Attention) -> np.ndarray | None:
        """Return the pixels of an attention map, or log why there are none."""
        try:
            return _pixels(attention_figure(attention))
        except Exception as error:  # Matplotlib and its fonts may raise anything
            reason = str(error).strip().splitlines() or [type(error).__name__]
            self._log(f"{self._folder}: attention not drawn: {reason[0]}")
            return None

    def average(self, kind: str, step: int, scores: dict[str, float]) -> None:
        """Write the scores of averaged weights.

        Args:
            kind: "average" or "ema", the name of the folder.
            step: The last step.
            scores: Scores from `DevSet.evaluate`.
        """
        self._scalars(kind, step, scores, _DEV_TAGS)

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()

    def _scalars(
        self, kind: str, step: int, values: dict[str, float], tags: dict[str, str]
    ) -> None:
        with self._writer(kind).as_default(step):
            for name in tags.keys() & values.keys():
                tf.summary.scalar(tags[name], values[name])
        self._writer(kind).flush()  # visible in TensorBoard at once

    def _writer(self, kind: str) -> tf.summary.SummaryWriter:
        if kind not in self._writers:
            folder = utf8_path(self._folder / kind)
            self._writers[kind] = tf.summary.create_file_writer(str(folder))
        return self._writers[kind]


def check_installed() -> None:
    """Check that event files can be written.

    Raises:
        MissingError: A package is not installed; the message names it.
    """
    require_installed("train.tensorboard", ["tensorboard", "matplotlib"])


def truncate(path: Path, step: int) -> None:
    """Remove the events of steps after ``step``, which will be repeated.

    TensorBoard would show a step in two files twice. A truncated event of a killed run is
    removed too. A file that cannot be read stays.

    Args:
        path: The run folder.
        step: The last step to keep.

    Raises:
        FileError: A file cannot be written.
    """
    for file in sorted((utf8_path(path) / FOLDER).glob("*/*.tfevents.*")):
        try:
            system.check_regular(file)
            events = list(_events(file))
        except (OSError, tf.errors.OpError):  # left as it is: no chart ends a training
            continue
        kept = [event for event in events if tf.compat.v1.Event.FromString(event).step <= step]
        with system.atomic_file(file) as partial, tf.io.TFRecordWriter(str(partial)) as writer:
            for event in kept:
                writer.write(event)


def _events(file: Path) -> Iterator[bytes]:
    try:
        for event in tf.data.TFRecordDataset(str(file)):
            yield event.numpy()
    except tf.errors.DataLossError:  # the last event is truncated
        return


def markdown_table(examples: Sequence[Example]) -> str:
    """Return sentences as a Markdown table."""
    rows = [Example._fields, ("---",) * len(Example._fields)]
    rows += [tuple(map(_escape, example)) for example in examples]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape(text: str) -> str:
    """Escape text, so that Markdown shows it unchanged in a table cell."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)


def attention_figure(attention: Attention) -> Figure:
    """Draw a heat map of the attention from each target token to each source token."""
    from matplotlib import font_manager
    from matplotlib.figure import Figure

    rows, columns = attention.weights.shape
    figure = Figure(figsize=(2.5 + 0.3 * columns, 1.8 + 0.3 * rows), dpi=80, layout="constrained")
    axes = figure.subplots()
    axes.imshow(attention.weights, cmap="Blues", vmin=0.0, vmax=1.0)
    installed = set(font_manager.get_font_names())
    family = ["DejaVu Sans", *(name for name in _CJK_FONTS if name in installed)]
    axes.set_xticks(range(columns), _labels(attention.source), rotation=90, family=family)
    axes.set_yticks(range(rows), _labels(attention.target), family=family)
    axes.set(xlabel="source", ylabel="translation")
    return figure


def _labels(tokens: Sequence[str]) -> list[str]:
    # A dollar sign would start a formula.
    return [token.replace("$", r"\$") for token in tokens]


def _pixels(figure: Figure) -> np.ndarray:
    """Render the figure: (1, height, width, 3) uint8."""
    import warnings

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # drawn as a box
        figure.savefig(buffer, format="png")
    return tf.io.decode_png(buffer.getvalue(), channels=3)[None].numpy()
