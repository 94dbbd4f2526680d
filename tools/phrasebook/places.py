"""Places and times: activities at a place, times of day, dates and durations."""

from __future__ import annotations

from dataclasses import dataclass

from .forms import chinese_count, chinese_number, english_number
from .verbs import ACTIVITIES, AT_HOME, OUTDOORS, Activity
from .words import Draw, Noun, Pair, Phrase, read_nouns, read_phrases


@dataclass(frozen=True)
class Place:
    """A place one goes to; zh_inside is where one is when there (公园里, but 在医院)."""

    en: str
    at: str
    zh: str
    zh_inside: str


def _places(at: str, table: str, inside: str = "") -> tuple[Place, ...]:
    return tuple(
        Place(f"the {entry.en}", at, entry.zh, entry.zh + inside) for entry in read_phrases(table)
    )


ROOMS = _places(
    "in",
    """kitchen,厨房; bedroom,卧室; living room,客厅; classroom,教室; office,办公室;
    garden,花园; bathroom,浴室""",
    "里",
)
TOWN = _places(
    "at",
    """bank,银行; hospital,医院; hotel,酒店; restaurant,餐馆; supermarket,超市; bookstore,书店;
    library,图书馆; museum,博物馆; post office,邮局; airport,机场; station,车站; cinema,电影院;
    school,学校; gym,健身房; café,咖啡馆; pharmacy,药店; market,市场; zoo,动物园; theater,剧院;
    police station,警察局; church,教堂; swimming pool,游泳池; university,大学""",
)
PARKS = _places("in", "park,公园", "里")
BEACH = _places("on", "beach,海边; playground,操场", "")
EVERYWHERE = TOWN + PARKS + ROOMS[:5]
OUTINGS = TOWN + PARKS + BEACH
WORKPLACES = _places(
    "at",
    """bank,银行; hospital,医院; hotel,酒店; restaurant,餐馆; supermarket,超市; library,图书馆;
    museum,博物馆; post office,邮局; airport,机场; school,学校; pharmacy,药店; zoo,动物园;
    university,大学; police station,警察局; bookstore,书店; theater,剧院""",
)


def _named(*names: str) -> tuple[Activity, ...]:
    return tuple(item for item in ACTIVITIES if item.en in names)


_SILENT = _named("read books", "study", "do homework", "read the newspaper", "surf the internet")
_LEISURE = _named(
    "chat", "listen to music", "read books", "surf the internet", "read the newspaper"
)
_BY_NAME = {place.en: place for place in EVERYWHERE + BEACH}
HOME = Place("home", "at", "家", "家")
# What people do in which place.
SCENES: tuple[tuple[Place, tuple[Activity, ...]], ...] = (
    (_BY_NAME["the park"], OUTDOORS),
    (HOME, AT_HOME),
    (_BY_NAME["the library"], _SILENT),
    (_BY_NAME["the café"], _LEISURE),
    (_BY_NAME["the gym"], _named("exercise", "run", "do yoga", "play basketball")),
    (_BY_NAME["the classroom"], _SILENT[:3] + _named("chat")),
    (_BY_NAME["the living room"], _named("watch TV", "play games", "listen to music", "chat")),
    (_BY_NAME["the kitchen"], _named("cook", "make tea", "make dumplings", "wash the dishes")),
    (_BY_NAME["the bedroom"], _named("listen to music", "rest", "take a nap", "do homework")),
    (_BY_NAME["the office"], _named("take a nap", "work", "chat", "surf the internet")),
    (_BY_NAME["the beach"], _named("run", "take a walk", "fly a kite", "take photos", "chat")),
    (_BY_NAME["the playground"], _named("run", "play football", "play basketball", "exercise")),
)

# Furniture that things lie on or in, with what is likely to be found there.
ON = read_phrases("table,桌子; desk,书桌; bed,床; sofa,沙发; chair,椅子; floor,地")
IN = read_phrases("box,盒子; bag,包; drawer,抽屉; suitcase,行李箱; backpack,背包")
BESIDE = (
    Phrase("next to", "旁边"),
    Phrase("behind", "后面"),
    Phrase("in front of", "前面"),
    Phrase("under", "下面"),
)

MONTHS = tuple(
    Phrase(name, chinese_number(number) + "月")
    for number, name in enumerate(
        [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ],
        1,
    )
)
WEEKDAYS = tuple(
    Phrase(name, "星期" + day)
    for name, day in zip(
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
        "一二三四五六日",
        strict=True,
    )
)
SEASONS = read_phrases("spring,春天; summer,夏天; autumn,秋天; winter,冬天")
PAST_DAYS = read_phrases(
    """yesterday,昨天; yesterday,昨天; yesterday afternoon,昨天下午; yesterday morning,昨天早上;
    last night,昨天晚上; this morning,今天早上; the day before yesterday,前天;
    two days ago,两天前; three days ago,三天前"""
) + tuple(Phrase(f"last {day.en}", f"上个{day.zh}") for day in WEEKDAYS)
PAST_LONG = read_phrases(
    """last week,上个星期; last month,上个月; last year,去年; two weeks ago,两个星期前;
    three months ago,三个月前; last summer,去年夏天; last winter,去年冬天"""
)
FUTURE_DAYS = read_phrases(
    """tomorrow,明天; tomorrow,明天; tomorrow morning,明天早上; tomorrow afternoon,明天下午;
    tomorrow evening,明天晚上; tonight,今天晚上; this afternoon,今天下午;
    the day after tomorrow,后天; this weekend,这个周末"""
) + tuple(Phrase(f"next {day.en}", f"下个{day.zh}") for day in WEEKDAYS)
FUTURE_LONG = read_phrases("next week,下个星期; next month,下个月; next year,明年")
EVERY = read_phrases(
    """every day,每天; every morning,每天早上; every evening,每天晚上; every afternoon,每天下午;
    every weekend,每个周末; every week,每个星期"""
) + tuple(Phrase(f"every {day.en}", f"每个{day.zh}") for day in WEEKDAYS)
ADVERBS = (
    Phrase("often", "经常"),
    Phrase("usually", "通常"),
    Phrase("always", "总是"),
    Phrase("sometimes", "有时候"),
    Phrase("never", "从来不"),
)


def clock(draw: Draw, hours: range) -> Pair:
    """Draw a time on the clock: "half past six" and 六点半."""
    hour = draw.form(hours)
    return clock_at(hour, draw.form((0, 0, 30, 15, 10, 20, 45)))


def clock_at(hour: int, minute: int) -> Pair:
    """Say a time: quarters and halves have their own words in both languages."""
    english, chinese = english_number(hour), chinese_count(hour) + "点"
    after = english_number(hour % 12 + 1)
    if minute == 0:
        return f"{english} o'clock", chinese
    if minute == 30:
        return f"half past {english}", chinese + "半"
    if minute == 15:
        return f"a quarter past {english}", chinese + "一刻"
    if minute == 45:
        return f"a quarter to {after}", chinese + "三刻"
    if minute > 30:
        return f"{english_number(60 - minute)} to {after}", f"{chinese}{chinese_number(minute)}分"
    return f"{english_number(minute)} past {english}", f"{chinese}{chinese_number(minute)}分"


def lasting(draw: Draw, units: tuple[Noun, ...], most: int = 5) -> Pair:
    """Draw "two hours" and 两个小时."""
    unit, number = draw.form(units), 1 + draw.form(range(most))
    if number == 1:
        article = "an" if unit.en == "hour" else "a"
        return f"{article} {unit.en}", f"一{unit.measure}{unit.zh}"
    return (
        f"{english_number(number)} {unit.plural}",
        chinese_count(number) + unit.measure + unit.zh,
    )


HOURS = read_nouns("", "hour,小时,个")
LONG_UNITS = read_nouns("", "year,年,; month,月,个; week,星期,个")


def minutes(draw: Draw) -> Pair:
    """Draw a number of minutes in steps of five."""
    number = draw.form((5, 10, 15, 20, 25, 30, 40, 45, 50))
    return f"{english_number(number)} minutes", f"{chinese_number(number)}分钟"
