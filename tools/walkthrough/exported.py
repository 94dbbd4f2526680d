"""Third part of the walkthrough: the same translation by the exported graph."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tensorflow as tf

from keras_transformer.run import Run
from keras_transformer.serving.saved_model.writer import SavedModelWriter
from tools.generated_blocks import table
from tools.walkthrough.formatting import number

SIGNATURES = ("translate", "nbest", "options", "score", "align")


def export_blocks(run: Run, sentence: str, expected: str) -> dict[str, str]:
    """Export a run and return the blocks about its signatures and its reply.

    Args:
        run: The trained run.
        sentence: The sentence to translate.
        expected: Its translation by the translator.

    Raises:
        ValueError: The export translates otherwise.
    """
    writer = SavedModelWriter(run, run.config.search, run.config.data.max_tokens, "float32")
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "1"
        folder.mkdir()
        writer.write(folder, "walkthrough", lambda line: None)
        loaded = tf.saved_model.load(str(folder))
        functions = {name: loaded.signatures[name] for name in SIGNATURES}
        reply = functions["translate"](text=tf.constant([sentence]))
        rows = [
            [
                f"`{name}`",
                ", ".join(f"`{key}`" for key in sorted(function.structured_input_signature[1])),
                ", ".join(f"`{key}`" for key in sorted(function.structured_outputs)),
            ]
            for name, function in functions.items()
        ]
    translation = reply["translation"].numpy()[0].decode()
    if translation != expected:
        raise ValueError(f"export: expected {expected!r}, got {translation!r}")
    answer = [
        ["translation", translation],
        ["score", number(reply["score"].numpy()[0])],
        ["truncated", str(bool(reply["truncated"].numpy()[0])).lower()],
    ]
    return {
        "signatures": table(["signature", "inputs", "outputs"], rows),
        "reply": table(["output", f"for `{sentence}`"], answer),
    }
