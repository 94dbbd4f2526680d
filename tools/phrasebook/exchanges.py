"""Actions on things and between people: 把, 给, 被, 让, love and dislike."""

from __future__ import annotations

from . import nouns
from .people import (
    CIRCLE,
    FAMILY,
    NAMES,
    PRONOUNS,
    SUBJECTS,
    YOU,
    another,
)
from .places import FUTURE_DAYS, IN, OUTINGS, PAST_DAYS, ROOMS
from .surroundings import surfaces
from .words import Draw, Noun, Pair, counted, indefinite

_PUT = (
    nouns.READING[:4]
    + nouns.TABLEWARE
    + nouns.PAPERS
    + nouns.STATIONERY
    + nouns.CARRIED
    + nouns.DEVICES[:3]
    + nouns.FRUIT[:6]
)
_PACKED = (
    nouns.READING[:3] + nouns.PAPERS + nouns.STATIONERY + nouns.DEVICES[:3] + nouns.JEWELRY[:2]
)
_GIVEN = (
    nouns.READING[:3]
    + nouns.STATIONERY
    + nouns.CARRIED
    + nouns.GIFTS
    + nouns.PAPERS[:6]
    + nouns.JEWELRY
    + nouns.DEVICES[:3]
    + nouns.FRUIT[:6]
)
_BOUGHT = tuple(noun for noun in _GIVEN if noun.kind != "paper")
_RETURNED = (
    nouns.READING[:3] + nouns.STATIONERY + nouns.CARRIED[:5] + nouns.DEVICES[:3] + nouns.PAPERS[:1]
)


def _spot(draw: Draw, noun: Noun) -> Pair:
    if noun in _PACKED and draw.chance(0.5):
        spot = draw(IN)
        return f"in the {spot.en}", spot.zh + "里"
    spot = draw(surfaces(noun)[:5])
    return f"on the {spot.en}", spot.zh + "上"


def _puts(draw: Draw) -> Pair:
    """Say where something is put: 把书放在桌子上."""
    noun = draw(_PUT)
    where, zh_where = _spot(draw, noun)
    put, zh_put = f"put the {noun.en} {where}", f"把{noun.zh}放在{zh_where}"
    shape = draw.form(("past", "past", "time", "please", "not", "want", "ask"))
    if shape == "please":
        return f"please {put}", f"请{zh_put}"
    if shape == "not":
        return f"do not {put}", f"不要{zh_put}"
    subject = draw(SUBJECTS)
    if shape == "want":
        return f"{subject.en} {subject.present('want')} to {put}", f"{subject.zh}想{zh_put}"
    if shape == "ask" and subject.person != 1:
        return f"did {subject.en} {put}?", f"{subject.zh}{zh_put}了吗？"
    if shape == "time":
        day = draw.form(PAST_DAYS)
        return f"{subject.en} {put} {day.en}", f"{subject.zh}{day.zh}{zh_put}了"
    return f"{subject.en} {put}", f"{subject.zh}{zh_put}了"


# Verbs that state their result with 把: past, base, participle, 动词 with its result, things.
_CHANGES: tuple[tuple[str, str, str, str, tuple[Noun, ...]], ...] = (
    ("broke", "break", "broken", "打破", nouns.TABLEWARE[:4] + nouns.FURNITURE[8:9]),
    ("sold", "sell", "sold", "卖掉", nouns.DEVICES + nouns.OWN_VEHICLES + nouns.INSTRUMENTS),
    ("repaired", "repair", "repaired", "修好", nouns.DEVICES + nouns.OWN_VEHICLES),
    (
        "washed",
        "wash",
        "washed",
        "洗干净",
        nouns.CLOTHES[:7] + nouns.TABLEWARE + nouns.VEHICLES[:1],
    ),
    ("took away", "take away", "taken away", "拿走", nouns.CARRIED + nouns.STATIONERY),
    (
        "borrowed",
        "borrow",
        "borrowed",
        "借走",
        nouns.READING[:3] + nouns.STATIONERY + nouns.CARRIED[:1],
    ),
    ("lost", "lose", "lost", "弄丢", nouns.PAPERS + nouns.STATIONERY + nouns.CARRIED[:5]),
    (
        "damaged",
        "damage",
        "damaged",
        "弄坏",
        nouns.DEVICES + nouns.VEHICLES[:3] + nouns.INSTRUMENTS,
    ),
)


def _changes(draw: Draw) -> Pair:
    subject, (past, base, _, chinese, things) = draw(SUBJECTS), draw.form(_CHANGES)
    draw.remember(base)
    noun = draw(things)
    if draw.chance(0.5):
        english, mandarin = f"the {noun.en}", noun.zh
    else:
        english, mandarin = draw.form(PRONOUNS + NAMES).owns(noun)
    shape = draw.form(("past", "past", "day", "not", "ask"))
    if shape == "not":
        return f"{subject.en} did not {base} {english}", f"{subject.zh}没有把{mandarin}{chinese}"
    if shape == "ask" and subject.person != 1:
        return f"did {subject.en} {base} {english}?", f"{subject.zh}把{mandarin}{chinese}了吗？"
    if shape == "day":
        day = draw.form(PAST_DAYS)
        return (
            f"{subject.en} {past} {english} {day.en}",
            f"{subject.zh}{day.zh}把{mandarin}{chinese}了",
        )
    return f"{subject.en} {past} {english}", f"{subject.zh}把{mandarin}{chinese}了"


def _is_changed(draw: Draw) -> Pair:
    """The passive: 被."""
    _, base, participle, chinese, things = draw.form(_CHANGES)
    draw.remember(base)
    noun = draw(things)
    english, mandarin = draw(PRONOUNS + NAMES).owns(noun)
    day, zh_day = "", ""
    if draw.chance(0.4):
        drawn = draw.form(PAST_DAYS)
        day, zh_day = f" {drawn.en}", drawn.zh
    agent = draw(NAMES + FAMILY + CIRCLE)
    return (
        f"{english} was {participle} by {agent.object}{day}",
        f"{mandarin}{zh_day}被{agent.zh}{chinese}了",
    )


def _gives(draw: Draw) -> Pair:
    """Give somebody a book: 给了他一本书."""
    subject, bought = draw(SUBJECTS), draw.chance(0.5)
    noun = draw(_BOUGHT if bought else _GIVEN)
    receiver = another(draw, subject)
    if draw.chance(0.3):
        english, chinese = counted(2 + draw.form(range(3)), noun)
    else:
        fitting = nouns.FITTING.get(noun.kind, ())
        english, chinese = indefinite(
            noun, draw.form(fitting) if fitting and draw.chance(0.4) else None
        )
    day, coming = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    to, zh_to = receiver.object, receiver.zh
    wish = subject.present("want")
    ways = (
        (
            (f"bought {to} {english}", f"给{zh_to}买了{chinese}"),
            (f"bought {to} {english} {day.en}", f"{day.zh}给{zh_to}买了{chinese}"),
            (f"{wish} to buy {to} {english}", f"想给{zh_to}买{chinese}"),
        )
        if bought
        else (
            (f"gave {to} {english}", f"给了{zh_to}{chinese}"),
            (f"gave {to} {english} {day.en}", f"{day.zh}给了{zh_to}{chinese}"),
            (f"will give {to} {english} {coming.en}", f"{coming.zh}会给{zh_to}{chinese}"),
        )
    )
    said, mandarin = draw.form(ways)
    return f"{subject.en} {said}", subject.zh + mandarin


def _hands_over(draw: Draw) -> Pair:
    """Give the book to somebody: 把书给他."""
    noun, shape = draw(_RETURNED), draw.form(("please", "gave", "returned", "lent", "will"))
    subject = YOU if shape == "please" else draw(SUBJECTS)
    receiver = another(draw, subject)
    if shape == "please":
        verb, chinese = draw.form(
            (("give", "给"), ("return", "还给"), ("show", "给"), ("lend", "借给"))
        )
        if verb == "show":
            return (
                f"please show the {noun.en} to {receiver.object}",
                f"请把{noun.zh}给{receiver.zh}看",
            )
        return (
            f"please {verb} the {noun.en} to {receiver.object}",
            f"请把{noun.zh}{chinese}{receiver.zh}",
        )
    verb, chinese = {
        "gave": ("gave", "给了"),
        "returned": ("returned", "还给了"),
        "lent": ("lent", "借给了"),
        "will": ("will give", "会"),
    }[shape]
    if shape == "will":
        return (
            f"{subject.en} will give the {noun.en} to {receiver.object}",
            f"{subject.zh}会把{noun.zh}给{receiver.zh}",
        )
    return (
        f"{subject.en} {verb} the {noun.en} to {receiver.object}",
        f"{subject.zh}把{noun.zh}{chinese}{receiver.zh}",
    )


def _leaves_behind(draw: Draw) -> Pair:
    subject, noun = draw(SUBJECTS), draw(nouns.CARRIED[:5] + nouns.PAPERS[:4] + nouns.DEVICES[:3])
    place = draw(ROOMS[:6] + OUTINGS)
    return (
        f"{subject.en} left the {noun.en} {place.at} {place.en}",
        f"{subject.zh}把{noun.zh}忘在{place.zh_inside}了",
    )


PATTERNS = (
    (_puts, 1.3),
    (_changes, 1.2),
    (_is_changed, 0.9),
    (_gives, 1.1),
    (_hands_over, 1),
    (_leaves_behind, 0.7),
)
