"""Existence and position: 有 and 在 with places, furniture, animals and buildings."""

from __future__ import annotations

from . import nouns
from .forms import chinese_number, english_number, plural, with_article
from .people import NAMES, PRONOUNS
from .places import BESIDE, IN, ON, PARKS, ROOMS, TOWN, minutes
from .words import Draw, Noun, Pair, Phrase, counted, indefinite, read_phrases

_SMALL = (
    nouns.READING[:4]
    + nouns.TABLEWARE
    + nouns.PAPERS
    + nouns.STATIONERY
    + nouns.CARRIED[:7]
    + nouns.DEVICES[:3]
    + nouns.FRUIT[:6]
    + nouns.WORN[:1]
)
_POCKETED = (
    nouns.READING[:3] + nouns.PAPERS + nouns.STATIONERY + nouns.DEVICES[:3] + nouns.JEWELRY[:2]
)
_AT_HOME = nouns.FURNITURE + nouns.DEVICES[3:5] + nouns.INSTRUMENTS[:3]
_AT_WORK = nouns.FURNITURE[:2] + nouns.FURNITURE[4:6] + nouns.DEVICES[1:2] + nouns.DEVICES[7:]
_PARKED = nouns.VEHICLES
_PETS = nouns.PETS[:4]
_BUILDINGS = nouns.BUILDINGS
_ZOO = nouns.WILD_ANIMALS
_BY_BUILDING = tuple(
    place for place in TOWN if place.en not in ("the swimming pool", "the zoo", "the airport")
)
_TREES = nouns.PLANTS
_SCENES = ("table", "bag", "room", "street", "pet", "garden", "zoo", "people")


_SERVED = ("fruit", "vessel")


def surfaces(noun: Noun) -> tuple[Phrase, ...]:
    """Say on what a thing may lie: cups and fruit not on beds."""
    return ON[:2] if noun.kind in _SERVED else ON


def _scene(draw: Draw) -> tuple[Noun, str, str]:
    """Draw a thing and where it may well be: noun, English place, Chinese place."""
    scene = draw.form(_SCENES)
    if scene == "table":
        noun = draw(_SMALL)
        spot = draw(surfaces(noun))
        return noun, f"on the {spot.en}", spot.zh + "上"
    if scene == "bag":
        spot = draw(IN)
        return draw(_POCKETED), f"in the {spot.en}", spot.zh + "里"
    if scene == "room":
        room = draw(ROOMS[1:5])
        furniture = _AT_WORK if room in ROOMS[3:5] else _AT_HOME
        return draw(furniture), f"in {room.en}", room.zh_inside
    if scene == "pet":
        spot, (side, zh_side) = draw(ON[:5]), draw.form((("under", "下面"), ("behind", "后面")))
        return draw(_PETS), f"{side} the {spot.en}", spot.zh + zh_side
    if scene == "garden":
        place = draw(PARKS + ROOMS[5:6])
        return draw(_PETS + _TREES), f"in {place.en}", place.zh_inside
    if scene == "zoo":
        return draw(_ZOO), "in the zoo", "动物园里"
    if scene == "people":
        place = draw(ROOMS[3:6] + PARKS)
        return draw(nouns.PEOPLE + nouns.JOBS[-2:-1]), f"in {place.en}", place.zh_inside
    building, (side, zh_side) = (
        draw(_BY_BUILDING),
        draw.form((("behind", "后面"), ("in front of", "前面"))),
    )
    return draw(_PARKED), f"{side} {building.en}", building.zh + zh_side


def _there_is(draw: Draw) -> Pair:
    noun, where, zh_where = _scene(draw)
    shape = draw.form(("one", "one", "some", "many", "number", "number"))
    if shape == "one":
        fitting = nouns.NAMED_WITH.get(noun.kind, ())
        adjective = draw.form(fitting) if fitting and draw.chance(0.3) else None
        english, chinese = indefinite(noun, adjective)
        return f"there is {english} {where}", f"{zh_where}有{chinese}"
    if shape == "number":
        english, chinese = counted(2 + draw.form(range(5)), noun)
    elif shape == "some":
        english, chinese = f"some {noun.plural}", f"一些{noun.zh}"
    else:
        english, chinese = f"many {noun.plural}", f"很多{noun.zh}"
    return f"there are {english} {where}", f"{zh_where}有{chinese}"


def _is_there(draw: Draw) -> Pair:
    noun, where, zh_where = _scene(draw)
    shape = draw.form(("is", "are", "no", "number", "not any"))
    if shape == "no":
        return f"there are no {noun.plural} {where}", f"{zh_where}没有{noun.zh}"
    if shape == "not any":
        return f"there are not any {noun.plural} {where}", f"{zh_where}没有{noun.zh}"
    if shape == "number":
        return (
            f"how many {noun.plural} are there {where}?",
            f"{zh_where}有几{noun.measure}{noun.zh}？",
        )
    if shape == "are":
        return f"are there any {noun.plural} {where}?", f"{zh_where}有{noun.zh}吗？"
    return f"is there {with_article(noun.en)} {where}?", f"{zh_where}有{noun.zh}吗？"


def _thing_is_at(draw: Draw) -> Pair:
    """The book is on the table: 书在桌子上."""
    noun = draw(_SMALL)
    if draw.chance(0.5):
        english, chinese = f"the {noun.en}", noun.zh
    else:
        english, chinese = draw(PRONOUNS + NAMES).owns(noun)
    shape = draw.form(("is", "is", "not", "ask", "where"))
    if shape == "where":
        return f"where is {english}?", f"{chinese}在哪里？"
    if noun in _POCKETED and draw.chance(0.4):
        spot = draw(IN)
        where, zh_where = f"in the {spot.en}", spot.zh + "里"
    elif noun.kind in _SERVED or draw.chance(0.7):
        spot = draw(surfaces(noun))
        where, zh_where = f"on the {spot.en}", spot.zh + "上"
    else:
        spot, side = draw(ON[:5]), draw.form(BESIDE)
        where, zh_where = f"{side.en} the {spot.en}", spot.zh + side.zh
    if shape == "not":
        return f"{english} is not {where}", f"{chinese}不在{zh_where}"
    if shape == "ask":
        return f"is {english} {where}?", f"{chinese}在{zh_where}吗？"
    return f"{english} is {where}", f"{chinese}在{zh_where}"


_SIDES: tuple[Phrase, ...] = (
    *BESIDE[:3],
    Phrase("across from", "对面"),
    Phrase("to the left of", "左边"),
    Phrase("to the right of", "右边"),
)


def _building_is_at(draw: Draw) -> Pair:
    first, side = draw(_BY_BUILDING), draw.form(_SIDES)
    second = draw(tuple(place for place in _BY_BUILDING if place.zh != first.zh))
    if draw.chance(0.2):
        return (
            f"is {first.en} {side.en} {second.en}?",
            f"{first.zh}在{second.zh}{side.zh}吗？",
        )
    return f"{first.en} is {side.en} {second.en}", f"{first.zh}在{second.zh}{side.zh}"


def _nearby(draw: Draw) -> Pair:
    noun, shape = draw(_BUILDINGS), draw.form(("near", "near", "ask", "no", "here"))
    if shape == "here":
        return f"is there {with_article(noun.en)} near here?", f"这附近有{noun.zh}吗？"
    place = draw(tuple(place for place in _BY_BUILDING if place.zh != noun.zh))
    if shape == "ask":
        return (
            f"is there {with_article(noun.en)} near {place.en}?",
            f"{place.zh}附近有{noun.zh}吗？",
        )
    if shape == "no":
        return f"there is no {noun.en} near {place.en}", f"{place.zh}附近没有{noun.zh}"
    adjectives = nouns.FITTING["building"]
    adjective = draw.form(adjectives) if draw.chance(0.3) else None
    if draw.chance(0.3):
        english, chinese = counted(2 + draw.form(range(3)), noun)
        return f"there are {english} near {place.en}", f"{place.zh}附近有{chinese}"
    english, chinese = indefinite(noun, adjective)
    return f"there is {english} near {place.en}", f"{place.zh}附近有{chinese}"


_WAYS = read_phrases(
    "by bus,坐公共汽车; by taxi,坐出租车; by subway,坐地铁; by bike,骑自行车; on foot,走路"
)


def _distance(draw: Draw) -> Pair:
    first = draw(_BY_BUILDING)
    second = draw(tuple(place for place in _BY_BUILDING if place.zh != first.zh))
    shape = draw.form(("far", "not far", "takes", "by", "ask", "how"))
    if shape == "how":
        return f"how do I get to {first.en} from {second.en}?", f"从{second.zh}去{first.zh}怎么走？"
    if shape == "ask":
        return f"is {first.en} far from {second.en}?", f"{first.zh}离{second.zh}远吗？"
    if shape == "far":
        degree, zh_degree = draw.form((("", "很"), ("very ", "非常")))
        return (
            f"{first.en} is {degree}far from {second.en}",
            f"{first.zh}离{second.zh}{zh_degree}远",
        )
    if shape == "not far":
        return f"{first.en} is not far from {second.en}", f"{first.zh}离{second.zh}不远"
    span, zh_span = minutes(draw)
    by = draw.form(_WAYS) if shape == "by" else Phrase("", "")
    return (
        f"it takes {span} to get from {first.en} to {second.en} {by.en}".rstrip(),
        f"从{first.zh}{by.zh}到{second.zh}要{zh_span}",
    )


def _from_here(draw: Draw) -> Pair:
    place = draw(TOWN)
    to, zh_to = place.en, place.zh
    english, chinese = draw.form(
        (
            (f"where is {to}?", f"{zh_to}在哪里？"),
            (f"do you know where {to} is?", f"你知道{zh_to}在哪里吗？"),
            (f"{to} is far from here", f"{zh_to}离这里很远"),
            (f"{to} is not far from here", f"{zh_to}离这里不远"),
            (f"is {to} far from here?", f"{zh_to}离这里远吗？"),
            (f"how do I get to {to}?", f"去{zh_to}怎么走？"),
            (f"please tell me how to get to {to}", f"请告诉我怎么去{zh_to}"),
            (f"{to} is open today", f"{zh_to}今天开门"),
            (f"{to} is closed today", f"{zh_to}今天不开门"),
            (f"{to} is closed on Sundays", f"{zh_to}星期日不开门"),
            (f"is {to} open today?", f"{zh_to}今天开门吗？"),
            (f"there are many people at {to}", f"{zh_to}有很多人"),
            (f"please meet me at {to}", f"请在{zh_to}跟我见面"),
            (f"excuse me, where is {to}?", f"请问，{zh_to}在哪里？"),
        )
    )
    return english, chinese


_MEMBERS = (
    ("student", "学生", "个", "class", "班里"),
    ("teacher", "老师", "位", "school", "学校里"),
    ("doctor", "医生", "位", "hospital", "医院里"),
    ("worker", "工人", "位", "factory", "工厂里"),
    ("engineer", "工程师", "位", "company", "公司里"),
    ("room", "房间", "个", "hotel", "酒店里"),
)


def _how_many_there_are(draw: Draw) -> Pair:
    """Numbers from eleven to ninety-nine."""
    number = 11 + draw.form(range(89))
    draw.remember(str(number))
    if draw.chance(0.3):
        noun = draw(nouns.READING[:4])
        return (
            f"this {noun.en} has {english_number(number)} pages",
            f"这{noun.measure}{noun.zh}有{chinese_number(number)}页",
        )
    member, zh_member, measure, where, zh_where = draw.form(_MEMBERS)
    draw.remember(member)
    return (
        f"there are {english_number(number)} {plural(member)} in the {where}",
        f"{zh_where}有{chinese_number(number)}{measure}{zh_member}",
    )


PATTERNS = (
    (_how_many_there_are, 1),
    (_there_is, 1.5),
    (_is_there, 1.1),
    (_thing_is_at, 1.2),
    (_building_is_at, 0.9),
    (_nearby, 0.9),
    (_distance, 0.9),
    (_from_here, 0.6),
)
