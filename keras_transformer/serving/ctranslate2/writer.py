"""A run written for CTranslate2, with its tokenizers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ctranslate2

from keras_transformer.config import SearchConfig
from keras_transformer.data.suppressed_tokens import suppressed_tokens
from keras_transformer.inference.plain_text import plain
from keras_transformer.run import Run
from keras_transformer.serving.ctranslate2 import spec
from keras_transformer.serving.dev_bleu import Log
from keras_transformer.serving.search_warnings import search_warnings
from keras_transformer.serving.settings import BYTES, Precision
from keras_transformer.special_tokens import PAD, START

# Minimum of encoded positions: the tokens that CTranslate2 reads by default.
_POSITIONS = 1_024


class CTranslate2Writer:
    """Writer of a model for CTranslate2; see ``serving.export.Writer``."""

    def __init__(self, run: Run, search: SearchConfig, max_tokens: int, dtype: Precision) -> None:
        spec.check(run.config.model)
        self._model = run.model()
        self.tokenizer = run.tokenizer()
        self.parameters: int = self._model.count_params()
        # float32 weights are written too, for the comparison of BLEU.
        width = BYTES[dtype] + BYTES["float32"] * (dtype != "float32")
        self.bytes = width * self.parameters
        self.libraries: dict[str, str] = {"ctranslate2": ctranslate2.__version__}
        self._config = run.config.model
        self._source_end = run.config.data.source_end
        self._dtype = dtype
        longest = search.length_limit(max_tokens - self._source_end)  # END does not count
        self._positions = max(_POSITIONS, max_tokens, longest + 1)
        self._batch_tokens = search.batch_tokens
        self._warnings = search_warnings(search, longest, "CTranslate2", "max_decoding_length")
        target = self.tokenizer.target
        suppressed = dict.fromkeys((PAD, START, *suppressed_tokens(search, target)))
        self._options = {
            "beam_size": search.beam,
            "length_penalty": search.alpha,
            "num_hypotheses": search.n_best,
            "max_input_length": max_tokens,
            "max_decoding_length": longest,
            "min_decoding_length": min(search.min_length, longest),  # the engine refuses more
            "no_repeat_ngram_size": search.no_repeat_ngram,
            "disable_unk": not search.allow_unknown,
            "suppress_sequences": [[name] for name in target.pieces(list(suppressed))],
        }

    def write(self, folder: Path, name: str, log: Log) -> None:
        """Write the model and the tokenizers."""
        for warning in self._warnings:
            log(f"warning: {warning}")
        self._save(folder, self._dtype)
        self.tokenizer.save(folder)

    def interface(self) -> dict[str, Any]:
        """Return arguments of ``ctranslate2.Translator.translate_batch``, and warnings."""
        return {
            "format": "ctranslate2",
            "translate_batch": self._options,
            "warnings": self._warnings,
        }

    def translate(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with CTranslate2 and the options of the card."""
        translator = ctranslate2.Translator(str(folder))
        source = self.tokenizer.source
        tokens = [source.pieces(ids) for ids in source.encode(lines)]
        results = translator.translate_batch(
            tokens, max_batch_size=self._batch_tokens, batch_type="tokens", **self._options
        )
        target = self.tokenizer.target
        return [plain(target.join(result.hypotheses[0]), target) for result in results]

    def translate_float32(self, folder: Path, lines: list[str]) -> list[str]:
        """Translate with float32 weights, written into a temporary folder."""
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            self._save(Path(temporary), "float32")
            return self.translate(Path(temporary), lines)

    def _save(self, folder: Path, dtype: Precision) -> None:
        model_spec = spec.build_spec(
            self._model, self._config, self.tokenizer, self._positions, dtype, self._source_end
        )
        model_spec.save(str(folder))
