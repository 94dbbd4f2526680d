"""Weather, clock, days, months and seasons."""

from __future__ import annotations

from .forms import chinese_number, ordinal
from .people import CITIES, SUBJECTS
from .places import MONTHS, SEASONS, WEEKDAYS, clock
from .verbs import PASTIMES, activity
from .words import Draw, Pair, read_phrases

_FELT = read_phrases("hot,热; cold,冷; warm,暖和; cool,凉快; humid,潮湿")
_SEASONAL = (
    (SEASONS[0], _FELT[2]),
    (SEASONS[1], _FELT[0]),
    (SEASONS[2], _FELT[3]),
    (SEASONS[3], _FELT[1]),
)
# Where it does get cold.
_NORTHERN = tuple(city for city in CITIES if city.en not in ("Singapore", "Hong Kong", "Guangzhou"))
_DAYS = (
    ("today", "今天", "is"),
    ("yesterday", "昨天", "was"),
    ("last week", "上个星期", "was"),
    ("this morning", "今天早上", "was"),
)
_COMING = (("tomorrow", "明天"), ("next week", "下个星期"), ("tonight", "今天晚上"))
_FALLS = (
    ("rain", "下雨", "rained", CITIES, SEASONS),
    ("snow", "下雪", "snowed", _NORTHERN, SEASONS[3:]),
)


def _weather(draw: Draw) -> Pair:
    city, felt = draw(_NORTHERN), draw(_FELT)
    day, zh_day, be = draw.form(_DAYS)
    degree, zh_degree = draw.form((("", "很"), ("very ", "非常")))
    shape = draw.form(("city", "city", "season", "ask", "compare", "will", "not"))
    place, zh_place = f"in {city.en}", city.zh
    if shape == "city":
        return (
            f"it {be} {degree}{felt.en} {place} {day}",
            f"{zh_place}{zh_day}{zh_degree}{felt.zh}",
        )
    if shape == "not":
        return f"it {be} not {felt.en} {place} {day}", f"{zh_place}{zh_day}不{felt.zh}"
    if shape == "ask":
        return f"{be} it {felt.en} {place} {day}?", f"{zh_place}{zh_day}{felt.zh}吗？"
    if shape == "season":
        season, felt = draw.form(_SEASONAL)
        return (
            f"it is {degree}{felt.en} {place} in {season.en}",
            f"{zh_place}{season.zh}{zh_degree}{felt.zh}",
        )
    if shape == "compare":
        other = draw(tuple(other for other in CITIES if other is not city))
        more = {"hot": "hotter", "humid": "more humid"}.get(felt.en, felt.en + "er")
        return (
            f"it {be} {more} in {city.en} than in {other.en} {day}",
            f"{zh_day}{city.zh}比{other.zh}{felt.zh}",
        )
    coming, zh_coming = draw.form(_COMING)
    return f"it will be {degree}{felt.en} {place} {coming}", (
        f"{zh_place}{zh_coming}会{zh_degree}{felt.zh}"
    )


def _falls(draw: Draw) -> Pair:
    base, chinese, past, cities, seasons = draw.form(_FALLS)
    city = draw(cities)
    draw.remember(base)
    coming, zh_coming = draw.form(
        (*_COMING, ("this weekend", "这个周末"), ("next month", "下个月"))
    )
    gone, zh_gone = draw.form(
        (("yesterday", "昨天"), ("last night", "昨天晚上"), ("last week", "上个星期"))
    )
    place, zh_place = (f" in {city.en}", city.zh) if draw.chance(0.8) else ("", "")
    season = draw.form(seasons)
    english, mandarin = draw.form(
        (
            (f"it will {base}{place} {coming}", f"{zh_place}{zh_coming}会{chinese}"),
            (f"it will not {base}{place} {coming}", f"{zh_place}{zh_coming}不会{chinese}"),
            (f"will it {base}{place} {coming}?", f"{zh_place}{zh_coming}会{chinese}吗？"),
            (f"it {past}{place} {gone}", f"{zh_place}{zh_gone}{chinese}了"),
            (f"did it {base}{place} {gone}?", f"{zh_place}{zh_gone}{chinese}了吗？"),
            (f"it is {base}ing{place} now", f"{zh_place}现在在{chinese}"),
            (f"it often {base}s{place} in {season.en}", f"{zh_place}{season.zh}经常{chinese}"),
        )
    )
    return english, mandarin


def _time(draw: Draw) -> Pair:
    time, zh_time = clock(draw, range(1, 13))
    draw.remember(time)
    thing, zh_thing = draw.form(
        (
            ("movie", "电影"),
            ("class", "课"),
            ("meeting", "会议"),
            ("train", "火车"),
            ("plane", "飞机"),
            ("game", "比赛"),
            ("party", "聚会"),
            ("concert", "音乐会"),
        )
    )
    if thing in ("train", "plane"):
        day, zh_day = draw.form((("", ""), (" tomorrow", "明天"), (" today", "今天")))
        verb = "开" if thing == "train" else "起飞"
        return f"the {thing} leaves at {time}{day}", f"{zh_thing}{zh_day}{zh_time}{verb}"
    shape = draw.form(("now", "starts", "ends"))
    if shape == "now":
        return f"it is {time} now", f"现在{zh_time}"
    evening = int(zh_time[:1] in "六七八九" and "点" in zh_time[:2])
    days = (("today", "今天"), ("tomorrow", "明天"), ("tonight", "今天晚上"))
    day, zh_day = draw.form(days[: 2 + evening])
    verb, chinese = ("starts", "开始") if shape == "starts" else ("ends", "结束")
    return f"the {thing} {verb} at {time} {day}", f"{zh_day}的{zh_thing}{zh_time}{chinese}"


def _date(draw: Draw) -> Pair:
    month, day = draw(MONTHS), 1 + draw.form(range(28))
    weekday = draw(WEEKDAYS)
    number, zh_number = ordinal(day), chinese_number(day)
    event, zh_event = draw.form(
        (("concert", "音乐会"), ("exam", "考试"), ("party", "聚会"), ("wedding", "婚礼"))
    )
    english, chinese = draw.form(
        (
            (f"today is {month.en} {number}", f"今天是{month.zh}{zh_number}号"),
            (
                f"today is {weekday.en}, {month.en} {number}",
                f"今天是{month.zh}{zh_number}号，{weekday.zh}",
            ),
            (f"the {event} is on {month.en} {number}", f"{zh_event}在{month.zh}{zh_number}号"),
            (f"the {event} is on {weekday.en}", f"{zh_event}在{weekday.zh}"),
            (f"is today {weekday.en}?", f"今天是{weekday.zh}吗？"),
            (f"tomorrow is {weekday.en}", f"明天是{weekday.zh}"),
            (f"yesterday was {weekday.en}", f"昨天是{weekday.zh}"),
        )
    )
    return english, chinese


def _favorite(draw: Draw) -> Pair:
    """Name a favorite season or what one does in it."""
    subject, season = draw(SUBJECTS), draw(SEASONS)
    if draw.chance(0.3):
        return (
            f"{subject.possessive} favorite season is {season.en}",
            f"{subject.zh}最喜欢的季节是{season.zh}",
        )
    action = activity(draw, PASTIMES)
    return (
        f"{subject.en} often {action.present(subject)} in {season.en}",
        f"{subject.zh}{season.zh}经常{action.zh}",
    )


def _appointment(draw: Draw) -> Pair:
    """Agree on a day: 星期一."""
    subject, weekday = draw(SUBJECTS), draw(WEEKDAYS)
    part, zh_part = draw.form(
        (("", ""), (" morning", "早上"), (" afternoon", "下午"), (" evening", "晚上"))
    )
    when, zh_when = f"on {weekday.en}{part}", weekday.zh + zh_part
    english, chinese = draw.form(
        (
            (f"{subject.have} an exam {when}", f"{zh_when}有考试"),
            (f"{subject.have} a meeting {when}", f"{zh_when}有会议"),
            (f"will come back {when}", f"{zh_when}会回来"),
            (f"{subject.do} not work {when}", f"{zh_when}不工作"),
            (f"{subject.be} very busy {when}", f"{zh_when}非常忙"),
            (f"{subject.be} free {when}", f"{zh_when}有空"),
        )
    )
    return f"{subject.en} {english}", subject.zh + chinese


PATTERNS = (
    (_weather, 0.9),
    (_falls, 0.7),
    (_time, 0.7),
    (_date, 0.6),
    (_favorite, 0.7),
    (_appointment, 0.7),
)
