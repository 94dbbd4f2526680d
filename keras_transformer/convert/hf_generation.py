"""Search settings of Hugging Face's ``generate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_transformer.config.search import SearchConfig
from keras_transformer.validation import MAX_HYPOTHESES

# Options without a counterpart, with the values that change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "do_sample": (False, None),
    "num_beam_groups": (1, None),
    "diversity_penalty": (0, 0.0, None),
    "repetition_penalty": (1, 1.0, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "exponential_decay_length_penalty": (None,),
    "suppress_tokens": (None, []),
    "begin_suppress_tokens": (None, []),
    "forced_bos_token_id": (None,),
    "sequence_bias": (None,),
    "early_stopping": (False, None),
}
_GREATEST_ALPHA = 10


def search_settings(
    options: Mapping[str, Any], pieces: list[str], max_positions: int
) -> tuple[dict[str, Any], list[str]]:
    """Return our fields of the search, and notes about options that cannot be carried over.

    Args:
        options: ``generation_config.json``, or ``config.json`` of earlier versions.
        pieces: Tokens of the target vocabulary by id.
        max_positions: Longest output that the network has positions for.
    """
    longest = _whole(options, "max_length", max_positions)
    extra = _whole(options, "max_new_tokens", 0) or min(longest, max_positions) - 1
    settings: dict[str, Any] = {
        "search.beam": min(max(_whole(options, "num_beams", 1), 1), MAX_HYPOTHESES),
        "search.length_penalty": "power",
        "search.alpha": 1.0,
        # The limit counts the start token there, and the end token in both.
        "search.max_factor": 0.0,
        "search.max_extra": max(extra, 1),
        "search.min_length": max(_whole(options, "min_length", 0) - 1, 0),
        "search.no_repeat_ngram": _whole(options, "no_repeat_ngram_size", 0),
        "search.allow_unknown": True,
    }
    notes = []
    penalty = options.get("length_penalty")
    if isinstance(penalty, int | float) and 0 <= penalty <= _GREATEST_ALPHA:
        settings["search.alpha"] = float(penalty)
    elif penalty is not None:
        notes.append(f"search: length_penalty {penalty} is out of our range 0 to 10; 1 is used")
    suppressed, phrases = _bad_words(options, pieces)
    if "<unk>" in suppressed:
        settings["search.allow_unknown"] = False
    suppress = tuple(piece for piece in suppressed if piece not in ("<unk>", "<pad>", "</s>"))
    if suppress:
        settings["search.suppress"] = suppress
    ignored = [f"bad_words_ids of {phrases} phrases"] if phrases else []
    ignored += [
        f"{name} {options[name]}"
        for name, neutral in _NEUTRAL.items()
        if options.get(name) not in neutral
    ]
    if ignored:
        notes.append(f"search: without a counterpart here, left out: {', '.join(ignored)}")
    SearchConfig(**{name.partition(".")[2]: value for name, value in settings.items()})
    return settings, notes


def _whole(options: Mapping[str, Any], name: str, default: int) -> int:
    value = options.get(name)
    return value if type(value) is int and value >= 0 else default


def _bad_words(options: Mapping[str, Any], pieces: list[str]) -> tuple[list[str], int]:
    """Return the tokens that are never generated, and the number of forbidden phrases."""
    words = options.get("bad_words_ids")
    if not isinstance(words, list):
        return [], 0
    single, phrases = [], 0
    for word in words:
        valid = isinstance(word, list) and all(
            type(token) is int and 0 <= token < len(pieces) for token in word
        )
        if valid and len(word) == 1:
            single.append(pieces[word[0]])
        else:
            phrases += 1
    return single, phrases
