"""A run written as a folder that Hugging Face's MarianMT loads."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer import system
from keras_transformer.config import SearchConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.run import Run
from keras_transformer.serving.dev_bleu import Log
from keras_transformer.serving.marian_hf import representable
from keras_transformer.serving.marian_hf.generation import generation_config
from keras_transformer.serving.marian_hf.network import EPSILON, MarianNetwork
from keras_transformer.serving.marian_hf.safetensors import write_safetensors
from keras_transformer.serving.marian_hf.vocabulary import (
    END_TOKEN,
    PAD_TOKEN,
    UNKNOWN_TOKEN,
    MarianVocabulary,
    language_tags,
    model_bytes,
    vocabularies,
)
from keras_transformer.serving.search_warnings import search_warnings
from keras_transformer.serving.settings import BYTES, ExportError, Precision

_SPECIAL = {"eos_token": END_TOKEN, "unk_token": UNKNOWN_TOKEN, "pad_token": PAD_TOKEN}


class MarianHfWriter:
    """Writer of a model for Hugging Face's MarianMT; see ``serving.export.Writer``."""

    def __init__(self, run: Run, search: SearchConfig, max_tokens: int, dtype: Precision) -> None:
        representable.check(run.config)
        self.tokenizer = run.tokenizer()
        self._sides = representable.sentencepiece_sides(self.tokenizer)
        self._run, self._search, self._dtype = run, search, dtype
        self._model = run.model()
        self._max_tokens = max_tokens
        self._longest = search.length_limit(max_tokens - 1)  # END does not count
        positions = max(max_tokens, self._longest + 1)
        self._network = MarianNetwork(self._model, run.config.model, positions)
        common = run.config.model.embeddings == "tied" or self.tokenizer.same_ids
        self._vocabularies = vocabularies(*self._sides, self._network.lacking(), common)
        self._generation = generation_config(
            search, self._longest, self._vocabularies[1], self.tokenizer.target
        )
        self.parameters: int = self._model.count_params()
        table = 2 * positions * run.config.model.d_model
        self.bytes = BYTES[dtype] * (self.parameters + table)
        self.libraries: dict[str, str] = {}
        self._warnings = [
            *self._network_warnings(run, positions),
            *search_warnings(search, self._longest, "MarianMT", "max_length"),
        ]

    def _network_warnings(self, run: Run, positions: int) -> list[str]:
        model, warnings = run.config.model, []
        if model.layer_norm_epsilon != EPSILON:
            warnings.append(
                f"model.layer_norm_epsilon {model.layer_norm_epsilon:g}: MarianMT computes with "
                f"{EPSILON:g}; weights are multiplied so that its results are the same"
            )
        if self._network.has_tables:
            warnings.append(
                f"positions: MarianMT computes other ones; model.safetensors holds {positions} "
                "positions, which from_pretrained reads, but save_pretrained leaves out: a copy "
                "that it saves is another model"
            )
        if not self._network.start_is_padding():
            warnings.append(
                "padding: MarianMT has one token for it and the decoder's first input, and takes "
                "the latter's weights; its log-probabilities are those of the run without padding, "
                "which is never generated"
            )
        return warnings

    def write(self, folder: Path, name: str, log: Log) -> None:
        """Write the network, the tokenizer and the settings of both."""
        for warning in self._warnings:
            log(f"warning: {warning}")
        source, target = self._vocabularies
        config = self._network.config(source, target) | {"dtype": self._dtype}
        write_safetensors(folder / "model.safetensors", self._tensors())
        system.write_json(folder / "config.json", config)
        system.write_json(folder / "generation_config.json", self._generation)
        tags = language_tags(self._sides[0])
        for side, stem in zip(self._sides, ("source", "target"), strict=True):
            (folder / f"{stem}.spm").write_bytes(model_bytes(side, tags))
        system.write_json(folder / "vocab.json", source.ids)
        if source is not target:
            system.write_json(folder / "target_vocab.json", target.ids)
        system.write_json(folder / "tokenizer_config.json", self._tokenizer_config(source, target))
        system.write_json(folder / "special_tokens_map.json", _SPECIAL)

    def _tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors in the type of the weights.

        Raises:
            ExportError: A weight is too large for float16.
        """
        tensors = self._network.tensors(*self._vocabularies)
        if self._dtype == "float32":
            return tensors
        for name, tensor in tensors.items():
            if name.endswith("embed_positions.weight"):
                continue  # rounded positions would cost more than all other weights together
            tensors[name] = _float16(name, tensor)
        return tensors

    def _tokenizer_config(
        self, source: MarianVocabulary, target: MarianVocabulary
    ) -> dict[str, Any]:
        added = {
            str(source.ids[token]): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token in _SPECIAL.values()
        }
        data = self._run.config.data
        return {
            "tokenizer_class": "MarianTokenizer",
            "added_tokens_decoder": added,
            **_SPECIAL,
            "source_lang": data.source,
            "target_lang": data.target,
            "separate_vocabs": source is not target,
            "sp_model_kwargs": {},
            "model_max_length": self._max_tokens,
            # Text such as "</s>" is no end token here; see data/sentencepiece_tokenizer.py.
            "split_special_tokens": True,
        }

    def interface(self) -> dict[str, Any]:
        """Return arguments of ``MarianMTModel.generate``, and warnings."""
        return {
            "format": "marian-hf",
            "generate": self._generation,
            "warnings": self._warnings,
        }

    def translate(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with the search of the run and weights rounded as the written ones.

        Hugging Face's packages are not needed for an export.
        """
        if self._dtype == "float32":
            return self.translate_float32(folder, lines)
        rounded = self._run.model()
        for weight in rounded.weights:
            weight.assign(_float16(weight.path, weight.numpy()).astype(np.float32))
        return self._translate(rounded, lines)

    def translate_float32(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with the run's own translator."""
        return self._translate(self._model, lines)

    def _translate(self, model: Any, lines: list[str]) -> list[str]:
        data = dataclasses.replace(self._run.config.data, on_long="cut")
        translator = Translator(model, self.tokenizer, self._search, data)
        return [item.text for item in translator.translate(lines)]


def _float16(name: str, values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16)
    if not np.isfinite(rounded).all():
        raise ExportError(
            f"dtype float16: expected weights up to 65504, got a greater one in {name}; export "
            "with --dtype float32"
        )
    return rounded
