"""Search settings of marian-decoder."""

from __future__ import annotations

import pytest

from keras_transformer.config import SearchConfig
from keras_transformer.convert.marian_search import search_settings


@pytest.mark.parametrize(
    ("normalize", "alpha"), [(1, 1.0), (0.6, 0.6), (True, 1.0), (0, 0.0), (None, 0.0)]
)
def test_normalize_is_the_exponent_of_the_length(normalize: object, alpha: float) -> None:
    settings, notes = search_settings({"beam-size": 6, "normalize": normalize, "word-penalty": 0})
    assert settings["search.alpha"] == alpha
    assert settings["search.length_penalty"] == "power"
    assert settings["search.beam"] == 6
    assert not notes


def test_longest_output_is_three_times_the_source_with_its_end() -> None:
    settings, _ = search_settings({"beam-size": 6})
    search = SearchConfig(**{name.partition(".")[2]: value for name, value in settings.items()})
    assert search.length_limit(10) == 3 * (10 + 1)


def test_defaults_and_options_without_a_counterpart_are_said() -> None:
    settings, notes = search_settings({})
    assert (settings["search.beam"], settings["search.alpha"]) == (12, 0.0)
    assert "beam 12 without length penalty" in notes[0]
    _, notes = search_settings({"word-penalty": 0.5, "shortlist": ["lex.bin", 50]})
    assert notes == [
        "search: without a counterpart here, left out: word-penalty 0.5, shortlist ['lex.bin', 50]"
    ]
    assert search_settings({"allow-unk": True})[0]["search.allow_unknown"] is True
