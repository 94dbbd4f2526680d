"""Generator of the tables of docs/paper.md: the paper's Tables 1 to 3 beside this package.

Table 3's models are built at their full size, one after the other, so it takes a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_transformer.cli.streams import output
from keras_transformer.config import Config, ModelConfig, from_dict
from keras_transformer.presets import preset
from tools.generated_blocks import replace_blocks, table

FILE = Path(__file__).resolve().parents[1] / "docs" / "paper.md"
COMMAND = "python -m tools.paper_tables"

WIDTH, KERNEL, NEIGHBOURS = 512, 3, 32  # d, k and r of Table 1
LENGTHS = (32, 512, 2048)
VOCABULARY = 37_000
LARGER = 4_000  # rows of a larger vocabulary, which fits the paper's counts better


@dataclass(frozen=True)
class Row:
    """A row of Table 3: the paper's figures, and the options that lead to it."""

    name: str
    change: str
    """The changed values, in the paper's symbols."""
    perplexity: float
    bleu: float
    parameters: int | None = None
    """The paper's count in millions; None where it names none, as the count hardly changes."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options in addition to those of the preset `base`."""
    preset: str = "base"

    @property
    def config(self) -> Config:
        """The configuration, with the paper's vocabulary of 37,000 subwords."""
        base = preset(self.preset)
        sections: dict[str, dict[str, Any]] = {
            "model": dict.fromkeys(_VOCABULARY_SIZES, VOCABULARY),
            "train": {},
        }
        for name, value in self.options.items():
            section, _, option = name.partition(".")
            sections[section][option] = value
        return from_dict(sections, base)

    @property
    def command(self) -> str:
        """The options as they are typed."""
        if self.preset != "base":
            return f"`--preset {self.preset}`"
        words = " ".join(f"`--{name} {value}`" for name, value in self.options.items())
        return words or "`--preset base`"


_VOCABULARY_SIZES = ("source_vocabulary_size", "target_vocabulary_size")


def _layers(count: int) -> dict[str, Any]:
    return {"model.encoder_layers": count, "model.decoder_layers": count}


TABLE_3 = (
    Row("base", "", 4.92, 25.8, 65),
    Row("(A)", "h 1, d_k = d_v 512", 5.29, 24.9, options={"model.heads": 1}),
    Row("(A)", "h 4, d_k = d_v 128", 5.00, 25.5, options={"model.heads": 4}),
    Row("(A)", "h 16, d_k = d_v 32", 4.91, 25.8, options={"model.heads": 16}),
    Row("(A)", "h 32, d_k = d_v 16", 5.01, 25.4, options={"model.heads": 32}),
    Row("(B)", "d_k 16", 5.16, 25.1, 58, {"model.d_key": 16}),
    Row("(B)", "d_k 32", 5.01, 25.4, 60, {"model.d_key": 32}),
    Row("(C)", "N 2", 6.11, 23.7, 36, _layers(2)),
    Row("(C)", "N 4", 5.19, 25.3, 50, _layers(4)),
    Row("(C)", "N 8", 4.88, 25.5, 80, _layers(8)),
    Row("(C)", "d_model 256, d_k = d_v 32", 5.75, 24.5, 28, {"model.d_model": 256}),
    Row("(C)", "d_model 1024, d_k = d_v 128", 4.66, 26.0, 168, {"model.d_model": 1024}),
    Row("(C)", "d_ff 1024", 5.12, 25.4, 53, {"model.d_ff": 1024}),
    Row("(C)", "d_ff 4096", 4.75, 26.2, 90, {"model.d_ff": 4096}),
    Row("(D)", "P_drop 0.0", 5.77, 24.6, options={"model.dropout": 0.0}),
    Row("(D)", "P_drop 0.2", 4.95, 25.5, options={"model.dropout": 0.2}),
    Row("(D)", "ε_ls 0.0", 4.67, 25.3, options={"train.label_smoothing": 0.0}),
    Row("(D)", "ε_ls 0.2", 5.47, 25.7, options={"train.label_smoothing": 0.2}),
    Row("(E)", "learned positions", 4.92, 25.7, options={"model.positions": "learned"}),
    Row(
        "big",
        "d_model 1024, d_ff 4096, h 16, P_drop 0.3",
        4.33,
        26.4,
        213,
        preset="big",
    ),
)


# Preset, corpus, BLEU, vocabulary size, updates, source and target tokens of an update.
RUNS = (
    ("base", "WMT14 English-German", "27.3, the paper", VOCABULARY, 100_000, (25_000, 25_000)),
    ("big", "WMT14 English-German", "28.4, the paper", VOCABULARY, 300_000, (25_000, 25_000)),
    ("tiny", "Multi30k English-German", "40.6, here", 10_000, 8_000, (4_096, 4_096)),
    ("demo", "built-in English-Chinese", "97.8, here", 2_500, 1_000, (1_992, 1_544)),
)
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def parameters(config: Config) -> int:
    """Build a model and return the number of its parameters."""
    from keras_transformer import build  # imports TensorFlow

    return int(build(config.model).count_params())


def table_1() -> str:
    """Return the paper's Table 1 with counts of multiplications for some lengths."""
    d, k, r = WIDTH, KERNEL, NEIGHBOURS
    rows = [
        ("self-attention", "O(n² · d)", "O(1)", "O(1)", lambda n: 2 * n * n * d, lambda n: (1, 1)),
        ("its four projections", "", "O(1)", "", lambda n: 4 * n * d * d, lambda n: (1, 0)),
        ("recurrent", "O(n · d²)", "O(n)", "O(n)", lambda n: 8 * n * d * d, lambda n: (n, n)),
        (
            "convolutional",
            "O(k · n · d²)",
            "O(1)",
            "O(log_k n)",
            lambda n: k * n * d * d,
            lambda n: (1, math.ceil(math.log(n, k))),
        ),
        (
            "self-attention, restricted",
            "O(r · n · d)",
            "O(1)",
            "O(n / r)",
            lambda n: 2 * min(r, n) * n * d,
            lambda n: (1, max(n // r, 1)),
        ),
    ]
    header = ["layer", "complexity", "sequential", "longest path"]
    header += [f"n = {n:,}" for n in LENGTHS] + [f"steps, path at n = {LENGTHS[1]}"]
    cells = []
    for name, complexity, sequential, path, count, serial in rows:
        steps, length = serial(LENGTHS[1])
        counts = [f"{count(n) / 1e6:,.0f} M" for n in LENGTHS]
        cells.append(
            [name, complexity, sequential, path, *counts, f"{steps}, {length}" if length else ""]
        )
    return table(header, cells)


def training_operations(model: ModelConfig, source_tokens: float, target_tokens: float) -> float:
    """Return the multiplications and additions of a training, without the n² terms of attention.

    Args:
        model: Its vocabulary size is set.
        source_tokens: Source tokens of all updates together.
        target_tokens: Target tokens of all updates together.
    """
    width, attention = model.d_model, 4 * model.d_model**2  # with heads of D / H
    feed_forward = 2 * width * model.d_ff
    encoder = 2 * model.encoder_layers * (attention + feed_forward)
    decoder = 2 * model.decoder_layers * (2 * attention + feed_forward)
    projection = 2 * model.target_vocabulary_size * width
    # The backward pass costs twice the forward pass.
    return 3 * (encoder * source_tokens + (decoder + projection) * target_tokens)


def table_2() -> str:
    """Return the operations of the paper's trainings and of those in docs/results.md."""
    rows = []
    for name, corpus, bleu, vocabulary, steps, tokens in RUNS:
        model = dataclasses.replace(
            preset(name).model,
            source_vocabulary_size=vocabulary,
            target_vocabulary_size=vocabulary,
        )
        operations = training_operations(model, steps * tokens[0], steps * tokens[1])
        exponent = math.floor(math.log10(operations))
        power = str(exponent).translate(_SUPERSCRIPT)
        cost = f"{operations / 10**exponent:.1f} · 10{power}"
        rows.append([f"`{name}`", corpus, f"{steps:,}", cost, bleu])
    return table(["preset", "corpus", "updates", "operations", "BLEU"], rows)


def table_3() -> str:
    """Return the paper's Table 3 with options and the parameters of the built models."""
    counts: dict[Any, int] = {}
    rows = []
    for row in TABLE_3:
        model = row.config.model
        # Heads of the same total width, dropout and smoothing add no parameter.
        key = (
            model.encoder_layers,
            model.d_model,
            model.d_ff,
            model.heads * model.key_width,
            model.heads * model.value_width,
            model.positions,
        )
        if key not in counts:
            counts[key] = parameters(row.config)
            gc.collect()
        rows.append(
            [
                row.name,
                row.change,
                row.command,
                f"{row.perplexity:.2f}",
                f"{row.bleu:.1f}",
                str(row.parameters or ""),
                f"{counts[key] / 1e6:.1f}",
                f"{(counts[key] + LARGER * model.d_model) / 1e6:.1f}",
            ]
        )
    sizes = [f"here, V {size:,}" for size in (VOCABULARY, VOCABULARY + LARGER)]
    header = ["row", "change", "options", "PPL", "BLEU", "10⁶ parameters", *sizes]
    return table(header, rows)


def blocks() -> dict[str, str]:
    """Return the generated blocks of the document."""
    return {"table-1": table_1(), "table-2": table_2(), "table-3": table_3()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables into the document."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the tables of paper.md.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    path = parser.parse_args(arguments).file
    text = replace_blocks(path.read_text(encoding="utf-8"), blocks())
    with output(str(path), "file") as stream:
        stream.write(text)


if __name__ == "__main__":
    main()
