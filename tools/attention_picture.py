"""Generator of the picture of a translation's attention, docs/images/attention.svg."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_transformer.cli.streams import output
from tools import svg

FILE = Path(__file__).resolve().parents[1] / "docs" / "images" / "attention.svg"
COMMAND = "python -m tools.attention_picture"
SENTENCE = "My brother wants to buy a new car tomorrow."

CELL, LABEL, TOP, MARGIN = 50.0, 92.0, 62.0, 22.0
DARK = (21, 88, 145)  # the color of weight 1; white is 0


def picture(source: Sequence[str], target: Sequence[str], weights: np.ndarray) -> str:
    """Return the SVG file: a row for each target token, a column for each source token.

    Args:
        source: S tokens of the sentence.
        target: T tokens of its translation.
        weights: (T, S), 0 to 1.

    Raises:
        ValueError: The shape of the weights is another.
    """
    if weights.shape != (len(target), len(source)):
        raise ValueError(f"weights: expected ({len(target)}, {len(source)}), got {weights.shape}")
    parts = [
        svg.text(MARGIN + LABEL + (column + 0.5) * CELL, TOP - 10, _label(token), 12)
        for column, token in enumerate(source)
    ]
    for row, token in enumerate(target):
        y = TOP + row * CELL
        parts.append(svg.text(MARGIN + LABEL - 10, y + CELL / 2 + 5, _label(token), 16, "end"))
        for column, weight in enumerate(weights[row]):
            x = MARGIN + LABEL + column * CELL
            parts.append(svg.rect(x, y, CELL, CELL, _color(float(weight)), stroke="#ffffff"))
            if weight >= 0.005:
                ink = "#ffffff" if weight > 0.5 else "#52606d"
                number = f"{weight:.2f}".removeprefix("0")
                parts.append(svg.text(x + CELL / 2, y + CELL / 2 + 4, number, 12, fill=ink))
    width = MARGIN * 2 + LABEL + CELL * len(source)
    parts.append(svg.text(MARGIN + LABEL, 22, "source", 12, "start", "#52606d"))
    parts.append(svg.text(MARGIN + LABEL - 10, TOP - 10, "translation", 12, "end", "#52606d"))
    title = f"Attention of {' '.join(map(_label, target))} to {' '.join(map(_label, source))}"
    return svg.document(width, TOP + CELL * len(target) + MARGIN, title, parts)


def _label(token: str) -> str:
    return token.replace("\u2581", "") or "\u2423"


def _color(weight: float) -> str:
    parts = (round(255 + (dark - 255) * min(max(weight, 0.0), 1.0)) for dark in DARK)
    return "#" + "".join(f"{part:02x}" for part in parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Translate a sentence with a run and write the picture."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Draw the attention of a sentence.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    parser.add_argument("--run", type=Path, required=True, help="run folder of a trained model")
    parser.add_argument("--sentence", default=SENTENCE, help=f"default: {SENTENCE}")
    options = parser.parse_args(arguments)
    from keras_transformer import Translator  # imports TensorFlow

    translator = Translator.from_run(options.run)
    (translation,) = translator.translate([options.sentence], attention=True)
    found = translation.attention
    if found is None:
        parser.error("--sentence: expected text, got a blank line")
    with output(str(options.file), "file") as stream:
        stream.write(picture(found.source, found.target, found.weights))
    print(translation.text)


if __name__ == "__main__":
    main()
