"""Requests, invitations, suggestions and prohibitions."""

from __future__ import annotations

from .habits import SHARED
from .people import ASKED, PRONOUNS, SUBJECTS, YOU, another
from .places import FUTURE_DAYS, SCENES
from .verbs import (
    ACTIVITIES,
    activity,
    anything,
    named_frames,
    one_of,
    usually,
    with_known,
    with_one,
)
from .words import Draw, Pair

_REQUESTED = named_frames("read", "write", "wash", "repair", "draw", "sing", "tell", "buy", "make")
_OFFERED = named_frames("eat", "drink", "watch", "read")
_HELPED = named_frames("wash", "repair", "buy", "write", "choose", "make")
_NOISY = (
    "swim",
    "dance",
    "sing",
    "sleep",
    "run",
    "ride a bike",
    "take photos",
    "chat",
    "fly a kite",
)
_NOISY_TOO = ("play games", "play football", "play basketball", "play the violin", "go fishing")
_FORBIDDEN = tuple(item for item in ACTIVITIES if item.en in _NOISY + _NOISY_TOO)


def _please(draw: Draw) -> Pair:
    shape = draw.form(("one", "known", "with", "place"))
    if shape == "known":
        action = with_known(draw, _REQUESTED)
        return f"please {action.en}", f"请{action.zh}"
    if shape == "one":
        action = with_one(draw, _REQUESTED)
        return f"please {action.en}", f"请{action.zh}"
    if shape == "with":
        action, other = activity(draw, SHARED), another(draw, YOU)
        return f"please {action.en} with {other.object}", f"请跟{other.zh}一起{action.zh}"
    place, activities = draw.form(SCENES)
    action = activity(draw, activities)
    draw.remember(place.en)
    where = f"{place.at} {place.en}"
    return f"please {action.en} {where}", f"请在{place.zh_inside}{action.zh}"


def _forbids(draw: Draw) -> Pair:
    shape = draw.form(("here", "please", "now", "time", "this", "place"))
    if shape == "this":
        frames = named_frames("buy", "read", "watch", "eat", "drink", "sell", "tell", "wash")
        action = with_known(draw, frames)
        return f"do not {action.en}", f"不要{action.zh}"
    if shape in ("here", "please"):
        action = activity(draw, _FORBIDDEN)
        please, zh_please = ("please ", "请") if shape == "please" else ("", "")
        return f"{please}do not {action.en} here", f"{zh_please}不要在这里{action.zh}"
    if shape == "place":
        place, activities = draw.form(SCENES[2:])
        action = activity(draw, activities)
        draw.remember(place.en)
        return (
            f"please do not {action.en} {place.at} {place.en}",
            f"请不要在{place.zh_inside}{action.zh}",
        )
    action = activity(draw)
    if shape == "now":
        return f"do not {action.en} now", f"现在不要{action.zh}"
    day = draw.form(FUTURE_DAYS)
    return f"do not {action.en} {day.en}", f"{day.zh}不要{action.zh}"


def _let_us(draw: Draw) -> Pair:
    shape = draw.form(("plain", "time", "together", "thing", "place", "shall", "why not"))
    day = draw.form(FUTURE_DAYS)
    if shape == "thing":
        action = one_of(draw, usually, with_one)
        return f"let's {action.en} {day.en}", f"我们{day.zh}{action.zh}吧"
    if shape == "place":
        place, activities = draw.form(SCENES)
        action = activity(draw, activities)
        draw.remember(place.en)
        return (
            f"let's {action.en} {place.at} {place.en}",
            f"我们在{place.zh_inside}{action.zh}吧",
        )
    action = activity(draw, SHARED)
    if shape == "shall":
        return f"shall we {action.en} {day.en}?", f"我们{day.zh}{action.zh}好吗？"
    if shape == "why not":
        return f"why don't we {action.en} {day.en}?", f"我们{day.zh}为什么不{action.zh}呢？"
    if shape == "together":
        return f"let's {action.en} together {day.en}", f"我们{day.zh}一起{action.zh}吧"
    if shape == "time":
        return f"let's {action.en} {day.en}", f"我们{day.zh}{action.zh}吧"
    return f"let's {action.en}", f"我们{action.zh}吧"


def _may_i(draw: Draw) -> Pair:
    shape = draw.form(("here", "may", "known", "can you", "could you"))
    if shape == "here":
        action = activity(draw, _FORBIDDEN)
        return f"may I {action.en} here?", f"我可以在这里{action.zh}吗？"
    if shape == "known":
        frames = named_frames("read", "watch", "eat", "drink", "borrow", "wash", "buy")
        action = with_known(draw, frames)
        return f"may I {action.en}?", f"我可以{action.zh}吗？"
    if shape in ("can you", "could you"):
        action = one_of(draw, with_known, with_one, frames=_HELPED)
        whom, zh_whom = draw.form((("me", "我"), ("us", "我们"), ("him", "他"), ("her", "她")))
        return (
            f"{shape} help {whom} {action.en}?",
            f"你{'能' if shape == 'can you' else '可以'}帮{zh_whom}{action.zh}吗？",
        )
    action = activity(draw)
    day = draw.form(FUTURE_DAYS)
    return f"may I {action.en} {day.en}?", f"我{day.zh}可以{action.zh}吗？"


def _invites(draw: Draw) -> Pair:
    shape = draw.form(("with", "time", "would", "interest", "thing"))
    if shape == "thing":
        action = usually(draw) if draw.chance(0.5) else with_one(draw, _OFFERED, plain=True)
        return f"would you like to {action.en}?", f"你想{action.zh_weak}吗？"
    action, day = activity(draw, SHARED), draw.form(FUTURE_DAYS)
    other = draw(tuple(person for person in PRONOUNS if person.en != "you"))
    whom, zh_whom = other.object, other.zh
    if shape == "time":
        subject = draw(ASKED)
        return (
            f"{subject.do} {subject.en} have time to {action.en} {day.en}?",
            f"{subject.zh}{day.zh}有时间{action.zh}吗？",
        )
    if shape == "with":
        return (
            f"would you like to {action.en} with {whom} {day.en}?",
            f"你{day.zh}想跟{zh_whom}一起{action.zh}吗？",
        )
    if shape == "would":
        return f"do you want to {action.en} with {whom}?", f"你想跟{zh_whom}一起{action.zh}吗？"
    subject = draw(SUBJECTS)
    return (
        f"{subject.en} {subject.be} interested in {action.gerund}",
        f"{subject.zh}对{action.zh}感兴趣",
    )


def _lacks(draw: Draw) -> Pair:
    """have no time, have to, forget to, decide to."""
    subject, action = draw(SUBJECTS), activity(draw)
    day = draw.form(FUTURE_DAYS)
    have = subject.have
    english, chinese = draw.form(
        (
            (f"{have} no time to {action.en} {day.en}", f"{day.zh}没有时间{action.zh}"),
            (f"{have} no time to {action.en}", f"没有时间{action.zh}"),
            (f"{have} to {action.en} {day.en}", f"{day.zh}得{action.zh}"),
            (f"forgot to {action.en}", f"忘了{action.zh}"),
            (f"decided to {action.en} {day.en}", f"决定{day.zh}{action.zh}"),
            (f"{subject.be} learning to {action.en}", f"在学{action.zh}"),
        )
    )
    if " learning " in english and not action.skill:
        return f"{subject.en} {have} to {action.en}", f"{subject.zh}得{action.zh}"
    return f"{subject.en} {english}", subject.zh + chinese


def _valued(draw: Draw) -> Pair:
    """Judge an activity: 游泳很有意思."""
    action = activity(draw, SHARED)
    english, chinese = draw.form(
        (
            (f"it is time to {action.en}", f"该{action.zh}了"),
            (f"{action.gerund} is very interesting", f"{action.zh}非常有意思"),
            (f"{action.gerund} is not difficult", f"{action.zh}不难"),
            (f"{action.gerund} is very easy", f"{action.zh}非常容易"),
            (f"I think that {action.gerund} is boring", f"我觉得{action.zh}很无聊"),
            (f"I think that {action.gerund} is interesting", f"我觉得{action.zh}很有意思"),
            (f"it is too late to {action.en}", f"现在{action.zh}太晚了"),
            (f"{action.gerund} makes me happy", f"{action.zh}让我高兴"),
            (f"do you think that {action.gerund} is difficult?", f"你觉得{action.zh}难吗？"),
            (f"who taught you to {action.en}?", f"谁教你{action.zh}的？"),
        )
    )
    return english, chinese


def _tries(draw: Draw) -> Pair:
    subject, action = draw(SUBJECTS), anything(draw)
    day = draw.form(FUTURE_DAYS)
    verb, chinese = draw.form((("hope", "希望"), ("hope", "希望"), ("intend", "打算")))
    return (
        f"{subject.en} {subject.present(verb)} to {action.en} {day.en}",
        f"{subject.zh}{chinese}{day.zh}能{action.zh}"
        if verb == "hope"
        else f"{subject.zh}{day.zh}{chinese}{action.zh}",
    )


PATTERNS = (
    (_please, 1),
    (_forbids, 1),
    (_let_us, 1.1),
    (_may_i, 1),
    (_invites, 0.9),
    (_lacks, 1.1),
    (_valued, 0.5),
    (_tries, 0.8),
)
