"""Two actions in time: at once, one after the other, one interrupting the other."""

from __future__ import annotations

from .habits import SHARED
from .people import SUBJECTS, another
from .verbs import ACTIVITIES, AT_HOME, UNDER_WAY, activity, one_of, usually
from .words import Draw, Pair


def _meanwhile(draw: Draw) -> Pair:
    subject = draw(SUBJECTS)
    other = another(draw, subject)
    first = activity(draw, UNDER_WAY)
    second = activity(draw, tuple(item for item in UNDER_WAY if item.action is not first))
    return (
        f"{subject.en} {subject.be} {first.gerund}, and {other.en} {other.be} {second.gerund}",
        f"{subject.zh}在{first.zh}，{other.zh}在{second.zh}",
    )


def _when(draw: Draw) -> Pair:
    """…的时候."""
    subject, action = draw(SUBJECTS), activity(draw, UNDER_WAY)
    other = another(draw, subject)
    doing = f"{subject.en} {subject.was} {action.gerund}"
    event, zh_event = draw.form(
        (
            (f"{other.en} arrived", f"{other.zh}到的时候"),
            (f"{other.en} came home", f"{other.zh}回家的时候"),
            (f"{other.en} called", f"{other.zh}打电话的时候"),
            (f"{other.en} got up", f"{other.zh}起床的时候"),
        )
    )
    if draw.chance(0.5):
        return f"when {event}, {doing}", f"{zh_event}，{subject.zh}在{action.zh}"
    return f"{doing} when {event}", f"{zh_event}，{subject.zh}在{action.zh}"


def _first_then(draw: Draw) -> Pair:
    """先…，然后…."""
    subject, first = draw(SUBJECTS), one_of(draw, activity, usually)
    second = one_of(draw, activity, usually)
    while second.verb is first.verb:
        second = one_of(draw, activity, usually)
    return (
        f"{subject.en} will {first.en} first and then {second.en}",
        f"{subject.zh}会先{first.zh}，然后{second.zh}",
    )


_DUTIES = ("drive", "take notes", "work", "have a meeting")
_LEISURE = tuple(item for item in SHARED if item.en not in _DUTIES)
_EVENING = tuple(item for item in AT_HOME if item in SHARED)


_MEALS = (("breakfast", "早饭"), ("lunch", "午饭"), ("dinner", "晚饭"))


def _before_after(draw: Draw) -> Pair:
    subject, shape = draw(SUBJECTS), draw.form(("meal", "bed", "work", "after", "before"))
    action = activity(draw, _EVENING if shape in ("meal", "bed") else _LEISURE)
    if shape == "meal":
        when, zh_when = draw.form((("after", "后"), ("before", "前")))
        meal, zh_meal = draw.form(_MEALS)
        return (
            f"{subject.en} often {action.present(subject)} {when} {meal}",
            f"{subject.zh}{zh_meal}{zh_when}经常{action.zh}",
        )
    if shape == "bed":
        return (
            f"{subject.en} usually {action.present(subject)} before going to bed",
            f"{subject.zh}睡觉以前通常{action.zh}",
        )
    if shape == "work":
        return (
            f"{subject.en} often {action.present(subject)} after work",
            f"{subject.zh}下班以后经常{action.zh}",
        )
    other = activity(draw, tuple(item for item in _LEISURE if item.action is not action))
    if shape == "after":
        return (
            f"after {other.gerund}, {subject.en} {action.past}",
            f"{other.zh}以后，{subject.zh}{action.zh_done}",
        )
    return (
        f"{subject.en} {action.past} before {other.gerund}",
        f"{other.zh}以前，{subject.zh}{action.zh_done}",
    )


_BACKGROUND = ("listen to music", "watch TV", "chat", "sing", "listen to the radio")


_FOREGROUND = (
    "do homework",
    "cook",
    "do housework",
    "clean the room",
    "wash the dishes",
    "work",
    "drive",
    "run",
    "make dumplings",
    "draw pictures",
    "take a walk",
    "exercise",
    "wash clothes",
)


_EASY = tuple(item for item in ACTIVITIES if item.en in _BACKGROUND)


_MAIN = tuple(item for item in ACTIVITIES if item.en in _FOREGROUND)


def _at_once(draw: Draw) -> Pair:
    """Two things at the same time: 一边…一边…."""
    subject, main = draw(SUBJECTS), activity(draw, _MAIN)
    easy = activity(draw, _EASY)
    shape = draw.form(("often", "is", "like"))
    both = f"一边{main.zh}一边{easy.zh}"
    if shape == "often":
        return (
            f"{subject.en} often {easy.present(subject)} while {main.gerund}",
            f"{subject.zh}经常{both}",
        )
    if shape == "like":
        return (
            f"{subject.en} {subject.present('like')} {easy.gerund} while {main.gerund}",
            f"{subject.zh}喜欢{both}",
        )
    return (
        f"{subject.en} {subject.be} {easy.gerund} while {main.gerund}",
        f"{subject.zh}在{both}",
    )


PATTERNS = (
    (_meanwhile, 0.7),
    (_when, 1),
    (_first_then, 0.7),
    (_before_after, 1),
    (_at_once, 0.9),
)
