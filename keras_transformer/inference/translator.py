"""Lines in, translations out: encode, group by length, search, decode, restore the order.

Shapes: B batch, S source length, T target length, N hypotheses, L output length.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import DataConfig, SearchConfig
from keras_transformer.data.tokenizer import END, PAD, SentencePiece, Tokenizer
from keras_transformer.inference.alignment import Attention, words_of_pieces
from keras_transformer.inference.grouping import batches, padded_ids, parallel_map, windows
from keras_transformer.inference.inference_functions import InferenceFunctions
from keras_transformer.inference.plain_text import plain
from keras_transformer.inference.search.strategies import Hypotheses
from keras_transformer.inference.translation import (
    Alternative,
    Score,
    Translation,
    TranslationError,
)

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

logger = logging.getLogger(__name__)

WINDOW = 2_000
"""Lines of a stream that are read, sorted by length and translated together."""

# Logits held at once: rows of a search step, or positions of forced scores, times the
# vocabulary. 2^24 floats are 64 MB; a larger step is no faster on CPUs.
MAX_LOGITS = 2**24

Progress = Callable[[int], None]
"""Called with the number of lines done since the last call."""


class Translator:
    """Translates and scores lines with one model.

    Sentences of similar length are searched together; the result for a line does not depend
    on the others. One graph serves all shapes.

    Args:
        model: A model from ``transformer.build``; later changes of its weights count.
        tokenizer: The tokenizer that the model was trained with.
        search: Beam, length penalty, limits and batch size.
        data: ``max_tokens`` and ``on_long`` say what happens to over-long lines.
        workers: Batches computed side by side. With a processor's every core on a batch of its
            own, and one thread for an operation, many lines are done sooner than with all
            cores on one batch.
        fixed: The weights will not change, which makes searches faster.

    Raises:
        TranslationError: The tokenizer does not fit the model.

    Example:
        >>> translator = Translator.from_run(Path("runs/m30k"))
        >>> translator.translate(["A dog runs."])[0].text
        'Ein Hund rennt.'
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
                f"tokenizer: expected {model.output_shape[-1]} target pieces, as the model has, "
                f"got {tokenizer.target.size}"
            )
        self.tokenizer = tokenizer
        self.search = search
        self.data = data
        self._functions = InferenceFunctions(model, search, fixed)
        self._workers = workers

    @classmethod
    def from_run(
        cls,
        run: Path,
        search: SearchConfig | None = None,
        *,
        dtype: str = "float32",
        workers: int = 1,
    ) -> Translator:
        """The translator of a trained run.

        Args:
            run: The run folder; its best weights are used.
            search: Replaces the search options stored in the run.
            dtype: What weights are kept and computed in: "float32" or "bfloat16".
            workers: As for ``Translator``.

        Raises:
            UserError: The folder is no run, or has no weights yet.
        """
        from keras_transformer.run import Run

        opened = Run.open(run)
        config = opened.config
        model, tokenizer = opened.model(dtype), opened.tokenizer()
        return cls(model, tokenizer, search or config.search, config.data, workers, fixed=True)

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

        An output has at most as many tokens as its source and ``search.max_extra`` more, its
        END counted.

        Args:
            lines: Sentences, one a line; a blank one stays blank without running the model.
            progress: Told after each batch how many lines it had.
            first_line: Number of the first line, for messages.
            prefixes: What each translation must begin with; a blank one leaves it free.
            attention: Say where the network looked, for each best translation.

        Returns:
            One translation for each line, in order.

        Raises:
            TranslationError: A line is too long and ``data.on_long`` says refuse; a prefix is
                longer than its line's translation may be; not one prefix for each line.
        """
        ids = self._encode(self.tokenizer.source, lines, "line", first_line)
        begun = None if prefixes is None else self._begin(ids, prefixes, first_line)
        translations = [Translation("", 0.0)] * len(lines)
        filled = [place for place, tokens in enumerate(ids) if tokens]
        _report(progress, len(lines) - len(filled))
        # Each hypothesis is a row of logits in every step.
        rows = max(MAX_LOGITS // (self._functions.width * self.tokenizer.target.size), 1)
        lengths = [len(ids[place]) + 1 for place in filled]

        def search(batch: Sequence[int]) -> tuple[list[int], list[Translation]]:
            places = [filled[index] for index in batch]
            source = padded_ids([[*ids[place], END] for place in places])
            prefix = None if begun is None else padded_ids([begun[place] for place in places])
            found = self._functions.search(source, prefix)
            translated = list(self._read(found))
            if attention:
                looked = self._attend(source, found.tokens[:, 0].numpy())
                translated = [
                    dataclasses.replace(one, attention=own)
                    for one, own in zip(translated, looked, strict=True)
                ]
            return places, translated

        groups = batches(lengths, self.search.batch_tokens, rows)
        for places, translated in parallel_map(search, groups, self._workers):
            for place, translation in zip(places, translated, strict=True):
                translations[place] = translation
            _report(progress, len(places))
        return translations

    def translate_stream(
        self,
        lines: Iterable[str],
        window: int = WINDOW,
        progress: Progress | None = None,
        first_line: int = 1,
        *,
        prefixes: Iterable[str] | None = None,
        attention: bool = False,
    ) -> Iterator[Translation]:
        """Translate lines of any number, as they come.

        Args:
            lines: Sentences; ``window`` of them are read ahead of the output.
            window: Lines sorted and translated together: 1 answers each line at once, more
                is faster.
            progress: As in ``translate``.
            first_line: As in ``translate``.
            prefixes: As in ``translate``; read along with the lines.
            attention: As in ``translate``.

        Yields:
            One translation for each line, in order.

        Raises:
            TranslationError: As ``translate``, once the lines before have been yielded.
        """
        begun = None if prefixes is None else iter(prefixes)
        for group in windows(lines, window):
            own = None if begun is None else list(itertools.islice(begun, len(group)))
            yield from self.translate(
                group, progress, first_line, prefixes=own, attention=attention
            )
            first_line += len(group)
        if begun is not None and next(begun, None) is not None:
            raise TranslationError(f"prefixes: more than the {first_line - 1} lines")

    def score(
        self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
    ) -> list[Score]:
        """How probable the model finds given translations (forced decoding).

        Args:
            sources: Lines of the source language; a blank one is read as END alone.
            targets: A translation for each of them; of a blank one, END alone is scored.
            progress: As in ``translate``.

        Returns:
            One score for each pair, in order.

        Raises:
            TranslationError: The numbers of lines differ, or a line is too long and
                ``data.on_long`` says refuse.
        """
        if len(sources) != len(targets):
            raise TranslationError(
                "score: expected as many targets as sources, "
                f"got {len(sources)} sources and {len(targets)} targets"
            )
        source_ids = self._encode(self.tokenizer.source, sources, "source line", 1)
        target_ids = self._encode(self.tokenizer.target, targets, "target line", 1)
        lengths = [
            max(len(source), len(target)) + 1
            for source, target in zip(source_ids, target_ids, strict=True)
        ]
        tokens = min(self.search.batch_tokens, MAX_LOGITS // self.tokenizer.target.size)
        scores: list[Score | None] = [None] * len(sources)

        def force(places: list[int]) -> tuple[list[int], list[Score]]:
            forced = self._functions.force(
                tf.constant(padded_ids([[*source_ids[place], END] for place in places])),
                tf.constant(padded_ids([[*target_ids[place], END] for place in places])),
            ).numpy()  # (B, T)
            found = []
            for row, place in zip(forced, places, strict=True):
                labels = [*target_ids[place], END]
                each = row[: len(labels)].tolist()
                pieces = self.tokenizer.target.pieces(labels)
                found.append(Score(sum(each), len(each), tuple(each), tuple(pieces)))
            return places, found

        groups = batches(lengths, tokens, len(sources))
        for places, found in parallel_map(force, groups, self._workers):
            for place, score in zip(places, found, strict=True):
                scores[place] = score
            _report(progress, len(places))
        return [score for score in scores if score is not None]

    def _encode(
        self, side: SentencePiece, lines: Sequence[str], name: str, first_line: int
    ) -> list[list[int]]:
        """Ids without END, cut to fit; empty where there is no text."""
        encoded = side.encode(lines)
        most = self.data.max_tokens
        for place, ids in enumerate(encoded):
            if len(ids) < most:  # END is the one more
                continue
            number = first_line + place
            if self.data.on_long == "refuse":
                raise TranslationError(
                    f"{name} {number}: expected at most {most} tokens (data.max_tokens), got "
                    f"{len(ids) + 1}; split it, or set data.on_long to cut"
                )
            logger.warning(
                "%s %d: %d tokens, cut to %d (data.max_tokens)", name, number, len(ids) + 1, most
            )
            encoded[place] = ids[: most - 1]
        return encoded

    def _begin(
        self, ids: Sequence[Sequence[int]], prefixes: Sequence[str], first_line: int
    ) -> list[list[int]]:
        """Ids of what the translations begin with; each leaves room for END."""
        if len(prefixes) != len(ids):
            raise TranslationError(
                f"prefixes: expected one for each line, got {len(prefixes)} for {len(ids)} lines "
                f"from line {first_line} on"
            )
        encoded = self.tokenizer.target.encode(prefixes)
        for place, (source, prefix) in enumerate(zip(ids, encoded, strict=True)):
            most = len(source) + self.search.max_extra - 1
            if source and len(prefix) > most:
                raise TranslationError(
                    f"prefix {first_line + place}: expected at most {most} tokens (those of its "
                    f"line and search.max_extra, less the end), got {len(prefix)}"
                )
        return encoded

    def _attend(self, source: np.ndarray, labels: np.ndarray) -> Iterator[Attention]:
        """Where the network looked for each translation of a batch, (B, S) and (B, T) ids."""
        matrices = self._functions.attend(tf.constant(source), tf.constant(labels)).numpy()
        for read, written, matrix in zip(source, labels, matrices, strict=True):
            read, written = (ids[ids != PAD].tolist() for ids in (read, written))
            ended = len(written) - (written[-1:] == [END])
            yield Attention(
                source=tuple(self.tokenizer.source.pieces(read)),
                target=tuple(self.tokenizer.target.pieces(written)),
                weights=matrix[: len(written), : len(read)].copy(),  # not the whole batch
                source_words=words_of_pieces(self.tokenizer.source, read[:-1]),
                target_words=words_of_pieces(self.tokenizer.target, written[:ended]),
            )

    def _read(self, found: Hypotheses) -> Iterator[Translation]:
        """The translations of a batch."""
        lengths, scores, finished = (
            values.numpy() for values in (found.lengths, found.scores, found.finished)
        )
        count = lengths.shape[1]
        ids = [
            row[:length].tolist()
            for row, length in zip(
                found.tokens.numpy().reshape(lengths.size, -1), lengths.reshape(-1), strict=True
            )
        ]
        texts = [plain(text) for text in self.tokenizer.target.decode(ids)]
        for sentence in range(len(lengths)):
            best, *others = range(count)
            own = texts[sentence * count : (sentence + 1) * count]
            yield Translation(
                text=own[best],
                score=float(scores[sentence, best]),
                finished=bool(finished[sentence, best]),
                alternatives=tuple(
                    Alternative(own[other], float(scores[sentence, other]))
                    for other in others
                    if lengths[sentence, other] > 0  # else fewer could be found
                ),
            )


def _report(progress: Progress | None, lines: int) -> None:
    if progress is not None and lines:
        progress(lines)
