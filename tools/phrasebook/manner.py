"""Manner, duration and frequency of actions: 得, lengths of time, 次."""

from __future__ import annotations

from .nouns import LANGUAGES, SUBJECTS_TAUGHT
from .people import SUBJECTS
from .places import HOURS, LONG_UNITS, PAST_DAYS, clock, lasting, minutes
from .verbs import LASTING, activity
from .words import Draw, Pair, Phrase

_STEADY = tuple(item for item in LASTING if item.en not in ("sleep", "rest"))


def _started(draw: Draw) -> Pair:
    subject, (time, zh_time) = draw(SUBJECTS), clock(draw, range(1, 12))
    action = activity(draw, _STEADY)
    verb = draw.form(("started", "will start"))
    if verb == "started":
        return (
            f"{subject.en} started {action.gerund} at {time}",
            f"{subject.zh}{zh_time}开始{action.zh}了",
        )
    return (
        f"{subject.en} will start {action.gerund} at {time}",
        f"{subject.zh}{zh_time}会开始{action.zh}",
    )


def _duration(draw: Draw) -> Pair:
    """swam for two hours: 游了两个小时泳."""
    subject, action = draw(SUBJECTS), activity(draw, LASTING)
    span, zh_span = lasting(draw, HOURS, 4) if draw.chance(0.7) else minutes(draw)
    day = draw.form(PAST_DAYS[:6])
    return (
        f"{subject.en} {action.past} for {span} {day.en}",
        f"{subject.zh}{day.zh}{action.zh_verb}了{zh_span}{action.zh_object}",
    )


def _duration_until_now(draw: Draw) -> Pair:
    subject, subject_taught = draw(SUBJECTS), draw(LANGUAGES + SUBJECTS_TAUGHT)
    span, zh_span = lasting(draw, LONG_UNITS, 9)
    return (
        f"{subject.en} {subject.have} studied {subject_taught.en} for {span}",
        f"{subject.zh}学{subject_taught.zh}学了{zh_span}了",
    )


_MANNERS: tuple[tuple[str, str, tuple[Phrase, ...]], ...] = (
    ("run", "跑得", (Phrase("fast", "快"), Phrase("slowly", "慢"), Phrase("far", "远"))),
    ("sing", "唱得", (Phrase("well", "好"), Phrase("beautifully", "动听"))),
    ("dance", "跳得", (Phrase("well", "好"), Phrase("beautifully", "优美"))),
    (
        "drive",
        "开车开得",
        (Phrase("fast", "快"), Phrase("slowly", "慢"), Phrase("carefully", "小心")),
    ),
    ("write", "写得", (Phrase("fast", "快"), Phrase("well", "好"), Phrase("clearly", "清楚"))),
    ("walk", "走得", (Phrase("fast", "快"), Phrase("slowly", "慢"))),
    ("get up", "起得", (Phrase("early", "早"), Phrase("late", "晚"))),
    ("go to bed", "睡得", (Phrase("early", "早"), Phrase("late", "晚"))),
    ("swim", "游得", (Phrase("fast", "快"), Phrase("well", "好"), Phrase("slowly", "慢"))),
    ("sleep", "睡得", (Phrase("well", "好"),)),
    ("cook", "做饭做得", (Phrase("well", "好"),)),
)


def _manner(draw: Draw) -> Pair:
    """Say how something is done: the complement of degree with 得."""
    subject = draw(SUBJECTS)
    english, chinese, manners = draw.form(_MANNERS)
    draw.remember(english)
    how = draw(manners)
    head, _, rest = english.partition(" ")
    rest = f" {rest}" if rest else ""
    degree, zh_degree = draw.form((("", "很"), ("very ", "非常")))
    if draw.chance(0.25):
        return (
            f"{subject.en} {subject.do} not {english} {how.en}",
            f"{subject.zh}{chinese}不{how.zh}",
        )
    return (
        f"{subject.en} {subject.present(head)}{rest} {degree}{how.en}",
        f"{subject.zh}{chinese}{zh_degree}{how.zh}",
    )


_SPEAKING = (Phrase("well", "很好"), Phrase("very well", "非常好"), Phrase("fluently", "很流利"))


def _speaking(draw: Draw) -> Pair:
    subject, language, how = draw(SUBJECTS), draw(LANGUAGES), draw.form(_SPEAKING)
    return (
        f"{subject.en} {subject.present('speak')} {language.en} {how.en}",
        f"{subject.zh}{language.zh}说得{how.zh}",
    )


_TIMES = (("once", "一次"), ("twice", "两次"), ("three times", "三次"), ("four times", "四次"))


_SPANS = (("a week", "每个星期"), ("a month", "每个月"))


_REPEATED = tuple(item for item in _STEADY if item.zh_object)


def _times_a_week(draw: Draw) -> Pair:
    """swims twice a week: 每个星期游两次泳."""
    subject, action = draw(SUBJECTS), activity(draw, _REPEATED)
    (times, zh_times), (span, zh_span) = draw.form(_TIMES), draw.form(_SPANS)
    return (
        f"{subject.en} {action.present(subject)} {times} {span}",
        f"{subject.zh}{zh_span}{action.zh_verb}{zh_times}{action.zh_object}",
    )


PATTERNS = (
    (_started, 0.6),
    (_duration, 0.8),
    (_duration_until_now, 0.6),
    (_manner, 0.8),
    (_speaking, 0.5),
    (_times_a_week, 0.6),
)
