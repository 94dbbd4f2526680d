"""Favors, requests and feelings between people: 给, 让, 教, love and dislike."""

from __future__ import annotations

from . import nouns
from .people import ASKED, SUBJECTS, another
from .places import FUTURE_DAYS, PAST_DAYS
from .verbs import SKILLS, activity
from .words import Draw, Pair

_MESSAGES = (
    ("write", "wrote", "a letter", "to", "写", "一封信", "信"),
    ("send", "sent", "an email", "to", "发", "一封电子邮件", "电子邮件"),
    ("send", "sent", "a message", "to", "发", "一条短信", "短信"),
    ("make", "made", "a cake", "for", "做", "一个蛋糕", "蛋糕"),
    ("sing", "sang", "a song", "for", "唱", "一首歌", "歌"),
    ("tell", "told", "a story", "to", "讲", "一个故事", "故事"),
)


def _for_somebody(draw: Draw) -> Pair:
    """Write to somebody: 给他写信."""
    subject, message = draw(SUBJECTS), draw.form(_MESSAGES)
    base, past, thing, to, verb, chinese, weak = message
    draw.remember(f"{base} {thing}")
    receiver = another(draw, subject)
    target, zh_target = f"{to} {receiver.object}", f"给{receiver.zh}"
    day, coming = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    english, mandarin = draw.form(
        (
            (f"{past} {thing} {target} {day.en}", f"{day.zh}{zh_target}{verb}了{chinese}"),
            (
                f"will {base} {thing} {target} {coming.en}",
                f"{coming.zh}会{zh_target}{verb}{chinese}",
            ),
            (
                f"{subject.present('want')} to {base} {thing} {target}",
                f"想{zh_target}{verb}{chinese}",
            ),
            (f"did not {base} {thing} {target} {day.en}", f"{day.zh}没有{zh_target}{verb}{weak}"),
        )
    )
    return f"{subject.en} {english}", subject.zh + mandarin


def _contacts(draw: Draw) -> Pair:
    """call, wait for, help, look for, thank, see somebody."""
    subject = draw(SUBJECTS)
    other = another(draw, subject)
    day, coming = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    to, zh_to, be = other.object, other.zh, subject.be
    english, chinese = draw.form(
        (
            (f"called {to} {day.en}", f"{day.zh}给{zh_to}打电话了"),
            (f"did not call {to} {day.en}", f"{day.zh}没有给{zh_to}打电话"),
            (f"will call {to} {coming.en}", f"{coming.zh}会给{zh_to}打电话"),
            (f"{be} waiting for {to}", f"在等{zh_to}"),
            (f"{be} looking for {to}", f"在找{zh_to}"),
            (f"saw {to} {day.en}", f"{day.zh}看见了{zh_to}"),
            (f"did not see {to} {day.en}", f"{day.zh}没有看见{zh_to}"),
            (f"helped {to} {day.en}", f"{day.zh}帮助了{zh_to}"),
            (f"will help {to} {coming.en}", f"{coming.zh}会帮助{zh_to}"),
            (f"should help {to}", f"应该帮助{zh_to}"),
            (f"{subject.present('want')} to help {to}", f"想帮助{zh_to}"),
            (f"{be} talking to {to}", f"在跟{zh_to}说话"),
        )
    )
    return f"{subject.en} {english}", subject.zh + chinese


_FEELS = (
    ("love", "爱"),
    ("like", "喜欢"),
    ("miss", "想念"),
    ("hate", "讨厌"),
    ("trust", "相信"),
    ("know", "认识"),
    ("understand", "理解"),
    ("respect", "尊敬"),
    ("remember", "记得"),
    ("envy", "羡慕"),
)


def _feels_for(draw: Draw) -> Pair:
    subject, (verb, chinese) = draw(SUBJECTS), draw.form(_FEELS)
    draw.remember(verb)
    other = another(draw, subject)
    shape = draw.form(("plain", "plain", "not", "very", "ask"))
    if shape == "not":
        return (
            f"{subject.en} {subject.do} not {verb} {other.object}",
            f"{subject.zh}不{chinese}{other.zh}",
        )
    if shape == "ask" and subject.person != 1:
        return (
            f"{subject.do} {subject.en} {verb} {other.object}?",
            f"{subject.zh}{chinese}{other.zh}吗？",
        )
    if shape == "very" and verb in ("love", "like", "miss", "respect", "envy"):
        return (
            f"{subject.en} {subject.present(verb)} {other.object} very much",
            f"{subject.zh}非常{chinese}{other.zh}",
        )
    return f"{subject.en} {subject.present(verb)} {other.object}", subject.zh + chinese + other.zh


def _causes(draw: Draw) -> Pair:
    """Get somebody to do something: 让, 教, 帮."""
    subject = draw(SUBJECTS)
    other = another(draw, subject)
    shape = draw.form(("teach", "taught", "ask", "want"))
    if shape in ("teach", "taught"):
        action = activity(draw, SKILLS)
        past = shape == "taught"
        if past:
            return (
                f"{subject.en} taught {other.object} to {action.en}",
                f"{subject.zh}教会了{other.zh}{action.zh}",
            )
        return (
            f"{subject.en} {subject.be} teaching {other.object} to {action.en}",
            f"{subject.zh}在教{other.zh}{action.zh}",
        )
    action = activity(draw)
    if shape == "ask":
        return (
            f"{subject.en} asked {other.object} to {action.en}",
            f"{subject.zh}让{other.zh}{action.zh}",
        )
    return (
        f"{subject.en} {subject.present('want')} {other.object} to {action.en}",
        f"{subject.zh}想让{other.zh}{action.zh}",
    )


def _teaches(draw: Draw) -> Pair:
    subject, taught = draw(SUBJECTS), draw(nouns.LANGUAGES + nouns.SUBJECTS_TAUGHT)
    other = another(draw, subject)
    shape = draw.form(("teaches", "will", "ask"))
    if shape == "will":
        return (
            f"{subject.en} will teach {other.object} {taught.en}",
            f"{subject.zh}会教{other.zh}{taught.zh}",
        )
    if shape == "ask":
        subject = draw(ASKED)
        other = another(draw, subject)
        return (
            f"{subject.do} {subject.en} teach {other.object} {taught.en}?",
            f"{subject.zh}教{other.zh}{taught.zh}吗？",
        )
    return (
        f"{subject.en} {subject.present('teach')} {other.object} {taught.en}",
        f"{subject.zh}教{other.zh}{taught.zh}",
    )


PATTERNS = (
    (_for_somebody, 0.9),
    (_contacts, 1.1),
    (_feels_for, 1.6),
    (_causes, 1),
    (_teaches, 0.7),
)
