"""Statements about one occasion: past, present and future, what has and has not been done.

A pattern draws words and returns one English and one Chinese sentence, both without the final
stop; a question or an exclamation ends in its own mark.
"""

from __future__ import annotations

from .nouns import FOODS, LIQUIDS
from .people import SUBJECTS
from .places import FUTURE_DAYS, FUTURE_LONG, PAST_DAYS, PAST_LONG
from .verbs import (
    ACTIVITIES,
    EVENTS,
    FRAMES,
    SEARCH,
    UNDER_WAY,
    Usual,
    activity,
    anything,
    anything_weak,
    named_frames,
    one_of,
    usually,
    with_known,
    with_one,
    with_several,
)
from .words import Action, Draw, Pair

_TRADE = named_frames("buy", "sell", "repair")
_MADE = (
    SEARCH,
    *(frame for frame in FRAMES if frame.en not in ("buy", "sell", "choose", "order", "borrow")),
)
_RARE_FOODS = ("noodles", "beef", "dumplings", "chocolate", "tofu", "Chinese food", "fish")
_EXPERIENCES = tuple(
    item
    for item in ACTIVITIES
    if item.en
    in (
        "ski",
        "skate",
        "ride a horse",
        "climb mountains",
        "do yoga",
        "make dumplings",
        "play chess",
        "play baseball",
        "fly a kite",
        "plant trees",
        "play the violin",
    )
)
_TASTED = (
    Usual("eat", "吃", tuple(food for food in FOODS if food.en in _RARE_FOODS)),
    Usual(
        "drink",
        "喝",
        tuple(drink for drink in LIQUIDS if drink.en not in ("water", "milk", "juice")),
    ),
)
_SEEN = named_frames("read", "watch", "repair", "tell", "sing", "ask")
_FINISHED = named_frames("read", "write", "eat", "drink", "draw")


def _done(draw: Draw) -> Action:
    """Draw something that can have happened on one day."""
    return one_of(draw, activity, activity, with_one, with_one, with_several, usually)


def _past(draw: Draw) -> Pair:
    subject, action, time = draw(SUBJECTS), _done(draw), draw.form(PAST_DAYS)
    if action.bounded and draw.chance(0.3):
        return f"{subject.en} {action.past}", subject.zh + action.zh_done
    return f"{subject.en} {action.past} {time.en}", subject.zh + time.zh + action.zh_done


def _event(draw: Draw) -> Pair:
    subject, time = draw(SUBJECTS), draw.form(PAST_DAYS)
    action = one_of(draw, with_one, with_several, frames=EVENTS)
    return f"{subject.en} {action.past} {time.en}", subject.zh + time.zh + action.zh_done


def _trade(draw: Draw) -> Pair:
    subject, time = draw(SUBJECTS), draw.form(PAST_LONG)
    action = one_of(draw, with_one, with_several, frames=_TRADE)
    return f"{subject.en} {action.past} {time.en}", subject.zh + time.zh + action.zh_done


def _past_known(draw: Draw) -> Pair:
    subject, action, time = draw(SUBJECTS), with_known(draw), draw.form(PAST_DAYS)
    return f"{subject.en} {action.past} {time.en}", subject.zh + time.zh + action.zh_done


def _past_negative(draw: Draw) -> Pair:
    subject, time = draw(SUBJECTS), draw.form(PAST_DAYS)
    action = one_of(draw, activity, with_known, usually)
    return f"{subject.en} did not {action.en} {time.en}", f"{subject.zh}{time.zh}没有{action.zh}"


def _under_way(draw: Draw) -> Pair:
    subject = draw(SUBJECTS)
    if draw.chance(0.2):
        action = activity(draw, UNDER_WAY) if draw.chance(0.5) else usually(draw)
        return (
            f"{subject.en} {subject.be} not {action.gerund}",
            f"{subject.zh}没有在{action.zh}",
        )
    kind = draw.form(("activity", "one", "usual"))
    if kind == "activity":
        action = activity(draw, UNDER_WAY)
    else:
        action = with_one(draw, _MADE) if kind == "one" else usually(draw)
    now, zh_now = (" now", "现在") if draw.chance(0.3) else ("", "")
    return f"{subject.en} {subject.be} {action.gerund}{now}", f"{subject.zh}{zh_now}在{action.zh}"


def _future(draw: Draw) -> Pair:
    subject, time = draw(SUBJECTS), draw.form(FUTURE_DAYS)
    if draw.chance(0.25):
        action = anything_weak(draw)
        return (
            f"{subject.en} will not {action.en} {time.en}",
            f"{subject.zh}{time.zh}不会{action.zh_weak}",
        )
    action = anything(draw)
    return f"{subject.en} will {action.en} {time.en}", f"{subject.zh}{time.zh}会{action.zh}"


def _going_to(draw: Draw) -> Pair:
    subject, action, time = draw(SUBJECTS), anything(draw), draw.form(FUTURE_DAYS)
    return (
        f"{subject.en} {subject.be} going to {action.en} {time.en}",
        f"{subject.zh}{time.zh}要{action.zh}",
    )


def _planned(draw: Draw) -> Pair:
    subject, time = draw(SUBJECTS), draw.form(FUTURE_LONG)
    action = with_one(draw, _TRADE)
    verb, chinese = draw.form((("plan", "打算"), ("want", "想")))
    return (
        f"{subject.en} {subject.present(verb)} to {action.en} {time.en}",
        f"{subject.zh}{time.zh}{chinese}{action.zh}",
    )


def _experience(draw: Draw) -> Pair:
    """have done before: 过."""
    subject = draw(SUBJECTS)
    action = activity(draw, _EXPERIENCES) if draw.chance(0.3) else usually(draw, _TASTED)
    if draw.chance(0.5):
        action = with_known(draw, _SEEN)
    chinese = f"{action.zh_verb}过{action.zh_object}"
    if draw.chance(0.4):
        return (
            f"{subject.en} {subject.have} never {action.participle}",
            f"{subject.zh}从来没有{chinese}",
        )
    return f"{subject.en} {subject.have} {action.participle} before", f"{subject.zh}以前{chinese}"


def _already(draw: Draw) -> Pair:
    subject = draw(SUBJECTS)
    action = one_of(draw, activity, with_known)
    if draw.chance(0.4):
        return (
            f"{subject.en} {subject.have} not {action.participle} yet",
            f"{subject.zh}还没有{action.zh}",
        )
    return (
        f"{subject.en} {subject.have} already {action.participle}",
        f"{subject.zh}已经{action.zh_done}",
    )


def _finished(draw: Draw) -> Pair:
    """finish doing: the result 完 behind the verb."""
    subject, action = draw(SUBJECTS), with_known(draw, _FINISHED)
    if draw.chance(0.3):
        return (
            f"{subject.en} did not finish {action.gerund}",
            f"{subject.zh}没有{action.zh_verb}完{action.zh_object}",
        )
    return (
        f"{subject.en} finished {action.gerund}",
        f"{subject.zh}{action.zh_verb}完了{action.zh_object}",
    )


PATTERNS = (
    (_past, 1.6),
    (_event, 1),
    (_trade, 0.8),
    (_past_known, 1),
    (_past_negative, 1),
    (_under_way, 1.4),
    (_future, 1.2),
    (_going_to, 0.9),
    (_planned, 0.6),
    (_experience, 1),
    (_already, 1),
    (_finished, 0.8),
)
