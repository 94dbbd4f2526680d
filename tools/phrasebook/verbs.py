"""Verbs of the phrasebook with the objects that make sense for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from . import nouns
from .forms import conjugate
from .words import Action, Draw, Noun, Phrase, counted, indefinite, read_nouns


@dataclass(frozen=True, eq=False)
class Activity:
    """A fixed verb phrase ("ride a bike", 骑, 自行车) and where it can be done."""

    en: str
    zh_verb: str
    zh_object: str
    tags: str

    @cached_property
    def action(self) -> Action:
        head, _, rest = self.en.partition(" ")
        rest = f" {rest}" if rest else ""
        return Action(
            conjugate(head),
            rest,
            self.zh_verb,
            self.zh_object,
            self.zh_object,
            skill="s" in self.tags,
        )


# Tags: s a skill (can is 会), d can be done for some time, o outdoors, h at home.
_ACTIVITIES = """swim,游,泳,sd; dance,跳,舞,sd; sing,唱,歌,sd; cook,做,饭,sdh; drive,开,车,sd;
run,跑,步,do; work,工作,,d; rest,休息,,dh; exercise,锻炼,,do; take a walk,散,步,do;
take a shower,洗,澡,h; go shopping,去,购物,; watch TV,看,电视,dh; listen to music,听,音乐,dh;
listen to the radio,听,广播,dh; play basketball,打,篮球,sdo; play football,踢,足球,sdo;
play tennis,打,网球,sdo; play table tennis,打,乒乓球,sd; play volleyball,打,排球,sdo;
play baseball,打,棒球,sdo; play chess,下,棋,sd; play the piano,弹,钢琴,sdh;
play the guitar,弹,吉他,sdh; play the violin,拉,小提琴,sdh; play games,玩,游戏,dh;
ride a bike,骑,自行车,sdo; ride a horse,骑,马,sd; climb mountains,爬,山,;
surf the internet,上,网,dh; do homework,做,作业,dh; do housework,做,家务,dh;
clean the room,打扫,房间,h; clean the kitchen,打扫,厨房,h; wash clothes,洗,衣服,h;
wash the dishes,洗,碗,h; take photos,拍,照,o; draw pictures,画,画,sd; read books,看,书,dh;
read the newspaper,看,报纸,dh; chat,聊,天,do; study,学习,,dh; ski,滑,雪,sd; skate,滑,冰,sd;
go fishing,去,钓鱼,; plant trees,种,树,; plant flowers,种,花,; feed the cat,喂,猫,h;
feed the dog,喂,狗,h; walk the dog,遛,狗,do; make dumplings,包,饺子,sdh; make tea,泡,茶,h;
make cakes,做,蛋糕,sh; have a meeting,开,会,d; take notes,记,笔记,;
take a nap,睡,午觉,h; do yoga,做,瑜伽,sdo; fly a kite,放,风筝,so"""

ACTIVITIES = tuple(
    Activity(en.strip(), verb, object_, tags)
    for en, verb, object_, tags in (
        entry.split(",") for entry in _ACTIVITIES.replace("\n", " ").split(";")
    )
)
# What takes days is liked and planned, but not done for an hour or on a Monday morning.
PASTIMES = (
    *ACTIVITIES,
    Activity("travel", "旅行", "", ""),
    Activity("go camping", "去", "露营", ""),
)
UNDER_WAY = tuple(item for item in ACTIVITIES if not item.en.startswith("go "))
SKILLS = tuple(item for item in ACTIVITIES if "s" in item.tags)
LASTING = tuple(item for item in ACTIVITIES if "d" in item.tags)
OUTDOORS = tuple(item for item in ACTIVITIES if "o" in item.tags)
AT_HOME = tuple(item for item in ACTIVITIES if "h" in item.tags)


class Frame(NamedTuple):
    """A verb and the things that it can be done to, at most `most` of them at a time."""

    en: str
    zh: str
    objects: tuple[Noun, ...]
    most: int = 2


_SONG = read_nouns("", "song,歌,首")
_STORY = read_nouns("", "story,故事,个; joke,笑话,个")
_QUESTION = read_nouns("", "question,问题,个")
_PHOTO = read_nouns("", "photo,照片,张")
_WRITTEN = nouns.MAIL + nouns.READING[4:]
_GOODS = nouns.CLOTHES + nouns.WORN + nouns.JEWELRY
_ANIMALS = nouns.PETS + nouns.FARM_ANIMALS + nouns.WILD_ANIMALS
# Each frame is as likely as its list is long, so that "buy" does not crowd out "sing".
FRAMES = (
    Frame("eat", "吃", nouns.FRUIT, 6),
    Frame("eat", "吃", nouns.SNACKS, 4),
    Frame("eat", "吃", nouns.BOWLS, 3),
    Frame("drink", "喝", nouns.DRINKS, 4),
    Frame("buy", "买", nouns.FRUIT, 10),
    Frame("buy", "买", _GOODS, 4),
    Frame("buy", "买", nouns.DEVICES + nouns.FURNITURE + nouns.INSTRUMENTS, 2),
    Frame("buy", "买", nouns.READING[:3] + nouns.STATIONERY, 6),
    Frame("buy", "买", nouns.CARRIED + nouns.TABLEWARE + nouns.GIFTS, 5),
    Frame("buy", "买", nouns.OWN_VEHICLES, 2),
    Frame("sell", "卖", nouns.OWN_VEHICLES + nouns.DEVICES, 3),
    Frame("read", "看", nouns.READING[:6], 3),
    Frame("write", "写", _WRITTEN, 4),
    Frame("watch", "看", nouns.FILMS, 3),
    Frame("borrow", "借", nouns.READING[:3] + nouns.STATIONERY + nouns.CARRIED[:1], 3),
    Frame("repair", "修", nouns.DEVICES + nouns.OWN_VEHICLES, 3),
    Frame("wash", "洗", nouns.TABLEWARE[:6] + nouns.CLOTHES[:4] + nouns.FRUIT[:3], 5),
    Frame("draw", "画", _ANIMALS + nouns.PLANTS + nouns.LANDSCAPE[:3], 4),
    Frame("make", "做", nouns.SNACKS[1:4] + nouns.CLOTHES[5:7] + nouns.CARRIED[5:6], 3),
    Frame("order", "点", nouns.DRINKS + nouns.SNACKS[1:4] + nouns.BOWLS, 3),
    Frame("choose", "选", _GOODS + nouns.GIFTS, 2),
    Frame("sing", "唱", _SONG, 5),
    Frame("tell", "讲", _STORY, 4),
    Frame("ask", "问", _QUESTION, 6),
    Frame("take", "拍", _PHOTO, 9),
)
SEARCH = Frame("look for", "找", nouns.PAPERS[:4] + nouns.CARRIED[:5] + nouns.STATIONERY[:4], 2)
# These happen to people: patterns of wishes and plans leave them out.
EVENTS = (
    Frame("find", "找到", nouns.PAPERS + nouns.CARRIED + nouns.STATIONERY, 3),
    Frame("lose", "丢", nouns.PAPERS + nouns.CARRIED[:5] + nouns.STATIONERY + nouns.JEWELRY, 3),
    Frame("see", "看见", _ANIMALS + nouns.SMALL_ANIMALS + nouns.PEOPLE, 6),
    Frame("receive", "收到", nouns.MAIL + nouns.GIFTS, 5),
    Frame("break", "打破", nouns.TABLEWARE[:4] + nouns.FURNITURE[8:9], 3),
)


def named_frames(*verbs: str) -> tuple[Frame, ...]:
    """Give the frames of these verbs."""
    return tuple(frame for frame in FRAMES if frame.en in verbs)


class Usual(NamedTuple):
    """A verb and the kinds of thing that it is done to, in general."""

    en: str
    zh: str
    objects: tuple[Phrase, ...]


def _kinds(things: Sequence[Noun]) -> tuple[Phrase, ...]:
    return tuple(Phrase(thing.plural, thing.zh) for thing in things)


USUAL = (
    Usual("eat", "吃", nouns.FOODS),
    Usual("drink", "喝", nouns.LIQUIDS),
    Usual("read", "看", _kinds(nouns.READING[1:4])),
    Usual("watch", "看", _kinds(nouns.FILMS)),
    Usual("write", "写", _kinds(_WRITTEN)),
    Usual("study", "学", nouns.LANGUAGES + nouns.SUBJECTS_TAUGHT),
    Usual("buy", "买", nouns.FOODS + _kinds(nouns.CLOTHES[:6] + nouns.READING[:3])),
)
CONSUMED = USUAL[:2]


def _act(verb: str, zh: str, english: str, chinese: str, weak: str) -> Action:
    """Build an action whose object is counted or known, so that 了 follows the verb."""
    head, _, particle = verb.partition(" ")
    rest = f" {particle} {english}" if particle else f" {english}"
    return Action(conjugate(head), rest, zh, chinese, weak, bounded=True)


def activity(draw: Draw, activities: Sequence[Activity] = ACTIVITIES) -> Action:
    """Draw something that is done without a particular object."""
    return draw(activities).action


def _slot(draw: Draw, frames: Sequence[Frame]) -> tuple[Frame, Noun]:
    frame = draw.form(frames)
    draw.remember(frame.en)
    return frame, draw(frame.objects)


def with_one(draw: Draw, frames: Sequence[Frame] = FRAMES, plain: bool = False) -> Action:
    """Draw "buy a book" or, unless plain, "buy a useful book"."""
    frame, noun = _slot(draw, frames)
    adjectives = nouns.NAMED_WITH.get(noun.kind, ())
    adorned = adjectives and not plain and draw.chance(0.3)
    adjective = draw.form(adjectives) if adorned else None
    english, chinese = indefinite(noun, adjective)
    weak = (adjective.attribute if adjective else "") + noun.zh
    # A container must still be named in a question: 喝一杯茶吗.
    contained = " of " in noun.en and not noun.en.startswith("pair ")
    return _act(frame.en, frame.zh, english, chinese, chinese if contained else weak)


def _plain_one(draw: Draw) -> Action:
    return with_one(draw, plain=True)


def with_several(draw: Draw, frames: Sequence[Frame] = FRAMES) -> Action:
    """Draw "buy three books", "buy some books" or "buy a few books"."""
    frame, noun = _slot(draw, frames)
    some = draw.form(("", "", "some", "a few"))
    if some == "some":
        english, chinese = f"some {noun.plural}", f"一些{noun.zh}"
        # 一些 stands in for the measure word; a container must still be named: 几杯茶.
        if " of " in noun.en:
            english, chinese = f"several {noun.plural}", f"好几{noun.measure}{noun.zh}"
    elif some:
        english, chinese = f"a few {noun.plural}", f"几{noun.measure}{noun.zh}"
    else:
        english, chinese = counted(2 + draw.form(range(frame.most - 1)), noun)
    return _act(frame.en, frame.zh, english, chinese, noun.zh)


def with_known(draw: Draw, frames: Sequence[Frame] = FRAMES) -> Action:
    """Draw "buy this book" or "buy those books"."""
    frame, noun = _slot(draw, frames)
    # What was eaten is not here any more: "that apple", never "this apple".
    near = 0.0 if frame.en in ("eat", "drink", "order") else 0.6
    english, chinese, _ = pointed(draw, noun, near)
    return _act(frame.en, frame.zh, english, chinese, chinese)


def usually(draw: Draw, choices: Sequence[Usual] = USUAL) -> Action:
    """Draw "eat noodles": an object of a kind, not a particular one."""
    usual = draw.form(choices)
    draw.remember(usual.en)
    thing = draw(usual.objects)
    return _act(usual.en, usual.zh, thing.en, thing.zh, thing.zh)


def one_of(draw: Draw, *kinds: Callable[..., Action], **options: Sequence[Frame]) -> Action:
    """Draw a kind of action, then an action of that kind."""
    return draw.form(kinds)(draw, **options)


def anything(draw: Draw) -> Action:
    """Draw any action that can be planned."""
    return one_of(draw, activity, activity, with_one, with_one, with_several, usually)


def anything_weak(draw: Draw) -> Action:
    """Draw an action for a question or negation, where no quantity is stated."""
    return one_of(draw, activity, _plain_one, usually)


def pointed(draw: Draw, noun: Noun, nearness: float = 0.6) -> tuple[str, str, bool]:
    """Give "this book" or "those books", 这本书 or 那些书, and whether it is plural."""
    near = draw.chance(nearness)
    if draw.chance(0.3) and " of " not in noun.en:
        return (
            f"{'these' if near else 'those'} {noun.plural}",
            f"{'这' if near else '那'}些{noun.zh}",
            True,
        )
    return (
        f"{'this' if near else 'that'} {noun.en}",
        f"{'这' if near else '那'}{noun.measure}{noun.zh}",
        False,
    )
