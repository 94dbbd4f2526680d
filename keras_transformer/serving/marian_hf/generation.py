"""Search settings of a run in the terms of Hugging Face's ``generate``."""

from __future__ import annotations

from typing import Any

from keras_transformer.config import SearchConfig
from keras_transformer.data.language_tokenizer import LanguageTokenizer
from keras_transformer.data.suppressed_tokens import suppressed_tokens
from keras_transformer.serving.marian_hf.vocabulary import (
    END_ID,
    UNKNOWN_ID,
    MarianVocabulary,
)


def generation_config(
    search: SearchConfig, longest: int, vocabulary: MarianVocabulary, target: LanguageTokenizer
) -> dict[str, Any]:
    """Return the contents of ``generation_config.json``.

    Args:
        search: The search of the run.
        longest: Longest output in tokens, END counted.
        vocabulary: The target vocabulary.
        target: The target tokenizer of the run.
    """
    number = {int(row): token for token, row in enumerate(vocabulary.rows)}
    suppressed = [number[row] for row in suppressed_tokens(search, target) if row in number]
    never = [vocabulary.pad, *([] if search.allow_unknown else [UNKNOWN_ID]), *suppressed]
    options: dict[str, Any] = {
        "num_beams": search.beam,
        "length_penalty": search.alpha,
        # The start token counts in both limits there.
        "max_length": longest + 1,
        "min_length": min(search.min_length, longest - 1) + 1 if search.min_length else 0,
        "bad_words_ids": [[token] for token in dict.fromkeys(never)],
        "pad_token_id": vocabulary.pad,
        "decoder_start_token_id": vocabulary.pad,
        "eos_token_id": END_ID,
        "forced_eos_token_id": END_ID,
    }
    if search.no_repeat_ngram:
        options["no_repeat_ngram_size"] = search.no_repeat_ngram
    if search.n_best > 1:
        options["num_return_sequences"] = search.n_best
    return options
