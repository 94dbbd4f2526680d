"""Statements about habits, wishes, duties and abilities, and where things are done."""

from __future__ import annotations

from .nouns import LANGUAGES
from .people import PUPILS, SINGULAR, SUBJECTS, WORKERS, another
from .places import (
    ADVERBS,
    EVERY,
    FUTURE_DAYS,
    PAST_DAYS,
    SCENES,
    clock,
)
from .verbs import (
    ACTIVITIES,
    CONSUMED,
    PASTIMES,
    SKILLS,
    activity,
    anything,
    anything_weak,
    one_of,
    usually,
)
from .words import Draw, Pair, Person

_ALONE = ("sleep", "rest", "take a shower", "take a nap", "take notes")
SHARED = tuple(item for item in ACTIVITIES if item.en not in _ALONE)
_MODALS = (
    ("want to", "想", "not want to"),
    ("need to", "需要", "not need to"),
    ("plan to", "打算", "not plan to"),
)


def _habit(draw: Draw) -> Pair:
    subject, adverb = draw(SUBJECTS), draw.form(ADVERBS)
    action = one_of(draw, activity, usually)
    when, zh_when = (" on weekends", "周末") if adverb.en == "usually" else ("", "")
    return (
        f"{subject.en} {adverb.en} {action.present(subject)}{when}",
        f"{subject.zh}{zh_when}{adverb.zh}{action.zh}",
    )


def _every_day(draw: Draw) -> Pair:
    subject, time = draw(SUBJECTS), draw.form(EVERY)
    action = activity(draw) if draw.chance(0.6) else usually(draw, CONSUMED)
    if draw.chance(0.2):
        return (
            f"{subject.en} {subject.do} not {action.en} {time.en}",
            f"{subject.zh}不是{time.zh}都{action.zh}",
        )
    return f"{subject.en} {action.present(subject)} {time.en}", f"{subject.zh}{time.zh}{action.zh}"


def _modal(draw: Draw) -> Pair:
    """want, need and plan, which agree with their subject."""
    subject, denied = draw(SUBJECTS), draw.chance(0.3)
    action = anything_weak(draw) if denied else anything(draw)
    english, chinese, negative = draw.form(_MODALS)
    verb = f"{subject.present(english.split()[0])} to"
    time, zh_time = "", ""
    if draw.chance(0.4):
        drawn = draw.form(FUTURE_DAYS)
        time, zh_time = f" {drawn.en}", drawn.zh
    if denied:
        return (
            f"{subject.en} {subject.do} {negative} {action.en}{time}",
            f"{subject.zh}{zh_time}不{chinese}{action.zh_weak}",
        )
    return f"{subject.en} {verb} {action.en}{time}", f"{subject.zh}{zh_time}{chinese}{action.zh}"


def _obligation(draw: Draw) -> Pair:
    """must, should and can, which do not."""
    subject, time = draw(SUBJECTS), draw.form(FUTURE_DAYS)
    english, chinese, denied = draw.form(
        (
            ("must", "必须", False),
            ("should", "应该", False),
            ("should not", "不应该", True),
            ("can", "可以", False),
            ("cannot", "不能", True),
            ("would like to", "想", False),
        )
    )
    action = anything_weak(draw) if denied else anything(draw)
    return (
        f"{subject.en} {english} {action.en} {time.en}",
        f"{subject.zh}{time.zh}{chinese}{action.zh_weak if denied else action.zh}",
    )


def _ability(draw: Draw) -> Pair:
    subject = draw(SUBJECTS)
    if draw.chance(0.3):
        language = draw(LANGUAGES)
        verb, chinese = f"speak {language.en}", f"说{language.zh}"
    else:
        action = activity(draw, SKILLS)
        verb, chinese = action.en, action.zh
    if draw.chance(0.3):
        return f"{subject.en} cannot {verb}", f"{subject.zh}不会{chinese}"
    return f"{subject.en} can {verb}", f"{subject.zh}会{chinese}"


def _taste(draw: Draw) -> Pair:
    """Say that somebody likes doing something."""
    subject = draw(SUBJECTS)
    action = activity(draw, PASTIMES) if draw.chance(0.5) else usually(draw)
    negative = draw.chance(0.25)
    verb, chinese = draw.form(
        (("like", "喜欢"), ("like", "喜欢"), ("hate", "讨厌"), ("love", "爱"))
    )
    if negative:
        return (
            f"{subject.en} {subject.do} not like {action.gerund}",
            f"{subject.zh}不喜欢{action.zh}",
        )
    return (
        f"{subject.en} {subject.present(verb)} {action.gerund}",
        f"{subject.zh}{chinese}{action.zh}",
    )


def _together(draw: Draw) -> Pair:
    subject, action = draw(SINGULAR), activity(draw, SHARED)
    companion = another(draw, subject)
    tense = draw.form(("past", "future", "often"))
    with_whom = f"with {companion.object}"
    zh_with = f"跟{companion.zh}一起"
    if tense == "often":
        return (
            f"{subject.en} often {action.present(subject)} {with_whom}",
            f"{subject.zh}经常{zh_with}{action.zh}",
        )
    if tense == "past":
        time = draw.form(PAST_DAYS)
        return (
            f"{subject.en} {action.past} {with_whom} {time.en}",
            f"{subject.zh}{time.zh}{zh_with}{action.zh_done}",
        )
    time = draw.form(FUTURE_DAYS)
    return (
        f"{subject.en} will {action.en} {with_whom} {time.en}",
        f"{subject.zh}{time.zh}会{zh_with}{action.zh}",
    )


# What, 什么, when, who does so, at what hours.
_ROUTINES: tuple[tuple[str, str, str, tuple[Person, ...], range], ...] = (
    ("get up", "起床", "every morning", SUBJECTS, range(5, 9)),
    ("go to bed", "睡觉", "every night", SUBJECTS, range(9, 12)),
    ("go to work", "上班", "every morning", WORKERS, range(7, 10)),
    ("go to school", "上学", "every morning", PUPILS, range(7, 9)),
    ("have breakfast", "吃早饭", "every morning", SUBJECTS, range(6, 10)),
    ("have lunch", "吃午饭", "every day", SUBJECTS, range(11, 13)),
    ("have dinner", "吃晚饭", "every evening", SUBJECTS, range(5, 9)),
    ("go home", "回家", "every evening", SUBJECTS, range(5, 10)),
)
_WHEN = {
    "every morning": "每天早上",
    "every night": "每天晚上",
    "every evening": "每天晚上",
    "every day": "每天",
}


def _routine(draw: Draw) -> Pair:
    english, chinese, when, people, hours = draw.form(_ROUTINES)
    draw.remember(english)
    subject = draw(people)
    time, zh_time = clock(draw, hours)
    head, _, rest = english.partition(" ")
    shape = draw.form(("usually", "every", "must"))
    if shape == "usually":
        return (
            f"{subject.en} usually {subject.present(head)} {rest} at {time}",
            f"{subject.zh}通常{zh_time}{chinese}",
        )
    if shape == "must":
        return f"{subject.en} must {english} at {time}", f"{subject.zh}必须{zh_time}{chinese}"
    return (
        f"{subject.en} {subject.present(head)} {rest} at {time} {when}",
        f"{subject.zh}{_WHEN[when]}{zh_time}{chinese}",
    )


def _somewhere(draw: Draw) -> Pair:
    """Say what is done where: 在公园里跑步."""
    subject, (place, activities) = draw(SUBJECTS), draw.form(SCENES)
    action = activity(draw, activities)
    draw.remember(place.en)
    where, zh_where = f"{place.at} {place.en}", f"在{place.zh_inside}"
    tense = draw.form(("now", "every", "past", "like"))
    if tense == "now":
        return (
            f"{subject.en} {subject.be} {action.gerund} {where}",
            f"{subject.zh}{zh_where}{action.zh}",
        )
    if tense == "every":
        time = draw.form(EVERY)
        return (
            f"{subject.en} {action.present(subject)} {where} {time.en}",
            f"{subject.zh}{time.zh}{zh_where}{action.zh}",
        )
    if tense == "past":
        time = draw.form(PAST_DAYS)
        return (
            f"{subject.en} {action.past} {where} {time.en}",
            f"{subject.zh}{time.zh}{zh_where}{action.zh_done}",
        )
    return (
        f"{subject.en} {subject.present('like')} {action.gerund} {where}",
        f"{subject.zh}喜欢{zh_where}{action.zh}",
    )


PATTERNS = (
    (_habit, 1.2),
    (_every_day, 1.2),
    (_modal, 1.4),
    (_obligation, 1.4),
    (_ability, 0.9),
    (_taste, 1.1),
    (_together, 1.1),
    (_somewhere, 1.2),
    (_routine, 1),
)
