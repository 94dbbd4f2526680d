"""Agreement of a tokenizer in Python with the same tokenizer in an exported graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Agreement:
    """Lines that the two implementations treat differently."""

    lines: int
    """Number of lines compared."""
    encoded: tuple[str, ...]
    """Lines whose ids differ in one of the languages."""
    decoded: tuple[str, ...]
    """Lines from whose ids the texts differ in one of the languages."""

    def note(self) -> str:
        """Return a line for the user if anything differs, else ""."""
        if not (self.encoded or self.decoded):
            return ""
        example = (*self.encoded, *self.decoded)[0]
        return (
            f"tokenizer: Python and the exported graph differ in the ids of {len(self.encoded)} "
            f"and the text of {len(self.decoded)} of {self.lines} lines, such as {example!r:.200}"
        )


def agreement(tokenizer: Tokenizer, lines: Sequence[str]) -> Agreement:
    """Compare Python with the graph on the lines of a text, in both languages.

    SentencePiece in Python and in TensorFlow Text are two releases of a library: they add scores
    in a different order, so that they may choose between two almost equally good ways to cut.

    Args:
        tokenizer: The tokenizer.
        lines: Any text; both tokenizers read it all.
    """
    sides = [tokenizer.source] if tokenizer.joint else [tokenizer.source, tokenizer.target]
    encoded: dict[str, None] = {}  # in the order of the lines, each once
    decoded: dict[str, None] = {}
    for side in sides:
        for line, same_ids, same_text in _compare(side, lines):
            if not same_ids:
                encoded[line] = None
            if not same_text:
                decoded[line] = None
    return Agreement(len(lines), tuple(encoded), tuple(decoded))


def _compare(side: LanguageTokenizer, lines: Sequence[str]) -> list[tuple[str, bool, bool]]:
    """Return for each line whether its ids and the text of these ids agree."""
    import tensorflow as tf

    if not lines:
        return []
    graph, ids = side.graph(), side.encode(lines)
    in_graph = graph.tokenize(tf.constant(list(lines))).to_list()
    rows = tf.ragged.constant(ids, tf.int32, ragged_rank=1)
    texts = [text.decode() for text in graph.detokenize(rows).numpy()]
    return [
        (line, *same)
        for line, *same in zip(
            lines,
            (first == second for first, second in zip(ids, in_graph, strict=True)),
            (first == second for first, second in zip(side.decode(ids), texts, strict=True)),
            strict=True,
        )
    ]
