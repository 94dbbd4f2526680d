"""Search settings of Hugging Face's generate."""

from __future__ import annotations

from keras_transformer.config import SearchConfig
from keras_transformer.convert.hf_generation import search_settings

TOKENS = ["</s>", "<unk>", "a", "b", "<pad>"]


def test_usual_options() -> None:
    options = {"num_beams": 6, "max_length": 512, "bad_words_ids": [[4]], "length_penalty": 0.8}
    settings, notes = search_settings(options, TOKENS, 512)
    search = SearchConfig(**{name.partition(".")[2]: value for name, value in settings.items()})
    assert (search.beam, search.alpha, search.length_penalty) == (6, 0.8, "power")
    assert search.length_limit(3) == search.length_limit(300) == 511  # the start token counts there
    assert search.allow_unknown
    assert search.suppress == ()
    assert not notes


def test_lengths() -> None:
    settings, _ = search_settings({"max_length": 20, "min_length": 5}, TOKENS, 512)
    assert (settings["search.max_extra"], settings["search.min_length"]) == (19, 4)
    settings, _ = search_settings({"max_new_tokens": 7, "no_repeat_ngram_size": 3}, TOKENS, 512)
    assert (settings["search.max_extra"], settings["search.no_repeat_ngram"]) == (7, 3)
    settings, _ = search_settings({}, TOKENS, 100)
    assert (settings["search.max_extra"], settings["search.beam"]) == (99, 1)


def test_tokens_that_are_never_generated() -> None:
    settings, notes = search_settings({"bad_words_ids": [[4], [1], [3], [2, 3]]}, TOKENS, 512)
    assert settings["search.suppress"] == ("b",)
    assert settings["search.allow_unknown"] is False
    assert notes == ["search: without a counterpart here, left out: bad_words_ids of 1 phrases"]


def test_what_has_no_counterpart_is_said() -> None:
    _, notes = search_settings({"repetition_penalty": 1.2, "do_sample": False}, TOKENS, 512)
    assert notes == ["search: without a counterpart here, left out: repetition_penalty 1.2"]
    settings, notes = search_settings({"length_penalty": -1.0}, TOKENS, 512)
    assert settings["search.alpha"] == 1.0
    assert "length_penalty -1.0 is out of our range" in notes[0]
