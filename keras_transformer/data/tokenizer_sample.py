"""Training text of the tokenizer: a sample of the corpus without rare characters."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator

from keras_transformer.config.data import Algorithm

# Special tokens and bytes, present in every vocabulary.
_FIXED_TOKENS = 4 + 256
# Bytes of text, both sides together, that the vocabulary is learned from. SentencePiece takes
# about 30 bytes of memory for each, so that training it stays below 2 GiB with TensorFlow
# loaded. Each line takes as much memory as _LINE_BYTES further bytes.
_SAMPLE_BYTES = 40_000_000
_LINE_BYTES = 16
# Characters seen less often are spelled in bytes: a token met once in training has an
# embedding that learned nothing. On 26,000 English-Chinese pairs that frees 4 % of a
# vocabulary of 10,000 and affects 0.3 % of the characters of unseen text.
_MIN_CHARACTER_COUNT = 2


def sample(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Draw a uniform sample of a corpus, or take all of it if it is small enough.

    The same pairs give the same sample, in their order.

    Args:
        pairs: Source and target; streamed.
    """
    generator = random.Random(0)
    rate = 1.0
    kept: list[tuple[float, int, tuple[str, str]]] = []  # random number, bytes, pair
    total = 0
    for pair in pairs:
        number = generator.random()
        if number >= rate:
            continue
        kept.append((number, _byte_count(pair), pair))
        total += kept[-1][1]
        while total > _SAMPLE_BYTES and len(kept) > 1:
            rate *= 0.9
            kept = [item for item in kept if item[0] < rate] or kept[:1]
            total = sum(size for _, size, _ in kept)
    return [pair for _, _, pair in kept]


def consume(lines: list[str]) -> Iterator[str]:
    """Yield the lines in order, and remove each from the list to free its memory."""
    lines.reverse()
    while lines:
        yield lines.pop()


def replace_rare_characters(
    lines: list[str], vocabulary_size: int, algorithm: Algorithm = "unigram"
) -> Iterator[str]:
    """Replace each character that gets no token of its own by a space.

    At most half of the vocabulary goes to single characters (with ``char`` all of it), so that
    any size that ``DataConfig`` allows can be trained on any script. (SentencePiece's own
    ``character_coverage`` goes no lower than 0.98, and fails instead.)

    Args:
        lines: Normalized text; the list is consumed.
        vocabulary_size: Size of the vocabulary to learn.
        algorithm: SentencePiece algorithm.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    # A space is kept in any case: where it alone occurs twice, nothing else would be left.
    del counts[" "]
    learned = vocabulary_size - _FIXED_TOKENS
    limit = max(learned - 1 if algorithm == "char" else learned // 2, 1)  # 1 for the space
    # By count, then by code point: ties must not depend on the order of the lines.
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    frequent = [character for character in ranked if counts[character] >= _MIN_CHARACTER_COUNT]
    kept = set((frequent or ranked)[:limit])
    rare = {ord(character): " " for character in ranked if character not in kept}
    return (line.translate(rare) for line in consume(lines))


def _byte_count(pair: tuple[str, str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) + _LINE_BYTES for text in pair)
