"""Clauses inside clauses: thoughts, knowledge, hearsay and relative clauses (的)."""

from __future__ import annotations

from . import nouns
from .describe import degree
from .people import ASKED, CIRCLE, FAMILY, FEELINGS, NAMES, PRONOUNS, SUBJECTS, TRAITS, another
from .places import FUTURE_DAYS, PAST_DAYS
from .verbs import (
    SKILLS,
    UNDER_WAY,
    activity,
    anything,
    named_frames,
    one_of,
    usually,
    with_known,
    with_one,
)
from .words import Draw, Pair

_THIRD = tuple(person for person in SUBJECTS if person.person == 3)


def _thinks(draw: Draw) -> Pair:
    """Hold an opinion; English denies the thinking where Chinese denies the thought."""
    subject, trait = draw(_THIRD), draw(TRAITS)
    shape = draw.form(("think", "think", "not", "ask", "say", "everybody"))
    if shape == "not":
        return (
            f"I do not think that {subject.en} {subject.be} {trait.en}",
            f"我觉得{subject.zh}{trait.negated}",
        )
    if shape == "ask":
        return (
            f"do you think that {subject.en} {subject.be} {trait.en}?",
            f"你觉得{subject.zh}{trait.zh}吗？",
        )
    if shape == "everybody":
        return (
            f"everybody knows that {subject.en} {subject.be} very {trait.en}",
            f"大家都知道{subject.zh}非常{trait.zh}",
        )
    if shape == "say":
        return (
            f"everybody says that {subject.en} {subject.be} very {trait.en}",
            f"大家都说{subject.zh}非常{trait.zh}",
        )
    holder = draw(NAMES + PRONOUNS[:2] * 5 + FAMILY)
    while holder.en == subject.en:
        holder = draw(NAMES)
    return (
        f"{holder.en} {holder.present('think')} that {subject.en} {subject.be} very {trait.en}",
        f"{holder.zh}觉得{subject.zh}非常{trait.zh}",
    )


def _hears(draw: Draw) -> Pair:
    subject, day, coming = draw(_THIRD), draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    shape = draw.form(("heard", "hope", "know", "told", "believe", "whether", "wanted"))
    if shape == "heard":
        action = one_of(draw, activity, with_one)
        return (
            f"I heard that {subject.en} {action.past} {day.en}",
            f"我听说{subject.zh}{day.zh}{action.zh_done}",
        )
    if shape == "know":
        action = activity(draw, SKILLS)
        return (
            f"I did not know that {subject.en} could {action.en}",
            f"我不知道{subject.zh}会{action.zh}",
        )
    if shape == "told":
        action, other = usually(draw), draw(PRONOUNS)
        while other.person == 3:
            other = draw(PRONOUNS)
        return (
            f"{subject.en} told {other.object} that {subject.pronoun} {subject.do} not like "
            f"{action.gerund}",
            f"{subject.zh}告诉{other.zh}{subject.pronoun_zh}不喜欢{action.zh}",
        )
    action = anything(draw)
    if shape == "hope":
        return (
            f"I hope that {subject.en} will {action.en} {coming.en}",
            f"我希望{subject.zh}{coming.zh}会{action.zh}",
        )
    if shape == "believe":
        return (
            f"I believe that {subject.en} will {action.en} {coming.en}",
            f"我相信{subject.zh}{coming.zh}会{action.zh}",
        )
    if shape == "wanted":
        return (
            f"{subject.en} said that {subject.pronoun} wanted to {action.en}",
            f"{subject.zh}说{subject.pronoun_zh}想{action.zh}",
        )
    activity_ = activity(draw)
    return (
        f"I do not know whether {subject.en} will {activity_.en} {coming.en}",
        f"我不知道{subject.zh}{coming.zh}会不会{activity_.zh}",
    )


_WANTED = (("eat", "吃"), ("drink", "喝"), ("buy", "买"), ("do", "做"), ("read", "看"))


def _wonders(draw: Draw) -> Pair:
    """Questions inside a sentence keep the order of a statement in both languages."""
    subject = draw(_THIRD)
    frame, zh_frame, mark, zh_mark = draw.form(
        (
            ("I do not know", "我不知道", "", ""),
            ("I want to know", "我想知道", "", ""),
            ("do you know", "你知道", "?", "吗？"),
            ("please tell me", "请告诉我", "", ""),
        )
    )
    shape = draw.form(("why so", "what", "where", "when", "who"))
    if shape == "why so":
        feeling = draw(FEELINGS)
        inner = f"why {subject.en} {subject.be} so {feeling.en}"
        zh_inner = f"{subject.zh}为什么这么{feeling.zh}"
    elif shape == "what":
        verb, chinese = draw.form(_WANTED)
        draw.remember(verb)
        inner = f"what {subject.en} {subject.present('want')} to {verb}"
        zh_inner = f"{subject.zh}想{chinese}什么"
    elif shape == "where":
        action = with_known(draw, named_frames("buy", "borrow"))
        inner, zh_inner = f"where {subject.en} {action.past}", f"{subject.zh}是在哪里{action.zh}的"
    elif shape == "when":
        action = activity(draw)
        inner = f"when {subject.en} will {action.en}"
        zh_inner = f"{subject.zh}什么时候会{action.zh}"
    else:
        action = with_known(draw, named_frames("write", "draw", "make", "buy", "wash"))
        inner, zh_inner = f"who {action.past}", f"是谁{action.zh}的"
    return f"{frame} {inner}{mark}", zh_frame + zh_inner + zh_mark


_GOT = (
    ("bought", "买", nouns.CLOTHES[:9] + nouns.DEVICES + nouns.READING[:3] + nouns.CARRIED),
    ("read", "看", nouns.READING[:6]),
    ("wrote", "写", nouns.READING[4:]),
    ("borrowed", "借", nouns.READING[:3]),
    ("lost", "丢", nouns.CARRIED[:5] + nouns.JEWELRY[:1]),
    ("made", "做", nouns.SNACKS[1:4]),
    ("bought", "买", nouns.FRUIT[:7]),
)


def _that_was_bought(draw: Draw) -> Pair:
    """The book that I bought: 我买的书."""
    owner, (past, chinese, things) = draw(SUBJECTS), draw.form(_GOT)
    noun = draw(things)
    draw.remember(past)
    day = draw.form(PAST_DAYS)
    timed = draw.chance(0.5)
    clause = f"the {noun.en} that {owner.en} {past}" + (f" {day.en}" if timed else "")
    zh_clause = f"{owner.zh}{day.zh if timed else ''}{chinese}的{noun.zh}"
    shape = draw.form(("is", "is", "this is", "this is", "like", "ask"))
    if shape == "this is":
        return f"this is {clause}", f"这是{zh_clause}"
    if shape == "ask":
        return f"is this {clause}?", f"这是{zh_clause}吗？"
    if shape == "like":
        fan = draw.form(PRONOUNS)
        if fan.en == owner.en:
            return f"this is {clause}", f"这是{zh_clause}"
        return f"{fan.en} {fan.present('like')} {clause}", f"{fan.zh}喜欢{zh_clause}"
    adjectives = nouns.STATED[noun.kind]
    said, zh_said = degree(draw, draw(adjectives[:1] if past == "made" else adjectives), False)
    return f"{clause} {'was' if past == 'lost' else 'is'} {said}", zh_clause + zh_said


def _who_is_meant(draw: Draw) -> Pair:
    """The girl who is singing: 在唱歌的女孩."""
    person = draw(nouns.PEOPLE)
    sex = {"boy": "he", "man": "he", "girl": "she", "woman": "she"}.get(person.en, "")
    relations = tuple(
        other for other in NAMES + FAMILY + CIRCLE if not other.many and sex in ("", other.pronoun)
    )
    known = draw(relations)
    if person.en in ("boy", "girl", "child"):
        young = ("brother", "sister", "son", "daughter", "friend")
        while known not in NAMES and not known.en.endswith(young):
            known = draw(relations)
    shape = draw.form(("doing", "wearing", "asks"))
    if shape == "wearing":
        noun = draw(nouns.CLOTHES[:5] + nouns.WORN[:2])
        color = draw.form(nouns.COLORS)
        verb = "穿" if noun in nouns.CLOTHES else "戴"
        return (
            f"the {person.en} wearing the {color.en} {noun.en} is {known.en}",
            f"{verb}{color.attribute}{noun.zh}的{person.zh}是{known.zh}",
        )
    action = activity(draw, UNDER_WAY)
    if shape == "asks":
        return (
            f"who is the {person.en} that is {action.gerund}?",
            f"在{action.zh}的{person.zh}是谁？",
        )
    return (
        f"the {person.en} who is {action.gerund} is {known.en}",
        f"在{action.zh}的{person.zh}是{known.zh}",
    )


def _sure(draw: Draw) -> Pair:
    subject, day = draw(ASKED), draw.form(FUTURE_DAYS)
    other = another(draw, subject)
    action = activity(draw)
    shape = draw.form(("ask", "know", "think"))
    if shape == "ask":
        return (
            f"{subject.do} {subject.en} know that {other.en} {other.present('like')} "
            f"{action.gerund}?",
            f"{subject.zh}知道{other.zh}喜欢{action.zh}吗？",
        )
    if shape == "know":
        return (
            f"{subject.en} {subject.present('know')} that {other.en} {other.present('hate')} "
            f"{action.gerund}",
            f"{subject.zh}知道{other.zh}讨厌{action.zh}",
        )
    return (
        f"{subject.do} {subject.en} think that {other.en} will {action.en} {day.en}?",
        f"{subject.zh}觉得{other.zh}{day.zh}会{action.zh}吗？",
    )


PATTERNS = (
    (_thinks, 1.1),
    (_hears, 1.3),
    (_wonders, 1),
    (_that_was_bought, 1.2),
    (_who_is_meant, 1),
    (_sure, 0.7),
)
