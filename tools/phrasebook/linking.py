"""Sentences of two clauses: reasons, conditions, contrast, order in time."""

from __future__ import annotations

from . import nouns
from .people import FAMILY_ONE, FEELINGS, NAMES, SUBJECTS, another
from .places import FUTURE_DAYS, HOME, OUTINGS
from .verbs import (
    OUTDOORS,
    SKILLS,
    UNDER_WAY,
    activity,
    anything,
    one_of,
    pointed,
    usually,
)
from .words import Adjective, Draw, Pair

# What somebody in a certain mood may well have done.
_RESULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "tired": (
        ("went home early", "很早就回家了"),
        ("went to bed early", "很早就睡觉了"),
        ("did not go to work", "没有去上班"),
        ("stayed at home", "待在家里了"),
        ("took a taxi home", "坐出租车回家了"),
        ("did not cook", "没有做饭"),
    ),
    "busy": (
        ("did not have lunch", "没有吃午饭"),
        ("had no time to rest", "没有时间休息"),
        ("went home very late", "很晚才回家"),
        ("did not come to the party", "没有来参加聚会"),
        ("forgot to have dinner", "忘了吃晚饭"),
    ),
    "happy": (("sang a song", "唱了一首歌"), ("bought a cake", "买了一个蛋糕")),
    "nervous": (("did not sleep well", "没有睡好"), ("did not speak", "没有说话")),
    "angry": (("did not speak", "没有说话"), ("left early", "很早就离开了")),
    "sad": (("cried", "哭了"), ("did not want to eat", "不想吃饭")),
    "lonely": (("bought a cat", "买了一只猫"), ("called a friend", "给朋友打电话了")),
    "hungry": (("ate two hamburgers", "吃了两个汉堡"), ("went to a restaurant", "去了一家餐馆")),
    "thirsty": (("drank a glass of water", "喝了一杯水"), ("bought some juice", "买了一些果汁")),
}
_MOODS = tuple(feeling for feeling in FEELINGS if feeling.en in _RESULTS)


def _because(draw: Draw) -> Pair:
    """因为…，所以…: Chinese says both words where English says one."""
    subject, mood = draw(SUBJECTS), draw(_MOODS)
    result, zh_result = draw.form(_RESULTS[mood.en])
    draw.remember(result)
    shape = draw.form(("because", "so", "reason"))
    if shape == "because":
        return (
            f"because {subject.en} {subject.was} {mood.en}, {subject.pronoun} {result}",
            f"因为{subject.zh}很{mood.zh}，所以{subject.pronoun_zh}{zh_result}",
        )
    if shape == "reason":
        return (
            f"{subject.en} {result} because {subject.pronoun} {subject.was} {mood.en}",
            f"{subject.zh}{zh_result}，因为{subject.pronoun_zh}很{mood.zh}",
        )
    return (
        f"{subject.en} {subject.was} very {mood.en}, so {subject.pronoun} {result}",
        f"{subject.zh}非常{mood.zh}，所以{subject.pronoun_zh}{zh_result}",
    )


_BAD_WEATHER = (
    ("it rained", "下雨了", "it rains", "下雨"),
    ("it snowed", "下雪了", "it snows", "下雪"),
    ("it was very cold", "非常冷", "it is very cold", "非常冷"),
    ("it was very hot", "非常热", "it is very hot", "非常热"),
)


def _kept_by_weather(draw: Draw) -> Pair:
    subject, (was, zh_was, will, zh_will) = draw(SUBJECTS), draw.form(_BAD_WEATHER)
    if draw.chance(0.6):
        action = activity(draw, OUTDOORS)
        english, chinese = action.en, action.zh
    else:
        place = draw(OUTINGS)
        english, chinese = f"go to {place.en}", f"去{place.zh}"
    shape = draw.form(("because", "so", "if", "if"))
    if shape == "if":
        return (
            f"if {will} tomorrow, {subject.en} will not {english}",
            f"如果明天{zh_will}，{subject.zh}就不会{chinese}",
        )
    if shape == "because":
        return (
            f"because {was} yesterday, {subject.en} did not {english}",
            f"因为昨天{zh_was}，所以{subject.zh}没有{chinese}",
        )
    return (
        f"{was} yesterday, so {subject.en} did not {english}",
        f"昨天{zh_was}，所以{subject.zh}没有{chinese}",
    )


def _if(draw: Draw) -> Pair:
    """如果…，就…."""
    subject, shape = draw(SUBJECTS), draw.form(("weather", "time", "help", "stay"))
    if shape == "weather":
        action = activity(draw, OUTDOORS)
        return (
            f"if the weather is good tomorrow, {subject.en} will {action.en}",
            f"如果明天天气好，{subject.zh}就会{action.zh}",
        )
    if shape == "stay":
        rain, chinese = draw.form((("rains", "下雨"), ("snows", "下雪")))
        day = draw.form(FUTURE_DAYS)
        return (
            f"if it {rain} {day.en}, {subject.en} will stay at {HOME.en}",
            f"如果{day.zh}{chinese}，{subject.zh}就会待在{HOME.zh}里",
        )
    if shape == "help":
        other = another(draw, subject)
        return (
            f"if {subject.en} {subject.be} busy, {other.en} will help {_object(subject.pronoun)}",
            f"如果{subject.zh}很忙，{other.zh}就会帮助{subject.pronoun_zh}",
        )
    action, day = activity(draw), draw.form(FUTURE_DAYS)
    return (
        f"if {subject.en} {subject.have} time {day.en}, {subject.pronoun} will {action.en}",
        f"如果{subject.zh}{day.zh}有时间，{subject.pronoun_zh}就会{action.zh}",
    )


def _object(pronoun: str) -> str:
    return {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}.get(pronoun, pronoun)


_OBSTACLES = tuple(mood for mood in FEELINGS if mood.en in ("tired", "busy", "hungry", "sad"))


def _although(draw: Draw) -> Pair:
    """虽然…，但是…."""
    subject = draw(SUBJECTS)
    if draw.chance(0.5):
        obstacle, action = draw(_OBSTACLES), activity(draw)
        return (
            f"although {subject.en} {subject.was} {obstacle.en}, "
            f"{subject.pronoun} still {action.past}",
            f"虽然{subject.zh}很{obstacle.zh}，但是{subject.pronoun_zh}还是{action.zh_done}",
        )
    noun = draw(nouns.CLOTHES[:9] + nouns.DEVICES + nouns.CARRIED + nouns.FURNITURE)
    fault = draw(_faults(nouns.STATED[noun.kind]))
    english, chinese, many = pointed(draw, noun)
    be, it = ("are", "them") if many else ("is", "it")
    verb, zh_verb = draw.form((("bought", "买了"), ("likes", "很喜欢")))
    if verb == "likes":
        return (
            f"although {english} {be} {fault.en}, {subject.en} {subject.present('like')} {it}",
            f"虽然{chinese}很{fault.zh}，但是{subject.zh}喜欢",
        )
    return (
        f"although {english} {be} {fault.en}, {subject.en} {verb} {it}",
        f"虽然{chinese}很{fault.zh}，但是{subject.zh}还是{zh_verb}",
    )


def _faults(adjectives: tuple[Adjective, ...]) -> tuple[Adjective, ...]:
    """Keep what speaks against buying a thing."""
    return tuple(item for item in adjectives if item.en in ("expensive", "old", "heavy", "dirty"))


def _but(draw: Draw) -> Pair:
    subject, shape = draw(SUBJECTS), draw.form(("like", "time", "can", "tired"))
    if shape == "like":
        other = another(draw, subject)
        action = one_of(draw, activity, usually)
        return (
            f"{subject.en} {subject.present('like')} {action.gerund}, "
            f"but {other.en} {other.do} not",
            f"{subject.zh}喜欢{action.zh}，但是{other.zh}不喜欢",
        )
    if shape == "can":
        first = activity(draw, SKILLS)
        second = activity(draw, tuple(skill for skill in SKILLS if skill.action is not first))
        return (
            f"{subject.en} can {first.en}, but {subject.pronoun} cannot {second.en}",
            f"{subject.zh}会{first.zh}，但是{subject.pronoun_zh}不会{second.zh}",
        )
    action = anything(draw) if shape == "time" else activity(draw)
    if shape == "time":
        return (
            f"{subject.en} {subject.present('want')} to {action.en}, "
            f"but {subject.pronoun} {subject.have} no time",
            f"{subject.zh}想{action.zh}，但是{subject.pronoun_zh}没有时间",
        )
    return (
        f"{subject.en} {subject.present('want')} to {action.en}, "
        f"but {subject.pronoun} {subject.be} too tired",
        f"{subject.zh}想{action.zh}，但是{subject.pronoun_zh}太累了",
    )


def _too_to(draw: Draw) -> Pair:
    subject, action = draw(SUBJECTS), activity(draw)
    reason = draw(_OBSTACLES[:2])
    return (
        f"{subject.en} {subject.be} too {reason.en} to {action.en}",
        f"{subject.zh}太{reason.zh}了，不能{action.zh}",
    )


_NAMED = NAMES + FAMILY_ONE
_SEVERAL = tuple(person for person in SUBJECTS if person.many and "parents" not in person.en)


def _one_and_other(draw: Draw) -> Pair:
    """Two people alike: 都; one like the other: 也."""
    shape = draw.form(("both", "are", "too", "all"))
    if shape == "too":
        subject = draw(SUBJECTS)
        action = one_of(draw, activity, usually)
        return (
            f"{subject.en} also {subject.present('like')} {action.gerund}",
            f"{subject.zh}也喜欢{action.zh}",
        )
    if shape == "all":
        group, action = draw(_SEVERAL), anything(draw)
        return f"{group.en} all want to {action.en}", f"{group.zh}都想{action.zh}"
    first = draw(_NAMED)
    other = draw(tuple(person for person in _NAMED if person is not first))
    both, zh_both = f"{first.en} and {other.en}", f"{first.zh}和{other.zh}"
    if shape == "are":
        action = activity(draw, UNDER_WAY)
        return f"{both} are {action.gerund}", f"{zh_both}在{action.zh}"
    action = one_of(draw, activity, usually)
    return f"{both} both like {action.gerund}", f"{zh_both}都喜欢{action.zh}"


PATTERNS = (
    (_because, 1.1),
    (_kept_by_weather, 1),
    (_if, 1),
    (_although, 0.9),
    (_but, 1.1),
    (_too_to, 0.6),
    (_one_and_other, 1),
)
