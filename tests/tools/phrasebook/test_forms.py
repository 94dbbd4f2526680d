"""The word forms of the phrasebook grammar, by hand."""

from __future__ import annotations

import pytest

from tools.phrasebook import forms


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("apple", "an apple"),
        ("honest man", "an honest man"),
        ("hour", "an hour"),
        ("uniform", "a uniform"),
        ("useful book", "a useful book"),
        ("university", "a university"),
        ("umbrella", "an umbrella"),
        ("gray coat", "a gray coat"),
    ],
)
def test_article(phrase: str, expected: str) -> None:
    assert forms.with_article(phrase) == expected


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [
        (2, "two", "二"),
        (10, "ten", "十"),
        (12, "twelve", "十二"),
        (20, "twenty", "二十"),
        (35, "thirty-five", "三十五"),
        (100, "one hundred", "一百"),
        (105, "one hundred and five", "一百零五"),
        (110, "one hundred and ten", "一百一十"),
        (222, "two hundred and twenty-two", "两百二十二"),
    ],
)
def test_numbers(number: int, english: str, chinese: str) -> None:
    assert forms.english_number(number) == english
    assert forms.chinese_number(number) == chinese


def test_numbers_are_never_written_alike() -> None:
    for write in (forms.chinese_number, forms.english_number, forms.ordinal):
        numbers = range(1, 100) if write is forms.ordinal else range(1000)
        assert len({write(number) for number in numbers}) == len(numbers)


@pytest.mark.parametrize(
    ("base", "third", "past", "participle", "gerund"),
    [
        ("go", "goes", "went", "gone", "going"),
        ("watch", "watches", "watched", "watched", "watching"),
        ("study", "studies", "studied", "studied", "studying"),
        ("play", "plays", "played", "played", "playing"),
        ("make", "makes", "made", "made", "making"),
        ("swim", "swims", "swam", "swum", "swimming"),
        ("fly", "flies", "flew", "flown", "flying"),
        ("ski", "skis", "skied", "skied", "skiing"),
        ("see", "sees", "saw", "seen", "seeing"),
        ("have", "has", "had", "had", "having"),
        ("chat", "chats", "chatted", "chatted", "chatting"),
    ],
)
def test_verbs(base: str, third: str, past: str, participle: str, gerund: str) -> None:
    verb = forms.conjugate(base)
    assert (verb.third, verb.past, verb.participle, verb.gerund) == (
        third,
        past,
        participle,
        gerund,
    )


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("box", "boxes"),
        ("library", "libraries"),
        ("toy", "toys"),
        ("knife", "knives"),
        ("child", "children"),
        ("cup of tea", "cups of tea"),
        ("pair of glasses", "pairs of glasses"),
        ("post office", "post offices"),
    ],
)
def test_plurals(noun: str, expected: str) -> None:
    assert forms.plural(noun) == expected


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("I do not know", "I don't know"),
        ("I am not tired", "I'm not tired"),
        ("she cannot swim", "she can't swim"),
        ("they will not go", "they won't go"),
        ("do you know where he is?", "do you know where he is?"),
        ("do not run", "don't run"),
    ],
)
def test_contractions(full: str, short: str) -> None:
    assert forms.contract(full) == short
    assert forms.contract(full.capitalize()) == short.capitalize()
