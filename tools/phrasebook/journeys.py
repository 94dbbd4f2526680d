"""Location, residence and travel: destinations, means, company and purposes."""

from __future__ import annotations

from . import nouns
from .people import ASKED, CITIES, SINGULAR, SUBJECTS, WORKERS, another
from .places import (
    EVERY,
    EVERYWHERE,
    FUTURE_DAYS,
    FUTURE_LONG,
    LONG_UNITS,
    OUTINGS,
    PAST_DAYS,
    PAST_LONG,
    TOWN,
    WORKPLACES,
    clock,
    lasting,
    minutes,
)
from .words import Draw, Pair, Phrase, read_phrases

_OTHERS = tuple(person for person in ASKED if person.person == 3)
_BY = read_phrases(
    """by bus,坐公共汽车; by taxi,坐出租车; by subway,坐地铁; by bike,骑自行车; by car,开车;
    on foot,走路"""
)
_FAR_BY = read_phrases("by plane,坐飞机; by train,坐火车; by car,开车")


def _is_at(draw: Draw) -> Pair:
    subject, place = draw(SUBJECTS), draw(EVERYWHERE)
    where = f"{place.at} {place.en}"
    shape = draw.form(("is", "now", "was", "not", "ask", "if"))
    if shape == "was":
        day = draw.form(PAST_DAYS[:6])
        return (
            f"{subject.en} {subject.was} {where} {day.en}",
            f"{subject.zh}{day.zh}在{place.zh_inside}",
        )
    if shape == "now":
        return f"{subject.en} {subject.be} {where} now", f"{subject.zh}现在在{place.zh_inside}"
    if shape == "not":
        return f"{subject.en} {subject.be} not {where}", f"{subject.zh}不在{place.zh_inside}"
    if shape == "ask" and subject.person != 1:
        return f"{subject.be} {subject.en} {where}?", f"{subject.zh}在{place.zh_inside}吗？"
    return f"{subject.en} {subject.be} {where}", f"{subject.zh}在{place.zh_inside}"


def _whereabouts(draw: Draw) -> Pair:
    subject = draw(_OTHERS)
    shape = draw.form(("where", "know", "home", "not home", "at home?", "went"))
    if shape == "know":
        return f"do you know where {subject.en} {subject.be}?", f"你知道{subject.zh}在哪里吗？"
    if shape == "home":
        return f"{subject.en} {subject.be} at home", f"{subject.zh}在家"
    if shape == "not home":
        return f"{subject.en} {subject.be} not at home", f"{subject.zh}不在家"
    if shape == "at home?":
        return f"{subject.be} {subject.en} at home?", f"{subject.zh}在家吗？"
    if shape == "went":
        day = draw.form(PAST_DAYS)
        return f"where did {subject.en} go {day.en}?", f"{subject.zh}{day.zh}去了哪里？"
    return f"where {subject.be} {subject.en}?", f"{subject.zh}在哪里？"


def _goes(draw: Draw) -> Pair:
    subject, place = draw(SUBJECTS), draw(OUTINGS)
    past, coming, every = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS), draw.form(EVERY)
    to = f"to {place.en}"
    english, chinese = draw.form(
        (
            (f"went {to} {past.en}", f"{past.zh}去了{place.zh}"),
            (f"went {to} {past.en}", f"{past.zh}去了{place.zh}"),
            (f"did not go {to} {past.en}", f"{past.zh}没有去{place.zh}"),
            (f"will go {to} {coming.en}", f"{coming.zh}会去{place.zh}"),
            (f"{subject.be} going {to} {coming.en}", f"{coming.zh}要去{place.zh}"),
            (f"{subject.present('want')} to go {to} {coming.en}", f"{coming.zh}想去{place.zh}"),
            (f"must go {to} {coming.en}", f"{coming.zh}必须去{place.zh}"),
            (f"{subject.present('go')} {to} {every.en}", f"{every.zh}去{place.zh}"),
            (f"often {subject.present('go')} {to}", f"经常去{place.zh}"),
        )
    )
    return f"{subject.en} {english}", subject.zh + chinese


def _goes_question(draw: Draw) -> Pair:
    subject, place = draw(ASKED), draw(OUTINGS)
    past, coming = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    to = f"to {place.en}"
    english, chinese = draw.form(
        (
            (f"did {subject.en} go {to} {past.en}", f"{past.zh}去{place.zh}了吗"),
            (f"will {subject.en} go {to} {coming.en}", f"{coming.zh}会去{place.zh}吗"),
            (
                f"{subject.do} {subject.en} want to go {to} {coming.en}",
                f"{coming.zh}想去{place.zh}吗",
            ),
            (f"why did {subject.en} go {to} {past.en}", f"{past.zh}为什么去{place.zh}"),
            (f"when will {subject.en} go {to}", f"什么时候会去{place.zh}"),
        )
    )
    return f"{english}?", f"{subject.zh}{chinese}？"


def _travels(draw: Draw) -> Pair:
    subject, city = draw(SUBJECTS), draw(CITIES)
    past, coming = draw.form(PAST_LONG), draw.form(FUTURE_LONG + FUTURE_DAYS[:1])
    by = draw.form(_FAR_BY)
    be, want = subject.be, subject.present("want")
    english, chinese = draw.form(
        (
            (f"went to {city.en} {past.en}", f"{past.zh}去了{city.zh}"),
            (f"did not go to {city.en} {past.en}", f"{past.zh}没有去{city.zh}"),
            (f"{be} going to {city.en} {coming.en}", f"{coming.zh}要去{city.zh}"),
            (f"{want} to go to {city.en} {coming.en}", f"{coming.zh}想去{city.zh}"),
            (f"{want} to go to {city.en} {by.en}", f"想{by.zh}去{city.zh}"),
            (f"went to {city.en} {by.en} {past.en}", f"{past.zh}{by.zh}去了{city.zh}"),
        )
    )
    return f"{subject.en} {english}", subject.zh + chinese


_OFTEN = (("once", "一次"), ("twice", "两次"), ("three times", "三次"), ("many times", "很多次"))


def _has_been(draw: Draw) -> Pair:
    """have been to: 去过."""
    subject, city = draw(SUBJECTS), draw(CITIES)
    times, zh_times = draw.form(_OFTEN)
    have, shape = subject.have, draw.form(("yes", "times", "never", "ask"))
    if shape == "times":
        return (
            f"{subject.en} {have} been to {city.en} {times}",
            f"{subject.zh}去过{city.zh}{zh_times}",
        )
    if shape == "never":
        return f"{subject.en} {have} never been to {city.en}", f"{subject.zh}从来没有去过{city.zh}"
    if shape == "ask" and subject.person != 1:
        return f"{have} {subject.en} ever been to {city.en}?", f"{subject.zh}去过{city.zh}吗？"
    return f"{subject.en} {have} been to {city.en}", f"{subject.zh}去过{city.zh}"


def _goes_by(draw: Draw) -> Pair:
    subject, by = draw(SUBJECTS), draw.form(_BY)
    shape = draw.form(("every", "past", "future", "work", "how"))
    if shape == "work":
        errand, zh_errand = draw.form((("work", "上班"), ("school", "上学")))
        draw.remember(by.en)
        return (
            f"{subject.en} {subject.present('go')} to {errand} {by.en}",
            f"{subject.zh}{by.zh}{zh_errand}",
        )
    place = draw(TOWN)
    to = f"to {place.en} {by.en}"
    if shape == "how" and subject.person != 1:
        return f"how did {subject.en} get to {place.en}?", f"{subject.zh}是怎么去{place.zh}的？"
    if shape == "past":
        day = draw.form(PAST_DAYS)
        return f"{subject.en} went {to} {day.en}", f"{subject.zh}{day.zh}{by.zh}去了{place.zh}"
    if shape == "future":
        day = draw.form(FUTURE_DAYS)
        return f"{subject.en} will go {to} {day.en}", f"{subject.zh}{day.zh}会{by.zh}去{place.zh}"
    return (
        f"{subject.en} usually {subject.present('go')} {to}",
        f"{subject.zh}通常{by.zh}去{place.zh}",
    )


def _goes_with(draw: Draw) -> Pair:
    subject, place = draw(SINGULAR), draw(OUTINGS)
    companion = another(draw, subject)
    if draw.chance(0.5):
        day = draw.form(PAST_DAYS)
        return (
            f"{subject.en} went to {place.en} with {companion.object} {day.en}",
            f"{subject.zh}{day.zh}跟{companion.zh}一起去了{place.zh}",
        )
    day = draw.form(FUTURE_DAYS)
    verb, chinese = draw.form((("wants", "想"), ("will", "会")))
    english = "will" if verb == "will" else f"{subject.present('want')} to"
    return (
        f"{subject.en} {english} go to {place.en} with {companion.object} {day.en}",
        f"{subject.zh}{day.zh}{chinese}跟{companion.zh}一起去{place.zh}",
    )


# What people go to a place for: verb, 动词, objects.
_ERRANDS: tuple[tuple[str, str, str, str, tuple[Phrase, ...]], ...] = (
    ("the supermarket", "超市", "buy", "买", nouns.FOODS[:13] + nouns.LIQUIDS),
    ("the market", "市场", "buy", "买", nouns.FOODS[3:14]),
    ("the restaurant", "餐馆", "eat", "吃", nouns.FOODS[:12] + nouns.FOODS[14:]),
    ("the café", "咖啡馆", "drink", "喝", nouns.LIQUIDS[:3] + nouns.LIQUIDS[5:]),
    ("the bookstore", "书店", "buy", "买", read_phrases("books,书; novels,小说; magazines,杂志")),
    (
        "the library",
        "图书馆",
        "borrow",
        "借",
        read_phrases("books,书; novels,小说; magazines,杂志"),
    ),
    ("the pharmacy", "药店", "buy", "买", read_phrases("medicine,药")),
    ("the post office", "邮局", "send", "寄", read_phrases("letters,信; postcards,明信片")),
    ("the post office", "邮局", "buy", "买", read_phrases("stamps,邮票; envelopes,信封")),
    ("the cinema", "电影院", "watch", "看", read_phrases("a movie,电影")),
    ("the station", "车站", "buy", "买", read_phrases("tickets,票")),
)


def _errand(draw: Draw) -> Pair:
    subject = draw(SUBJECTS)
    place, zh_place, verb, chinese, objects = draw.form(_ERRANDS)
    thing = draw(objects)
    draw.remember(place)
    what, zh_what = f"to {place} to {verb} {thing.en}", f"去{zh_place}{chinese}{thing.zh}"
    past, coming = draw.form(PAST_DAYS), draw.form(FUTURE_DAYS)
    english, mandarin = draw.form(
        (
            (f"went {what} {past.en}", f"{past.zh}{zh_what}了"),
            (f"will go {what} {coming.en}", f"{coming.zh}会{zh_what}"),
            (f"{subject.present('want')} to go {what}", f"想{zh_what}"),
            (f"often {subject.present('go')} {what}", f"经常{zh_what}"),
            (f"{subject.be} going {what}", f"要{zh_what}"),
        )
    )
    return f"{subject.en} {english}", subject.zh + mandarin


def _lives(draw: Draw) -> Pair:
    subject, city = draw(SUBJECTS), draw(CITIES)
    shape = draw.form(("lives", "ask", "not", "since", "used", "where"))
    if shape == "where" and subject.person != 1:
        return f"where {subject.do} {subject.en} live?", f"{subject.zh}住在哪里？"
    if shape == "ask" and subject.person != 1:
        return f"{subject.do} {subject.en} live in {city.en}?", f"{subject.zh}住在{city.zh}吗？"
    if shape == "not":
        return f"{subject.en} {subject.do} not live in {city.en}", f"{subject.zh}不住在{city.zh}"
    if shape == "used":
        return f"{subject.en} used to live in {city.en}", f"{subject.zh}以前住在{city.zh}"
    if shape == "since":
        span, zh_span = lasting(draw, LONG_UNITS, 9)
        return (
            f"{subject.en} {subject.have} lived in {city.en} for {span}",
            f"{subject.zh}在{city.zh}住了{zh_span}了",
        )
    return f"{subject.en} {subject.present('live')} in {city.en}", f"{subject.zh}住在{city.zh}"


def _works(draw: Draw) -> Pair:
    subject, place = draw(WORKERS), draw(WORKPLACES)
    where, zh_where = f"{place.at} {place.en}", f"在{place.zh}工作"
    shape = draw.form(("works", "ask", "not", "since", "used"))
    if shape == "ask" and subject.person != 1:
        return f"{subject.do} {subject.en} work {where}?", f"{subject.zh}{zh_where}吗？"
    if shape == "not":
        return f"{subject.en} {subject.do} not work {where}", f"{subject.zh}不{zh_where}"
    if shape == "used":
        return f"{subject.en} used to work {where}", f"{subject.zh}以前{zh_where}"
    if shape == "since":
        span, zh_span = lasting(draw, LONG_UNITS, 9)
        return (
            f"{subject.en} {subject.have} worked {where} for {span}",
            f"{subject.zh}{zh_where}了{zh_span}了",
        )
    return f"{subject.en} {subject.present('work')} {where}", subject.zh + zh_where


def _arrives(draw: Draw) -> Pair:
    subject, place = draw(SUBJECTS), draw(TOWN)
    time, zh_time = clock(draw, range(1, 13))
    shape = draw.form(("arrived", "left", "will", "takes"))
    if shape == "takes":
        span, zh_span = minutes(draw)
        return (
            f"it takes {subject.object} {span} to get to {place.en}",
            f"{subject.zh}到{place.zh}要{zh_span}",
        )
    if shape == "left":
        return f"{subject.en} left {place.en} at {time}", f"{subject.zh}{zh_time}离开了{place.zh}"
    if shape == "will":
        return (
            f"{subject.en} will arrive at {place.en} at {time}",
            f"{subject.zh}{zh_time}会到{place.zh}",
        )
    return f"{subject.en} arrived at {place.en} at {time}", f"{subject.zh}{zh_time}到了{place.zh}"


PATTERNS = (
    (_is_at, 1.2),
    (_whereabouts, 0.8),
    (_goes, 1.5),
    (_goes_question, 1),
    (_travels, 1),
    (_has_been, 0.8),
    (_goes_by, 1),
    (_goes_with, 0.9),
    (_errand, 1.1),
    (_lives, 0.9),
    (_works, 0.9),
    (_arrives, 0.9),
)
