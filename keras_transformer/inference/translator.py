"""Translator: encoding of lines, batches by length, search and detokenization.

Shapes: B batch, S source length, T target length.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer.config import DataConfig, SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.devices import has_gpu
from keras_transformer.inference.alignment import Attention, read_attention
from keras_transformer.inference.forbidden_tokens import forbidden_tokens
from keras_transformer.inference.grouping import batches, padded_ids, parallel_map, windows
from keras_transformer.inference.inference_functions import InferenceFunctions
from keras_transformer.inference.line_encoding import encode_lines, encode_prefixes
from keras_transformer.inference.n_best import read_translations
from keras_transformer.inference.search.generate import Start
from keras_transformer.inference.translation import (
    Alternative,
    Score,
    Translation,
    TranslationError,
)
from keras_transformer.special_tokens import source_tokens

__all__ = [
    "MAX_LOGITS",
    "WINDOW",
    "Alternative",
    "Attention",
    "Progress",
    "Score",
    "Translation",
    "TranslationError",
    "Translator",
]

WINDOW = 2_000
"""Lines of a stream that are read, sorted by length and translated together."""

MAX_LOGITS = 2**24
"""Most logits in memory: rows of a search step, or positions of forced scores, times the
vocabulary size. 2^24 floats are 64 MB; larger steps are no faster on CPUs."""
GPU_MAX_LOGITS = 2**28
"""The same on a GPU, which many rows keep busy; 1 GB."""

Progress = Callable[[int], None]
"""Called with the number of lines done since the last call."""


class Translator:
    """Translation and scoring of lines with one model.

    Sentences of similar length are batched; the result for a line does not depend on the
    others. One graph serves all shapes.

    Args:
        model: A model from ``transformer.build``; later changes of its weights count.
        tokenizer: The tokenizer that the model was trained with.
        search: Beam, length penalty, limits and batch size.
        data: ``max_tokens`` and ``on_long``, the limit for source lines, and ``source_end``.
        workers: Batches computed in parallel. One core for each batch, with one thread for each
            operation, translates many lines faster than all cores on one batch.
        fixed: Whether the weights never change again, which makes searches faster.

    Raises:
        TranslationError: The tokenizer does not fit the model.
        ConfigError: A piece of ``search.suppress`` is not in the target vocabulary.

    Example:
        >>> translator = Translator.from_run("builtin:phrasebook")
        >>> translator.translate(["I love you."])[0].text
        '我爱你。'
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        search: SearchConfig,
        data: DataConfig,
        workers: int = 1,
        fixed: bool = False,
    ) -> None:
        if model.output_shape[-1] != tokenizer.target.size:
            raise TranslationError(
                f"tokenizer: expected target vocabulary size {model.output_shape[-1]}, as in the "
                f"model, got {tokenizer.target.size}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.search = search
        self.data = data
        self._functions = InferenceFunctions(
            model,
            search,
            fixed,
            forbidden=forbidden_tokens(search, tokenizer.target),
            source_end=data.source_end,
        )
        self._workers = workers

    @classmethod
    def from_run(
        cls,
        run: Path | str,
        search: SearchConfig | None = None,
        *,
        dtype: str = "float32",
        workers: int = 1,
    ) -> Translator:
        """Load the translator of a trained run.

        Args:
            run: The run folder, or the name of a built-in model such as ``builtin:phrasebook``.
                Its best weights are used.
            search: Replaces the search options stored in the run.
            dtype: Of weights and computation: "float32" or "bfloat16".
            workers: Batches computed in parallel.

        Raises:
            UserError: The folder is no run, or has no weights yet.
        """
        from keras_transformer.run import Run

        opened = Run.open(run)
        config = opened.config
        model, tokenizer = opened.model(dtype), opened.tokenizer()
        return cls(model, tokenizer, search or config.search, config.data, workers, fixed=True)

    def source_tokens(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens that the encoder reads for the ids of a text."""
        return source_tokens(ids, self.data.source_end)

    @property
    def start(self) -> Start:
        """Function that encodes a batch and returns step function and state, for any search."""
        return self._functions.start

    def translate(
        self,
        lines: Sequence[str],
        progress: Progress | None = None,
        first_line: int = 1,
        *,
        prefixes: Sequence[str] | None = None,
        attention: bool = False,
    ) -> list[Translation]:
        """Translate lines.

        By default a translation has at most as many tokens as its source and
        ``search.max_extra`` more, its END counted; see ``SearchConfig.length_limit``.

        Args:
            lines: Sentences, one a line; a blank one stays blank without running the model.
            progress: Called after each batch with its number of lines.
            first_line: Number of the first line, for messages.
            prefixes: The beginning of each translation; a blank one does not constrain it.
            attention: Return the attention of each best translation.

        Returns:
            One translation for each line, in order.

        Raises:
            TranslationError: A line is too long and ``data.on_long`` is "refuse"; a prefix is
                longer than its line's translation may be; the counts of lines and prefixes
                differ.
        """
        end = self.data.source_end
        ids = encode_lines(self.tokenizer.source, lines, self.data, "line", first_line, end=end)
        prefix_ids = None
        if prefixes is not None:
            prefix_ids = encode_prefixes(
                self.tokenizer.target, prefixes, ids, self.search, first_line
            )
        translations = [Translation("", 0.0)] * len(lines)
        filled = [index for index, tokens in enumerate(ids) if tokens]  # not blank
        _report(progress, len(lines) - len(filled))
        # Each hypothesis is a row of logits in every step.
        rows = max(_max_logits() // (self._functions.width * self.tokenizer.target.size), 1)
        lengths = [len(ids[index]) + end for index in filled]

        def translate_batch(batch: Sequence[int]) -> tuple[list[int], list[Translation]]:
            indices = [filled[position] for position in batch]
            source = [self.source_tokens(ids[index]) for index in indices]
            prefix = None if prefix_ids is None else [prefix_ids[index] for index in indices]
            return indices, self._translate_ids(source, prefix, attention)

        groups = batches(lengths, self.search.batch_tokens, rows)
        for indices, translated in parallel_map(translate_batch, groups, self._workers):
            for index, translation in zip(indices, translated, strict=True):
                translations[index] = translation
            _report(progress, len(indices))
        return translations

    def _translate_ids(
        self,
        source_ids: Sequence[Sequence[int]],
        prefix_ids: Sequence[Sequence[int]] | None,
        attention: bool,
    ) -> list[Translation]:
        """Translate one batch of source tokens."""
        source = padded_ids(source_ids)
        prefix = None if prefix_ids is None else padded_ids(prefix_ids)
        hypotheses = self._functions.search(source, prefix)
        translations = read_translations(hypotheses, self.tokenizer.target, self.search)
        if not attention:
            return translations
        labels = hypotheses.tokens[:, 0]
        matrices = self._functions.attention(tf.constant(source), labels).numpy()
        attentions = read_attention(source, labels.numpy(), matrices, self.tokenizer)
        return [
            dataclasses.replace(translation, attention=of_best)
            for translation, of_best in zip(translations, attentions, strict=True)
        ]

    def translate_stream(
        self,
        lines: Iterable[str],
        window: int = WINDOW,
        progress: Progress | None = None,
        first_line: int = 1,
        *,
        prefixes: Iterable[str] | None = None,
        attention: bool = False,
        ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[Translation]:
        """Translate a stream of lines.

        Args:
            lines: Sentences; ``window`` of them are read ahead of the output.
            window: Lines sorted and translated together: 1 translates each line at once, more
                is faster.
            progress: As in ``translate``.
            first_line: As in ``translate``.
            prefixes: As in ``translate``; read along with the lines.
            attention: As in ``translate``.
            ready: Returns whether the next line comes at once; if not, the lines read so far
                are translated first.

        Yields:
            One translation for each line, in order.

        Raises:
            TranslationError: As ``translate``, after the translations of earlier windows.
        """
        remaining = None if prefixes is None else iter(prefixes)
        for group in windows(lines, window, ready):
            own = None if remaining is None else list(itertools.islice(remaining, len(group)))
            yield from self.translate(
                group, progress, first_line, prefixes=own, attention=attention
            )
            first_line += len(group)
        if remaining is not None and next(remaining, None) is not None:
            raise TranslationError(f"prefixes: more than the {first_line - 1} lines")

    def score(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
    ) -> list[Score]:
        """Score given translations by forced decoding.

        Args:
            sources: Lines of the source language; a blank one is read as END alone, whatever
                ``data.source_end``.
            targets: A translation for each of them; of a blank one, END alone is scored.
            progress: As in ``translate``.

        Returns:
            One score for each pair, in order.

        Raises:
            TranslationError: The numbers of lines differ, or a line is too long and
                ``data.on_long`` is "refuse".
        """
        if len(sources) != len(targets):
            raise TranslationError(
                "score: expected as many targets as sources, "
                f"got {len(sources)} sources and {len(targets)} targets"
            )
        source_ids, target_ids = (
            [
                source_tokens(ids, end)
                for ids in encode_lines(side, lines, self.data, name, 1, end=end)
            ]
            for side, lines, name, end in (
                (self.tokenizer.source, sources, "source line", self.data.source_end),
                (self.tokenizer.target, targets, "target line", True),
            )
        )
        lengths = [max(map(len, pair)) for pair in zip(source_ids, target_ids, strict=True)]
        tokens = min(self.search.batch_tokens, _max_logits() // self.tokenizer.target.size)
        scores: list[Score | None] = [None] * len(sources)

        def score_batch(batch: list[int]) -> tuple[list[int], list[Score]]:
            return batch, self._score_ids(
                [source_ids[index] for index in batch], [target_ids[index] for index in batch]
            )

        groups = batches(lengths, tokens, len(sources))
        for batch, scored in parallel_map(score_batch, groups, self._workers):
            for index, score in zip(batch, scored, strict=True):
                scores[index] = score
            _report(progress, len(batch))
        return [score for score in scores if score is not None]

    def _score_ids(
        self, source_ids: Sequence[Sequence[int]], target_ids: Sequence[Sequence[int]]
    ) -> list[Score]:
        """Score one batch of source tokens and of target ids that end in END."""
        forced = self._functions.force(
            tf.constant(padded_ids(source_ids)), tf.constant(padded_ids(target_ids))
        ).numpy()  # (B, T)
        scores = []
        for row, labels in zip(forced, target_ids, strict=True):
            by_token = row[: len(labels)].tolist()
            pieces = self.tokenizer.target.pieces(labels)
            scores.append(Score(sum(by_token), len(labels), tuple(by_token), tuple(pieces)))
        return scores


def _max_logits() -> int:
    return GPU_MAX_LOGITS if has_gpu() else MAX_LOGITS


def _report(progress: Progress | None, lines: int) -> None:
    if progress is not None and lines:
        progress(lines)
