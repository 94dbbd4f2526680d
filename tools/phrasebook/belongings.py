"""Possession, identity and price: jobs, wishes, clothes, likes, owners."""

from __future__ import annotations

from . import nouns
from .describe import OWNED, SOLD, known
from .forms import chinese_count, chinese_number, english_number, ordinal, with_article
from .people import (
    ASKED,
    CITIES,
    COUNTRIES,
    GOOD_TRAITS,
    NAMES,
    NATIONALITIES,
    SINGULAR,
    SUBJECTS,
    WORKERS,
    YOU,
)
from .places import MONTHS
from .verbs import pointed
from .words import Draw, Pair, Person, counted, indefinite

_ASKED_ONE = tuple(person for person in ASKED if not person.many)
_WANTED = SOLD + nouns.PETS
_ALL = (
    SOLD
    + nouns.LANDSCAPE
    + nouns.PETS
    + nouns.FARM_ANIMALS
    + nouns.WILD_ANIMALS
    + nouns.SMALL_ANIMALS
)
_WORN = nouns.CLOTHES + nouns.WORN + nouns.JEWELRY
_MENS = tuple(noun for noun in _WORN if noun.en not in ("skirt", "dress", "necklace"))
_WOMENS = tuple(noun for noun in _WORN if noun.en != "tie")


def _job(draw: Draw) -> Pair:
    subject, job = draw(WORKERS), draw(nouns.JOBS)
    shape = draw.form(("is", "is", "not", "ask"))
    a_job = with_article(job.en)
    if shape == "not":
        return f"{subject.en} {subject.be} not {a_job}", f"{subject.zh}不是{job.zh}"
    if shape == "ask":
        subject = YOU if subject.en == "I" else subject
        return f"{subject.be} {subject.en} {a_job}?", f"{subject.zh}是{job.zh}吗？"
    return f"{subject.en} {subject.be} {a_job}", f"{subject.zh}是{job.zh}"


def _future_job(draw: Draw) -> Pair:
    subject, job = draw(WORKERS), draw(nouns.JOBS[:-2])
    return (
        f"{subject.en} {subject.present('want')} to become {with_article(job.en)}",
        f"{subject.zh}想成为一{job.measure}{job.zh}",
    )


def _praised(draw: Draw) -> Pair:
    subject, job, trait = draw(WORKERS), draw(nouns.JOBS), draw(GOOD_TRAITS)
    english, chinese = indefinite(job, trait)
    return f"{subject.en} {subject.be} {english}", f"{subject.zh}是{chinese}"


def _origin(draw: Draw) -> Pair:
    subject, shape = draw(SUBJECTS), draw.form(("is", "from", "ask", "not"))
    if shape == "from":
        place = draw(draw.form((COUNTRIES, CITIES)))
        verb, chinese = draw.form(((subject.be, "来自"), (subject.present("come"), "来自")))
        return f"{subject.en} {verb} from {place.en}", subject.zh + chinese + place.zh
    nation = draw(NATIONALITIES)
    if shape == "ask":
        subject = draw(ASKED)
        return f"{subject.be} {subject.en} {nation.en}?", f"{subject.zh}是{nation.zh}吗？"
    if shape == "not":
        return f"{subject.en} {subject.be} not {nation.en}", f"{subject.zh}不是{nation.zh}"
    return f"{subject.en} {subject.be} {nation.en}", f"{subject.zh}是{nation.zh}"


def _plausible_ages(person: Person) -> range:
    """Keep grandmothers from being six."""
    if "grand" in person.en:
        return range(60, 90)
    if person.en.endswith(("son", "daughter")) or person.en in ("the boy", "the girl"):
        return range(2, 15)
    if person.en in ("I", "you", "he", "she"):
        return range(10, 60)
    if person in NAMES or person.en.endswith(("younger brother", "younger sister")):
        return range(6, 30)
    return range(30, 58)


def _age(draw: Draw) -> Pair:
    subject = draw(SINGULAR)
    if draw.chance(0.15):
        subject = draw(_ASKED_ONE)
        return f"how old {subject.be} {subject.en}?", f"{subject.zh}多大了？"
    number = draw.form(_plausible_ages(subject))
    return (
        f"{subject.en} {subject.be} {english_number(number)} years old",
        f"{subject.zh}{chinese_count(number)}岁",
    )


def _birthday(draw: Draw) -> Pair:
    owner, month = draw(SINGULAR), draw(MONTHS)
    day = 1 + draw.form(range(28))
    return (
        f"{owner.possessive} birthday is {month.en} {ordinal(day)}",
        f"{owner.zh_possessive}生日是{month.zh}{chinese_number(day)}号",
    )


def _name(draw: Draw) -> Pair:
    subject = draw(tuple(person for person in SINGULAR if person not in NAMES))
    name = draw(
        tuple(name for name in NAMES if subject.person < 3 or name.pronoun == subject.pronoun)
    )
    if draw.chance(0.3):
        return f"is {subject.possessive} name {name.en}?", f"{subject.zh}叫{name.zh}吗？"
    return f"{subject.possessive} name is {name.en}", f"{subject.zh}叫{name.zh}"


def _has(draw: Draw) -> Pair:
    subject, noun = draw(SUBJECTS), draw(OWNED)
    shape = draw.form(("one", "several", "many", "not"))
    if shape == "not":
        return (
            f"{subject.en} {subject.do} not have {with_article(noun.en)}",
            f"{subject.zh}没有{noun.zh}",
        )
    if shape == "many" and noun.kind not in ("vehicle", "device", "instrument"):
        return f"{subject.en} {subject.have} many {noun.plural}", f"{subject.zh}有很多{noun.zh}"
    if shape == "several":
        english, chinese = counted(2 + draw.form(range(4)), noun)
    else:
        fitting = nouns.FITTING.get(noun.kind, ())
        adjective = draw.form(fitting) if fitting and draw.chance(0.4) else None
        english, chinese = indefinite(noun, adjective)
    return f"{subject.en} {subject.have} {english}", f"{subject.zh}有{chinese}"


def _has_question(draw: Draw) -> Pair:
    subject, noun = draw(ASKED), draw(OWNED)
    if draw.chance(0.4):
        return (
            f"how many {noun.plural} {subject.do} {subject.en} have?",
            f"{subject.zh}有几{noun.measure}{noun.zh}？",
        )
    return (
        f"{subject.do} {subject.en} have {with_article(noun.en)}?",
        f"{subject.zh}有{noun.zh}吗？",
    )


def _wish(draw: Draw) -> Pair:
    """want and need with a thing: 想要, 需要."""
    subject, noun = draw(SUBJECTS), draw(_WANTED)
    verb, chinese = draw.form((("want", "想要"), ("need", "需要")))
    if noun.kind in ("animal", "fruit", "food"):
        verb, chinese = "want", "想要"
    fitting = nouns.NAMED_WITH.get(noun.kind, ())
    adjective = draw.form(fitting) if fitting and draw.chance(0.5) else None
    english, mandarin = indefinite(noun, adjective)
    weak = (adjective.attribute if adjective else "") + noun.zh
    shape = draw.form(("yes", "yes", "yes", "not", "ask"))
    if shape == "not":
        return (
            f"{subject.en} {subject.do} not {verb} {english}",
            f"{subject.zh}不{chinese}{weak}",
        )
    if shape == "ask" and subject.person != 1:
        return f"{subject.do} {subject.en} {verb} {english}?", f"{subject.zh}{chinese}{weak}吗？"
    return f"{subject.en} {subject.present(verb)} {english}", subject.zh + chinese + mandarin


def _likes_this(draw: Draw) -> Pair:
    subject, noun = draw(SUBJECTS), draw(OWNED + nouns.FILMS + nouns.BUILDINGS[2:7])
    english, chinese, _ = pointed(draw, noun)
    shape = draw.form(("like", "like", "very", "not", "ask"))
    if shape == "not":
        return f"{subject.en} {subject.do} not like {english}", f"{subject.zh}不喜欢{chinese}"
    if shape == "ask" and subject.person != 1:
        return f"{subject.do} {subject.en} like {english}?", f"{subject.zh}喜欢{chinese}吗？"
    if shape == "very":
        return (
            f"{subject.en} {subject.present('like')} {english} very much",
            f"{subject.zh}非常喜欢{chinese}",
        )
    return f"{subject.en} {subject.present('like')} {english}", f"{subject.zh}喜欢{chinese}"


_LIKED = nouns.LEISURE + nouns.FOODS + nouns.LIQUIDS


def _likes(draw: Draw) -> Pair:
    subject, thing = draw(SUBJECTS), draw(_LIKED)
    shape = draw.form(("like", "not", "ask", "very", "love"))
    if shape == "not":
        return f"{subject.en} {subject.do} not like {thing.en}", f"{subject.zh}不喜欢{thing.zh}"
    if shape == "ask" and subject.person != 1:
        return f"{subject.do} {subject.en} like {thing.en}?", f"{subject.zh}喜欢{thing.zh}吗？"
    if shape == "very":
        return (
            f"{subject.en} {subject.present('like')} {thing.en} very much",
            f"{subject.zh}非常喜欢{thing.zh}",
        )
    return f"{subject.en} {subject.present('like')} {thing.en}", f"{subject.zh}喜欢{thing.zh}"


def _prefers(draw: Draw) -> Pair:
    """like one better than the other: 比起…，更喜欢…."""
    subject = draw(SUBJECTS)
    group = draw.form((nouns.FOODS, nouns.LIQUIDS, nouns.LEISURE[:5], nouns.LEISURE[-4:]))
    first = draw(group)
    second = draw.other(group, first)
    return (
        f"{subject.en} {subject.present('like')} {first.en} better than {second.en}",
        f"比起{second.zh}，{subject.zh}更喜欢{first.zh}",
    )


def _whose(draw: Draw) -> Pair:
    owner, noun = draw(SUBJECTS), draw(OWNED)
    english, chinese = owner.owns(noun)
    shape = draw.form(("this", "not", "ask", "whose", "alone", "those"))
    pointer, zh_pointer = draw.form((("this", "这"), ("that", "那")))
    if shape == "not":
        return f"{pointer} is not {english}", f"{zh_pointer}不是{chinese}"
    if shape == "ask":
        return f"is {pointer} {english}?", f"{zh_pointer}是{chinese}吗？"
    if shape == "whose":
        return f"whose {noun.en} is {pointer}?", f"{zh_pointer}是谁的{noun.zh}？"
    if shape == "alone":
        return (
            f"{pointer} {noun.en} is {owner.independent}",
            f"{zh_pointer}{noun.measure}{noun.zh}是{owner.zh_possessive}",
        )
    if shape == "those":
        plural = "these" if pointer == "this" else "those"
        return f"{plural} are {owner.possessive} {noun.plural}", f"{zh_pointer}些是{chinese}"
    return f"{pointer} is {english}", f"{zh_pointer}是{chinese}"


def _what_it_is(draw: Draw) -> Pair:
    noun = draw(_ALL)
    pointer, zh_pointer = draw.form((("this", "这"), ("that", "那")))
    shape = draw.form(("is", "is", "not", "ask"))
    if shape == "not":
        return f"{pointer} is not {with_article(noun.en)}", f"{zh_pointer}不是{noun.zh}"
    if shape == "ask":
        return f"is {pointer} {with_article(noun.en)}?", f"{zh_pointer}是{noun.zh}吗？"
    fitting = nouns.NAMED_WITH.get(noun.kind, ())
    english, chinese = indefinite(noun, draw(fitting) if fitting and draw.chance(0.7) else None)
    return f"{pointer} is {english}", f"{zh_pointer}是{chinese}"


def _wears(draw: Draw) -> Pair:
    """is wearing: 穿着 clothes, 戴着 what is put on hands, head and neck."""
    subject = draw(SINGULAR)
    noun = draw(_WOMENS if subject.pronoun == "she" else _MENS)
    verb = "穿" if noun in nouns.CLOTHES else "戴"
    adjectives = nouns.FITTING["clothes"] + (() if noun in nouns.JEWELRY else nouns.COLORS)
    adjective = draw.form(adjectives) if draw.chance(0.8) else None
    english, chinese = indefinite(noun, adjective)
    shape = draw.form(("is", "is", "was"))
    if shape == "was":
        return f"{subject.en} {subject.was} wearing {english} yesterday", (
            f"{subject.zh}昨天{verb}着{chinese}"
        )
    return f"{subject.en} {subject.be} wearing {english}", f"{subject.zh}{verb}着{chinese}"


_PRICES: dict[str, range] = {
    "fruit": range(2, 20),
    "food": range(3, 60),
    "text": range(11, 99),
    "vessel": range(10, 99),
    "item": range(10, 200, 5),
    "clothes": range(50, 990, 10),
    "furniture": range(100, 990, 50),
}


def _price(draw: Draw) -> Pair:
    if draw.chance(0.3):
        noun = draw(SOLD)
        english, chinese, be = known(draw, noun)
        return f"how much {be} {english}?", f"{chinese}多少钱？"
    noun = draw(tuple(noun for noun in SOLD if noun.kind in _PRICES))
    number = draw.form(_PRICES[noun.kind])
    pointer, zh_pointer = draw.form((("this", "这"), ("that", "那")))
    return (
        f"{pointer} {noun.en} costs {english_number(number)} yuan",
        f"{zh_pointer}{noun.measure}{noun.zh}要{chinese_count(number)}块钱",
    )


PATTERNS = (
    (_job, 1),
    (_future_job, 0.6),
    (_praised, 1),
    (_origin, 1),
    (_age, 0.8),
    (_birthday, 0.6),
    (_name, 0.5),
    (_has, 1.3),
    (_has_question, 0.9),
    (_wish, 1.2),
    (_likes_this, 1),
    (_likes, 1.1),
    (_prefers, 0.6),
    (_whose, 1.1),
    (_what_it_is, 1),
    (_wears, 1),
    (_price, 0.9),
)
