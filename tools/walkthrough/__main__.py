"""Generator of the numbers in docs/walkthrough.md: ``python -m tools.walkthrough``.

The sentence passes through the layers and functions of the package one by one. Values that can be
computed in two ways are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.streams import output
from tools.generated_blocks import replace_blocks

FILE = Path(__file__).resolve().parents[2] / "docs" / "walkthrough.md"
COMMAND = "python -m tools.walkthrough"
RUN = "builtin:phrasebook"


def blocks(run: str = RUN) -> dict[str, str]:
    """Return the blocks of the document for a run.

    Args:
        run: A run folder, or the name of a built-in model.
    """
    import tensorflow as tf

    from keras_transformer.run import Run
    from keras_transformer.special_tokens import END
    from tools.walkthrough import exported, forward, probe, search, training

    opened = Run.open(Path(run))
    model, tokenizer, config = opened.model(), opened.tokenizer(), opened.config
    source = tf.constant([[*tokenizer.source.encode([forward.SENTENCE])[0], END]])
    searched, labels = search.search_blocks(model, tokenizer, config.search, source)
    translation = tokenizer.target.decode(labels.numpy().tolist())[0]
    return {
        "model": forward.model_block(opened, model),
        **forward.text_blocks(tokenizer),
        **forward.forward_blocks(model, tokenizer, source, labels),
        "probe": probe.probe_block(model, tokenizer),
        **searched,
        **training.training_blocks(config, tokenizer, model),
        **exported.export_blocks(opened, forward.SENTENCE, translation),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the numbers into the document."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the walkthrough's numbers.")
    parser.add_argument("file", nargs="?", type=Path, default=FILE, help=f"default: {FILE.name}")
    parser.add_argument("--run", default=RUN, help=f"run folder or built-in model; default: {RUN}")
    options = parser.parse_args(arguments)
    text = replace_blocks(options.file.read_text(encoding="utf-8"), blocks(options.run))
    with output(str(options.file), "file") as stream:
        stream.write(text)


if __name__ == "__main__":
    main()
