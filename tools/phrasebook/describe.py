"""Properties of people and things: feelings, colors, comparison."""

from __future__ import annotations

from . import nouns
from .forms import chinese_count, english_number
from .people import (
    ADULTS,
    ASKED,
    CHILDREN,
    FAMILY_ONE,
    FEELINGS,
    FRIENDS,
    NAMES,
    PRONOUNS,
    SUBJECTS,
    TRAITS,
    another,
    related,
)
from .verbs import pointed
from .words import Adjective, Draw, Noun, Pair

OWNED = (
    nouns.CLOTHES[:5]
    + nouns.CLOTHES[7:9]
    + nouns.JEWELRY[:2]
    + nouns.DEVICES
    + nouns.OWN_VEHICLES
    + nouns.CARRIED
    + nouns.STATIONERY
    + nouns.INSTRUMENTS
    + nouns.PETS
    + nouns.READING[:3]
)
SOLD = (
    nouns.FRUIT
    + nouns.SNACKS[:5]
    + nouns.READING[:3]
    + nouns.CLOTHES[:9]
    + nouns.WORN[:3]
    + nouns.JEWELRY
    + nouns.DEVICES
    + nouns.OWN_VEHICLES
    + nouns.FURNITURE
    + nouns.TABLEWARE
    + nouns.CARRIED
    + nouns.STATIONERY
    + nouns.INSTRUMENTS
)
_STATED = (
    SOLD
    + nouns.READING[3:]
    + nouns.FILMS
    + nouns.VEHICLES[4:]
    + nouns.PETS
    + nouns.WILD_ANIMALS
    + nouns.BUILDINGS
    + nouns.LANDSCAPE
)
_PAINTED = nouns.CLOTHES[:9] + nouns.WORN[:3] + nouns.VEHICLES + nouns.CARRIED + nouns.STATIONERY
_WAS = (("yesterday", "昨天"), ("last week", "上个星期"), ("this morning", "今天早上"))
_DEGREES = (("", "很"), ("", "很"), ("very ", "非常"), ("really ", "真的很"))


def degree(draw: Draw, adjective: Adjective, negative: bool) -> Pair:
    """Say how much: 很 when nothing is said, for a Chinese predicate does not stand bare."""
    if negative:
        if draw.chance(0.3):
            return f"not very {adjective.en}", "不太" + adjective.zh
        return f"not {adjective.en}", adjective.negated
    if adjective.mild and draw.chance(0.3):
        if draw.chance(0.5):
            return f"a little {adjective.en}", "有点" + adjective.zh
        return f"too {adjective.en}", f"太{adjective.zh}了"
    # "very delicious" is said by few.
    degrees = _DEGREES[3:] if adjective.en == "delicious" else _DEGREES
    much, zh_much = draw.form(degrees)
    return much + adjective.en, zh_much + adjective.zh


def _trait(draw: Draw) -> Pair:
    subject, trait = draw(SUBJECTS), draw(TRAITS)
    english, chinese = degree(draw, trait, draw.chance(0.2))
    return f"{subject.en} {subject.be} {english}", subject.zh + chinese


def _feeling(draw: Draw) -> Pair:
    subject, feeling = draw(SUBJECTS), draw(FEELINGS)
    english, chinese = degree(draw, feeling, draw.chance(0.2))
    shape = draw.form(("is", "was", "now", "look"))
    if shape == "was":
        day, zh_day = draw.form(_WAS)
        return f"{subject.en} {subject.was} {english} {day}", subject.zh + zh_day + chinese
    if shape == "now":
        return f"{subject.en} {subject.be} {english} now", f"{subject.zh}现在{chinese}"
    if shape == "look" and not english.startswith("not ") and subject.person != 1:
        return f"{subject.en} {subject.present('look')} {english}", f"{subject.zh}看起来{chinese}"
    return f"{subject.en} {subject.be} {english}", subject.zh + chinese


def _is_like(draw: Draw) -> Pair:
    subject, quality = draw(ASKED), draw(TRAITS + FEELINGS)
    if quality in FEELINGS and draw.chance(0.5):
        return (
            f"why {subject.be} {subject.en} so {quality.en}?",
            f"{subject.zh}为什么这么{quality.zh}？",
        )
    return f"{subject.be} {subject.en} {quality.en}?", f"{subject.zh}{quality.zh}吗？"


def known(draw: Draw, noun: Noun) -> tuple[str, str, str]:
    """Name a known thing, as this one or somebody's: English, Chinese, is or are."""
    if noun in OWNED and draw.chance(0.35):
        english, chinese = draw.form(PRONOUNS + NAMES).owns(noun)
        return english, chinese, "is"
    english, chinese, many = pointed(draw, noun)
    return english, chinese, "are" if many else "is"


def _stated(draw: Draw) -> Pair:
    noun = draw(_STATED)
    english, chinese, be = known(draw, noun)
    said, zh_said = degree(draw, draw(nouns.STATED[noun.kind]), draw.chance(0.2))
    return f"{english} {be} {said}", chinese + zh_said


_PLAIN = ("new", "old", "good", "useful")  # not worth a question


def _is_stated(draw: Draw) -> Pair:
    noun = draw(_STATED)
    english, chinese, be = known(draw, noun)
    adjective = draw(nouns.STATED[noun.kind])
    if adjective.en not in _PLAIN and draw.chance(0.4):
        return f"why {be} {english} so {adjective.en}?", f"{chinese}为什么这么{adjective.zh}？"
    return f"{be} {english} {adjective.en}?", f"{chinese}{adjective.zh}吗？"


def _color(draw: Draw) -> Pair:
    noun = draw(_PAINTED)
    english, chinese, be = known(draw, noun)
    shape = draw.form(("is", "is", "not", "ask", "what"))
    if shape == "what":
        return f"what color {be} {english}?", f"{chinese}是什么颜色的？"
    color = draw(nouns.COLORS)
    if shape == "ask":
        return f"{be} {english} {color.en}?", f"{chinese}是{color.attribute}吗？"
    if shape == "not":
        return f"{english} {be} not {color.en}", f"{chinese}不是{color.attribute}"
    return f"{english} {be} {color.en}", f"{chinese}是{color.attribute}"


def _compared_things(draw: Draw) -> Pair:
    """Compare this one with that one: 比, 没有, 跟…一样."""
    noun = draw(_STATED)
    adjective = draw(nouns.STATED[noun.kind])
    near, zh_near, far = draw.form((("this", "这", "那"), ("that", "那", "这")))
    other = "that" if near == "this" else "this"
    first, second = f"{zh_near}{noun.measure}{noun.zh}", far + noun.measure
    english, chinese = draw.form(
        (
            (f"{adjective.comparative} than", f"比{second}{adjective.zh}"),
            (f"{adjective.comparative} than", f"比{second}{adjective.zh}"),
            (f"much {adjective.comparative} than", f"比{second}{adjective.zh}得多"),
            (f"a little {adjective.comparative} than", f"比{second}{adjective.zh}一点"),
            (f"not as {adjective.en} as", f"没有{second}{adjective.zh}"),
            (f"as {adjective.en} as", f"跟{second}一样{adjective.zh}"),
        )
    )
    return f"{near} {noun.en} is {english} {other} one", first + chinese


def _compared_owners(draw: Draw) -> Pair:
    noun = draw(OWNED)
    adjective = draw(nouns.STATED[noun.kind])
    owner = draw.form(PRONOUNS + NAMES)
    other = draw.form(tuple(person for person in PRONOUNS[:4] + NAMES if person != owner))
    english, chinese = owner.owns(noun)
    if draw.chance(0.3):
        return (
            f"{english} is as {adjective.en} as {other.independent}",
            f"{chinese}跟{other.zh_possessive}一样{adjective.zh}",
        )
    return (
        f"{english} is {adjective.comparative} than {other.independent}",
        f"{chinese}比{other.zh_possessive}{adjective.zh}",
    )


# Not by age: a grandmother is not younger than her daughter.
_COMPARED = tuple(trait for trait in TRAITS if trait.en != "young")
_PEERS = PRONOUNS[:4] * 3 + NAMES + FRIENDS


def _compared_people(draw: Draw) -> Pair:
    subject, trait = draw(SUBJECTS), draw(_COMPARED)
    other = another(draw, subject)
    english, chinese = draw.form(
        (
            (f"{trait.comparative} than", f"比{other.zh}{trait.zh}"),
            (f"{trait.comparative} than", f"比{other.zh}{trait.zh}"),
            (f"much {trait.comparative} than", f"比{other.zh}{trait.zh}得多"),
            (f"not as {trait.en} as", f"没有{other.zh}{trait.zh}"),
            (f"as {trait.en} as", f"跟{other.zh}一样{trait.zh}"),
        )
    )
    return f"{subject.en} {subject.be} {english} {other.object}", subject.zh + chinese


def _is_compared(draw: Draw) -> Pair:
    subject, trait = draw(ASKED), draw(_COMPARED)
    other = another(draw, subject)
    if draw.chance(0.4) and not subject.many and not other.many:
        return (
            f"who is {trait.comparative}, {subject.en} or {other.object}?",
            f"{subject.zh}和{other.zh}谁更{trait.zh}？",
        )
    return (
        f"{subject.be} {subject.en} {trait.comparative} than {other.object}?",
        f"{subject.zh}比{other.zh}{trait.zh}吗？",
    )


def _years_older(draw: Draw) -> Pair:
    subject = draw(_PEERS)
    other = draw(tuple(peer for peer in _PEERS if not related(subject, peer)))
    number = 1 + draw.form(range(9))
    years = "one year" if number == 1 else f"{english_number(number)} years"
    word, chinese = draw.form((("older", "大"), ("younger", "小")))
    return (
        f"{subject.en} {subject.be} {years} {word} than {other.object}",
        f"{subject.zh}比{other.zh}{chinese}{chinese_count(number)}岁",
    )


_ONE_PRONOUNS = PRONOUNS[:4]
_GROUPS = (
    ("student in the class", "班里", "学生", _ONE_PRONOUNS + NAMES + CHILDREN),
    ("person in the family", "家里", "人", _ONE_PRONOUNS + NAMES + FAMILY_ONE),
    ("person in the company", "公司里", "人", _ONE_PRONOUNS + NAMES + ADULTS),
    ("teacher in the school", "学校里", "老师", _ONE_PRONOUNS + NAMES + ADULTS),
)


def _superlative_person(draw: Draw) -> Pair:
    trait, (english, where, chinese, members) = draw(TRAITS), draw.form(_GROUPS)
    subject = draw(members)
    return (
        f"{subject.en} {subject.be} the {trait.superlative} {english}",
        f"{subject.zh}是{where}最{trait.zh}的{chinese}",
    )


def _superlative_thing(draw: Draw) -> Pair:
    if draw.chance(0.5):
        noun = draw(SOLD)
        adjective = draw(nouns.STATED[noun.kind])
        return (
            f"this is the {adjective.superlative} {noun.en} in the store",
            f"这是商店里最{adjective.zh}的{noun.zh}",
        )
    noun = draw(nouns.FILMS[:2] + nouns.READING)
    verb, chinese = ("seen", "看") if noun in nouns.FILMS else ("read", "读")
    adjective = draw(nouns.STATED[noun.kind])
    return (
        f"this is the {adjective.superlative} {noun.en} that I have ever {verb}",
        f"这是我{chinese}过的最{adjective.zh}的{noun.zh}",
    )


def _more_and_more(draw: Draw) -> Pair:
    """Getting taller and taller: 越来越."""
    subject, quality = draw(SUBJECTS), draw(TRAITS + FEELINGS)
    more = quality.comparative
    doubled = f"more and more {quality.en}" if more.startswith("more ") else f"{more} and {more}"
    return f"{subject.en} {subject.be} getting {doubled}", f"{subject.zh}越来越{quality.zh}"


_CAUSES = nouns.READING[:1] + nouns.READING[4:] + nouns.FILMS + nouns.MAIL[:2] + nouns.GIFTS
_CAUSED = tuple(
    feeling for feeling in FEELINGS if feeling.en not in ("tired", "busy", "hungry", "thirsty")
)


def _makes_feel(draw: Draw) -> Pair:
    """Something causes a feeling: 让."""
    subject, feeling, noun = draw(SUBJECTS), draw(_CAUSED), draw(_CAUSES)
    english, chinese, _ = pointed(draw, noun)
    return (
        f"{english} made {subject.object} very {feeling.en}",
        f"{chinese}让{subject.zh}非常{feeling.zh}",
    )


PATTERNS = (
    (_trait, 1.1),
    (_feeling, 1.3),
    (_is_like, 1),
    (_stated, 1.5),
    (_is_stated, 0.9),
    (_color, 1),
    (_compared_things, 1.2),
    (_compared_owners, 0.8),
    (_compared_people, 1.2),
    (_is_compared, 0.7),
    (_years_older, 0.6),
    (_superlative_person, 0.7),
    (_superlative_thing, 0.6),
    (_more_and_more, 0.6),
    (_makes_feel, 0.5),
)
