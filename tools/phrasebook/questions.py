"""Questions: yes or no, what, who, where, when, why, how many, how long."""

from __future__ import annotations

from . import nouns
from .habits import SHARED
from .people import ASKED, another
from .places import FUTURE_DAYS, PAST_DAYS
from .verbs import (
    FRAMES,
    LASTING,
    PASTIMES,
    SKILLS,
    UNDER_WAY,
    USUAL,
    activity,
    anything_weak,
    named_frames,
    one_of,
    usually,
    with_known,
    with_several,
)
from .words import Action, Draw, Pair, indefinite

_EXPERIENCED = named_frames("read", "watch", "tell", "sing")
_REASONED = named_frames("buy", "sell", "borrow", "write", "choose")
_SURPRISING = named_frames("eat", "drink", "buy", "sell")
_OBTAINED = named_frames("buy", "borrow")
_DATED = named_frames("buy", "borrow", "read", "watch", "write", "repair", "sell", "draw")
_NUMBERED = tuple(frame for frame in FRAMES if frame.en not in ("ask", "choose"))
_SEEN = tuple(item for item in UNDER_WAY if item in SHARED)
_REPEATED = tuple(item for item in UNDER_WAY if item.zh_object)


def _liked(draw: Draw) -> Action:
    return activity(draw, PASTIMES) if draw.chance(0.5) else usually(draw)


def _did(draw: Draw) -> Pair:
    subject, time = draw(ASKED), draw.form(PAST_DAYS)
    action = one_of(draw, activity, with_known, usually)
    return f"did {subject.en} {action.en} {time.en}?", f"{subject.zh}{time.zh}{action.zh}了吗？"


def _is_doing(draw: Draw) -> Pair:
    subject = draw(ASKED)
    action = activity(draw, UNDER_WAY) if draw.chance(0.5) else usually(draw)
    return f"{subject.be} {subject.en} {action.gerund}?", f"{subject.zh}在{action.zh}吗？"


def _will(draw: Draw) -> Pair:
    subject, action, time = draw(ASKED), anything_weak(draw), draw.form(FUTURE_DAYS)
    return (
        f"will {subject.en} {action.en} {time.en}?",
        f"{subject.zh}{time.zh}会{action.zh_weak}吗？",
    )


def _wants(draw: Draw) -> Pair:
    subject, action = draw(ASKED), anything_weak(draw)
    verb, chinese = draw.form((("want", "想"), ("want", "想"), ("need", "需要"), ("plan", "打算")))
    time, zh_time = "", ""
    if draw.chance(0.4):
        drawn = draw.form(FUTURE_DAYS)
        time, zh_time = f" {drawn.en}", drawn.zh
    return (
        f"{subject.do} {subject.en} {verb} to {action.en}{time}?",
        f"{subject.zh}{zh_time}{chinese}{action.zh_weak}吗？",
    )


def _likes(draw: Draw) -> Pair:
    subject, action = draw(ASKED), _liked(draw)
    return f"{subject.do} {subject.en} like {action.gerund}?", f"{subject.zh}喜欢{action.zh}吗？"


def _able(draw: Draw) -> Pair:
    subject = draw(ASKED)
    if draw.chance(0.3):
        language = draw(nouns.LANGUAGES)
        return f"can {subject.en} speak {language.en}?", f"{subject.zh}会说{language.zh}吗？"
    action = activity(draw, SKILLS)
    return f"can {subject.en} {action.en}?", f"{subject.zh}会{action.zh}吗？"


def _ever(draw: Draw) -> Pair:
    subject = draw(ASKED)
    if draw.chance(0.5):
        animal = draw(nouns.WILD_ANIMALS + nouns.FARM_ANIMALS)
        english, _ = indefinite(animal)
        return (
            f"{subject.have} {subject.en} ever seen {english}?",
            f"{subject.zh}见过{animal.zh}吗？",
        )
    action = with_known(draw, _EXPERIENCED)
    return (
        f"{subject.have} {subject.en} ever {action.participle}?",
        f"{subject.zh}{action.zh_verb}过{action.zh_object}吗？",
    )


def _how_many(draw: Draw) -> Pair:
    subject, frame, time = draw(ASKED), draw.form(_NUMBERED), draw.form(PAST_DAYS)
    draw.remember(frame.en)
    noun = draw(frame.objects)
    return (
        f"how many {noun.plural} did {subject.en} {frame.en} {time.en}?",
        f"{subject.zh}{time.zh}{frame.zh}了几{noun.measure}{noun.zh}？",
    )


_WHAT = (
    ("eat", "吃"),
    ("drink", "喝"),
    ("buy", "买"),
    ("read", "看"),
    ("write", "写"),
    ("do", "做"),
)


def _what(draw: Draw) -> Pair:
    subject, (verb, chinese) = draw(ASKED), draw.form(_WHAT)
    draw.remember(verb)
    past, coming = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    english, mandarin = draw.form(
        (
            (f"did {subject.en} {verb} {past.en}", f"{past.zh}{chinese}了什么"),
            (f"will {subject.en} {verb} {coming.en}", f"{coming.zh}会{chinese}什么"),
            (
                f"{subject.do} {subject.en} want to {verb} {coming.en}",
                f"{coming.zh}想{chinese}什么",
            ),
            (f"{subject.do} {subject.en} want to {verb}", f"想{chinese}什么"),
            (f"{subject.do} {subject.en} usually {verb}", f"通常{chinese}什么"),
        )
    )
    return f"what {english}?", f"{subject.zh}{mandarin}？"


def _where_bought(draw: Draw) -> Pair:
    """Ask for a circumstance of what is known to have happened: 是…的."""
    subject, action = draw(ASKED), with_known(draw, _OBTAINED)
    return f"where did {subject.en} {action.en}?", f"{subject.zh}是在哪里{action.zh}的？"


def _when_done(draw: Draw) -> Pair:
    subject, action = draw(ASKED), with_known(draw, _DATED)
    return f"when did {subject.en} {action.en}?", f"{subject.zh}是什么时候{action.zh}的？"


def _where_done(draw: Draw) -> Pair:
    subject, action = draw(ASKED), activity(draw, _SEEN)
    if draw.chance(0.5):
        return (
            f"where {subject.do} {subject.en} usually {action.en}?",
            f"{subject.zh}通常在哪里{action.zh}？",
        )
    return f"where {subject.be} {subject.en} {action.gerund}?", f"{subject.zh}在哪里{action.zh}？"


def _why(draw: Draw) -> Pair:
    subject, shape = draw(ASKED), draw.form(("did", "not", "like"))
    if shape == "did":
        action = with_known(draw, _REASONED)
        return f"why did {subject.en} {action.en}?", f"{subject.zh}为什么{action.zh}？"
    if shape == "not":
        action, time = activity(draw), draw.form(PAST_DAYS)
        return (
            f"why didn't {subject.en} {action.en} {time.en}?",
            f"{subject.zh}{time.zh}为什么没有{action.zh}？",
        )
    action = _liked(draw)
    return (
        f"why {subject.do} {subject.en} like {action.gerund}?",
        f"{subject.zh}为什么喜欢{action.zh}？",
    )


def _who(draw: Draw) -> Pair:
    shape = draw.form(("past", "now", "want", "can", "every"))
    if shape == "past":
        action, time = with_known(draw), draw.form(PAST_DAYS)
        return f"who {action.past} {time.en}?", f"{time.zh}谁{action.zh_done}？"
    if shape == "can":
        action = activity(draw, SKILLS)
        return f"who can {action.en}?", f"谁会{action.zh}？"
    if shape == "now":
        action = activity(draw, UNDER_WAY)
        return f"who is {action.gerund}?", f"谁在{action.zh}？"
    action, time = one_of(draw, activity, usually, with_known), draw.form(FUTURE_DAYS)
    verb, chinese = draw.form((("wants to", "想"), ("will", "会"), ("plans to", "打算")))
    return f"who {verb} {action.en} {time.en}?", f"{time.zh}谁{chinese}{action.zh}？"


def _with_whom(draw: Draw) -> Pair:
    subject, action = draw(ASKED), activity(draw, SHARED)
    if draw.chance(0.5):
        time = draw.form(PAST_DAYS)
        return (
            f"who did {subject.en} {action.en} with {time.en}?",
            f"{subject.zh}{time.zh}跟谁一起{action.zh_done}？",
        )
    time = draw.form(FUTURE_DAYS)
    return (
        f"who will {subject.en} {action.en} with {time.en}?",
        f"{subject.zh}{time.zh}会跟谁一起{action.zh}？",
    )


def _how_often(draw: Draw) -> Pair:
    subject, action = draw(ASKED), activity(draw, _REPEATED)
    return (
        f"how often {subject.do} {subject.en} {action.en}?",
        f"{subject.zh}多久{action.zh_verb}一次{action.zh_object}？",
    )


def _how_long(draw: Draw) -> Pair:
    subject, action, time = draw(ASKED), activity(draw, LASTING), draw.form(PAST_DAYS)
    return (
        f"how long did {subject.en} {action.en} {time.en}?",
        f"{subject.zh}{time.zh}{action.zh_verb}了多长时间{action.zh_object}？",
    )


def _choice(draw: Draw) -> Pair:
    """Offer two things: 还是."""
    subject, usual = draw(ASKED), draw.form(USUAL[:3])
    draw.remember(usual.en)
    first = draw(usual.objects)
    second = draw.other(usual.objects, first)
    return (
        f"{subject.do} {subject.en} want to {usual.en} {first.en} or {second.en}?",
        f"{subject.zh}想{usual.zh}{first.zh}还是{second.zh}？",
    )


def _plans_with(draw: Draw) -> Pair:
    """Ask whether somebody wants to do something with a known person."""
    subject, action, time = draw(ASKED), activity(draw, SHARED), draw.form(FUTURE_DAYS)
    companion = another(draw, subject)
    verb, chinese = draw.form((("want", "想"), ("plan", "打算")))
    return (
        f"{subject.do} {subject.en} {verb} to {action.en} with {companion.object} {time.en}?",
        f"{subject.zh}{time.zh}{chinese}跟{companion.zh}一起{action.zh}吗？",
    )


def _really(draw: Draw) -> Pair:
    """Ask whether a number of things was bought, eaten or seen."""
    subject, time = draw(ASKED), draw.form(PAST_DAYS)
    action = with_several(draw, _SURPRISING)
    if " some " in action.en or " few " in action.en or " several " in action.en:
        return f"who {action.past} {time.en}?", f"{time.zh}谁{action.zh_done}？"
    return (
        f"did {subject.en} really {action.en} {time.en}?",
        f"{subject.zh}{time.zh}真的{action.zh_done}吗？",
    )


PATTERNS = (
    (_did, 1.3),
    (_is_doing, 1),
    (_will, 1),
    (_wants, 1.2),
    (_likes, 1),
    (_able, 0.8),
    (_ever, 0.9),
    (_how_many, 0.9),
    (_what, 0.9),
    (_where_bought, 0.6),
    (_when_done, 0.7),
    (_where_done, 0.7),
    (_why, 1),
    (_who, 0.8),
    (_with_whom, 0.6),
    (_how_often, 0.6),
    (_how_long, 0.6),
    (_choice, 0.6),
    (_plans_with, 0.5),
    (_really, 0.5),
)
