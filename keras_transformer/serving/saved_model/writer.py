"""A run written as a SavedModel."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.compat.tensorflow import saved_model_pb2
from keras_transformer.config import SearchConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.serving import card, warmup
from keras_transformer.serving.dev_bleu import Log
from keras_transformer.serving.saved_model import lint
from keras_transformer.serving.saved_model.compact import compact
from keras_transformer.serving.saved_model.module import ServedTranslator
from keras_transformer.serving.saved_model.weights import Weights
from keras_transformer.serving.settings import Precision

# Sentences per call of the graph, which divides them into chunks.
_ROWS = 500


class SavedModelWriter:
    """Writer of a SavedModel for TensorFlow Serving; see ``serving.export.Writer``.

    ``search.n_best`` of 1 means the whole beam.
    """

    def __init__(self, run: Run, search: SearchConfig, max_tokens: int, dtype: Precision) -> None:
        if search.n_best == 1:
            search = dataclasses.replace(search, n_best=search.beam)
        self._model = run.model()
        self.tokenizer = run.tokenizer()
        network = run.model("bfloat16") if dtype == "bfloat16" else self._model
        weights = Weights(network, dtype)
        self.parameters: int = self._model.count_params()
        self.bytes = weights.bytes
        self.libraries: dict[str, str] = {}
        source_end = run.config.data.source_end
        self._module = ServedTranslator(
            network, weights, self.tokenizer, search, max_tokens, source_end
        )
        self._search = search
        self._max_tokens = max_tokens
        self._data = dataclasses.replace(run.config.data, on_long="cut")

    def write(self, folder: Path, name: str, log: Log) -> None:
        """Trace and save the graph, make it smaller, add warm-up requests and check it.

        Raises:
            LintError: TensorFlow Serving would refuse it.
        """
        signatures = self._module.signatures
        try:
            tf.saved_model.save(self._module, str(folder), signatures=signatures)
        except tf.errors.OpError as error:  # such as a full disk
            reason = str(error.message).partition(" [Op:")[0].rpartition("; ")[2]
            raise OSError(reason) from error
        shutil.rmtree(folder / "assets", ignore_errors=True)  # empty
        compact(folder)
        inputs = {
            key: [spec.name for spec in function.input_signature]
            for key, function in signatures.items()
        }
        warmup.write(folder, name, inputs)
        log("checking for what TensorFlow Serving would refuse")
        lint.check(folder)
        saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        self._definitions = dict(saved.meta_graphs[0].signature_def)

    def interface(self) -> dict[str, Any]:
        """Return the signatures and the search for the card."""
        return card.saved_model_interface(
            self._module.signatures, self._definitions, self._search, self._max_tokens
        )

    def translate(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with the loaded SavedModel."""
        translate = tf.saved_model.load(str(folder)).signatures["translate"]
        texts: list[str] = []
        for first in range(0, len(lines), _ROWS):
            outputs = translate(text=tf.constant(lines[first : first + _ROWS]))
            texts += [text.decode() for text in outputs["translation"].numpy()]
        return texts

    def translate_float32(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with the run's own translator."""
        translator = Translator(self._model, self.tokenizer, self._search, self._data)
        return [item.text for item in translator.translate(lines)]
