"""Patterns of the grammar: sentences by hand, and one translation for each."""

from __future__ import annotations

from tools.phrasebook import belongings, dates, forms, phrases, sentences, tenses, words


def _bare(text: str) -> str:
    return text.rstrip(".?!。？！").casefold()


class _Scripted(words.Draw):
    """Takes the given choices in turn, by their English words or as they are."""

    def __init__(self, *script: object) -> None:
        super().__init__("unused")
        self._script = list(script)

    def form(self, choices):  # type: ignore[no-untyped-def]
        wanted = self._script.pop(0)
        return next(item for item in choices if wanted in (item, getattr(item, "en", None)))

    def chance(self, probability: float) -> bool:
        return bool(self._script.pop(0))


def test_a_sentence_by_hand() -> None:
    seek = next(frame for frame in tenses.EVENTS if frame.en == "find")
    draw = _Scripted("she", "yesterday", tenses.with_one, seek, "key", False)
    assert tenses._event(draw) == ("she found a key yesterday", "她昨天找到了一把钥匙")
    assert draw.take() == {"she", "find", "key"}


def test_job_and_season_by_hand() -> None:
    draw = _Scripted("my mother", "engineer", "not")
    assert belongings._job(draw) == ("my mother is not an engineer", "我妈妈不是工程师")
    draw = _Scripted("Tom", "winter", True)
    expected = ("Tom's favorite season is winter", "汤姆最喜欢的季节是冬天")
    assert dates._favorite(draw) == expected


def test_patterns_never_contradict_each_other() -> None:
    # Far more sentences than the corpus keeps.
    translations: dict[str, str] = {}
    for english, chinese in phrases.fixed():
        translations[_bare(forms.contract(english))] = _bare(chinese)
    for module in sentences._MODULES:
        for pattern, _ in module.PATTERNS:
            draw = words.Draw(f"more of {pattern.__name__}")
            for _ in range(200):
                english, chinese = pattern(draw)
                english = _bare(forms.contract(english))
                assert translations.setdefault(english, _bare(chinese)) == _bare(chinese), english
