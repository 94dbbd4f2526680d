"""Comparison of a converted run with the numbers of its own system.

Runs in this package's environment; ``answers.py`` has the form of the numbers.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import SearchConfig
from keras_transformer.inference.forbidden_tokens import forbidden_tokens
from keras_transformer.inference.grouping import padded_ids
from keras_transformer.inference.inference_functions import InferenceFunctions
from keras_transformer.run import Run
from keras_transformer.special_tokens import END, PAD, UNKNOWN

Answers = dict[str, Any]
Ids = list[int]

TIE = 1e-3
"""Two tokens whose log-probabilities differ by less may change places."""
BATCH = 32
"""Sentences translated together."""
_SPACE = "\u2581"


@dataclass
class Comparison:
    """Agreement of a converted run with its own system."""

    tokens: int = 0
    """Tokens of the n-best lists, END counted."""
    worst_token: float = 0.0
    """Largest difference of the log-probability of one of them."""
    sources: int = 0
    equal_sources: int = 0
    """Sources with equal token ids."""
    equal_greedy: int = 0
    """Sources with equal greedy tokens."""
    ties: int = 0
    """Sources whose greedy tokens part where two tokens are equally probable."""
    texts: int = 0
    """Equal greedy tokens without the unknown token, which systems show differently."""
    equal_texts: int = 0
    """Those with equal texts."""
    hypotheses: int = 0
    """Hypotheses of the system that ended."""
    common: int = 0
    """Those that both beams found."""
    worst_score: float = 0.0
    """Largest difference of the score of one of them."""
    better: int = 0
    """Sentences for which only this package found the best score."""
    worse: int = 0
    """Sentences for which only the other system found it."""


class ConvertedRun:
    """A run folder with the inputs and outputs of the system that it comes from.

    Args:
        folder: The run folder.
        found: The system's numbers.
    """

    def __init__(self, folder: Path, found: Answers) -> None:
        run = Run.open(folder)
        self._config, self._found, self._model = run.config, found, run.model()
        self._tokenizer = run.tokenizer()
        sides = (self._tokenizer.source, self._tokenizer.target)
        self._ids = [
            {piece: number for number, piece in enumerate(side.pieces(range(side.size)))}
            for side in sides
        ]
        self._end = [END] * self._config.data.source_end
        # Pieces of byte-pair codes have the space behind a word.
        self._space_behind = [
            any(len(piece) > 1 and piece.endswith(_SPACE) for piece in ids) for ids in self._ids
        ]
        # FSMT marks the tokens that end a word, not the others.
        self._word_ends = any("</w>" in token for row in found["source_tokens"] for token in row)
        self.sources = [[*ids, *self._end] for ids in self._encode()]
        """Ids of each source."""

    def compare(self, beams: bool = True) -> Comparison:
        """Compare everything.

        Args:
            beams: Compare beam search too.
        """
        result = Comparison(sources=len(self.sources))
        for ids, tokens in zip(self.sources, self._found["source_tokens"], strict=True):
            own = [self._id(0, token) for token in tokens]
            result.equal_sources += ids == [*own, *self._end]
        forced = self._functions(1, 1)
        self._compare_forced(forced, result)
        if self._found.get("first_tokens"):
            self._compare_first_tokens(forced, result)
            return result
        self._compare_greedy(forced, result)
        if beams:
            self._compare_beams(result)
        return result

    def _encode(self) -> list[Ids]:
        lines = self._found["sources"]
        if self._config.data.algorithm == "words":
            rows = self._found["source_tokens"]
            lines = [" ".join(self._name(0, token) for token in row) for row in rows]
        return self._tokenizer.source.encode(lines)

    def _name(self, side: int, token: str) -> str:
        """Return our piece for a token of the system; unknown ones stay as they are."""
        if self._word_ends:
            token = token[:-4] if token.endswith("</w>") else f"{token}@@"
        if self._space_behind[side]:
            return token[:-2] if token.endswith("@@") else f"{token}{_SPACE}"
        forms = (token, f"{_SPACE}{token}")
        return next((form for form in forms if form in self._ids[side]), token)

    def _id(self, side: int, token: str) -> int:
        return self._ids[side].get(self._name(side, token), UNKNOWN)

    def _labels(self, found: Answers) -> tuple[int, ...]:
        """Return the ids of an output of the system, with END if it ended."""
        ids = (self._id(1, token) for token in found["tokens"])
        return (*ids, *[END] * found["ended"])

    def _functions(self, beam: int, n_best: int) -> InferenceFunctions:
        given = self._found["search"]
        limits = {"max_factor": 0.0, "max_length": given.get("most", 0)}
        if "factor" in given:
            limits["max_factor"] = float(given["factor"])
        search: SearchConfig = dataclasses.replace(
            self._config.search,
            **{"beam": beam, "n_best": n_best, "alpha": given["alpha"], **limits},
            max_extra=given.get("most", 1),
            length_penalty=given["length_penalty"],
        )
        return InferenceFunctions(
            self._model,
            search,
            fixed=True,
            forbidden=forbidden_tokens(search, self._tokenizer.target),
            source_end=self._config.data.source_end,
        )

    def _compare_forced(self, functions: InferenceFunctions, result: Comparison) -> None:
        for source, row in zip(self.sources, self._found["n_best"], strict=False):
            numbers = _force(functions, source, [self._labels(one) for one in row])
            for one, own in zip(row, numbers, strict=True):
                expected = np.array(one["log_probs"])
                worst = np.abs(own[: len(expected)] - expected).max(initial=0.0)
                result.worst_token = max(result.worst_token, float(worst))
                result.tokens += len(expected)

    def _compare_first_tokens(self, functions: InferenceFunctions, result: Comparison) -> None:
        """Compare the most probable first tokens."""
        for source, found in zip(self.sources, self._found["greedy"], strict=True):
            every = [(number,) for number in range(len(self._ids[1]))]
            scores = _force(functions, source, every)[:, 0]
            scores[[PAD, UNKNOWN]] = -np.inf
            (wanted,) = self._labels(found)
            result.equal_greedy += int(scores.argmax()) == wanted

    def _compare_greedy(self, functions: InferenceFunctions, result: Comparison) -> None:
        outputs = (row[0] for row in self._search(functions, self.sources))
        for source, (own, _), found in zip(
            self.sources, outputs, self._found["greedy"], strict=True
        ):
            wanted = self._labels(found)
            if own[: len(wanted)] == wanted:
                result.equal_greedy += 1
                if UNKNOWN in wanted:
                    continue
                result.texts += 1
                text = self._tokenizer.target.decode([list(wanted)])[0]
                result.equal_texts += " ".join(text.split()) == " ".join(found["text"].split())
                continue
            pairs = enumerate(zip(own, wanted, strict=False))
            place = next(n for n, (mine, other) in pairs if mine != other)
            both = [(*wanted[:place], token) for token in (own[place], wanted[place])]
            scores = _force(functions, source, both)[:, place]
            result.ties += bool(abs(scores[0] - scores[1]) < TIE)

    def _compare_beams(self, result: Comparison) -> None:
        beam, lists = self._found["search"]["beam"], self._found["n_best"]
        functions = self._functions(beam, beam)
        for own, row in zip(self._search(functions, self.sources), lists, strict=False):
            scores = {self._labels(one): one["score"] for one in row if one["ended"]}
            ours = dict(own)
            result.hypotheses += len(scores)
            for labels in scores.keys() & ours.keys():
                result.common += 1
                difference = abs(scores[labels] - ours[labels])
                result.worst_score = max(result.worst_score, difference)
            if not row or not row[0]["ended"]:
                continue
            gain = own[0][1] - row[0]["score"]
            result.better += gain > TIE / 10
            result.worse += gain < -TIE / 10

    def _search(
        self, functions: InferenceFunctions, sources: Sequence[Ids]
    ) -> Iterator[list[tuple[tuple[int, ...], float]]]:
        """Yield the hypotheses of each source: ids with END, and score."""
        for first in range(0, len(sources), BATCH):
            found = functions.search(padded_ids(sources[first : first + BATCH]))
            arrays = (found.tokens, found.lengths, found.scores)
            rows = zip(*(array.numpy().tolist() for array in arrays), strict=True)
            for tokens, lengths, scores in rows:
                yield [
                    (tuple(ids[:length]), score)
                    for ids, length, score in zip(tokens, lengths, scores, strict=True)
                ]


def _force(
    functions: InferenceFunctions, source: Ids, labels: Sequence[tuple[int, ...]]
) -> np.ndarray:
    """Return the log-probability of each label, (rows, longest)."""
    sources = padded_ids([source] * len(labels))
    return functions.force(sources, padded_ids([list(row) for row in labels])).numpy()


def main() -> None:
    """Print the comparison of RUN with the numbers in ANSWERS, as JSON."""
    folder, file = map(Path, sys.argv[1:3])
    found = json.loads(file.read_text(encoding="utf-8"))
    print(json.dumps(dataclasses.asdict(ConvertedRun(folder, found).compare())))


if __name__ == "__main__":
    main()
