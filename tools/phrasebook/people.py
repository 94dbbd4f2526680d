"""People of the phrasebook: pronouns, names, family, jobs and traits."""

from __future__ import annotations

from .words import Adjective, Draw, Person, Phrase, read_adjectives

I = Person("I", "我", "me", "my", 1, pronoun="I", pronoun_zh="我")  # noqa: E741
YOU = Person("you", "你", "you", "your", 2, pronoun="you", pronoun_zh="你")
HE = Person("he", "他", "him", "his", pronoun="he", pronoun_zh="他")
SHE = Person("she", "她", "her", "her", pronoun="she", pronoun_zh="她")
WE = Person("we", "我们", "us", "our", 1, True, "we", "我们")
THEY = Person("they", "他们", "them", "their", 3, True, "they", "他们")
PRONOUNS = (I, YOU, HE, SHE, WE, THEY)


def _third(en: str, zh: str, pronoun: Person) -> Person:
    """Make somebody who is spoken of and taken up again by pronoun."""
    possessive = en + ("'" if pronoun.many and en.endswith("s") else "'s")
    return Person(en, zh, en, possessive, 3, pronoun.many, pronoun.en, pronoun.zh)


def _people(pronoun: Person, table: str) -> tuple[Person, ...]:
    entries = (entry.split(",") for entry in table.replace("\n", " ").split(";"))
    return tuple(_third(en.strip(), zh, pronoun) for en, zh in entries)


NAMES = _people(
    HE, "Tom,汤姆; Jack,杰克; David,大卫; Mike,迈克; Peter,彼得; Li Ming,李明; Xiaoming,小明"
) + _people(SHE, "Mary,玛丽; Lucy,露西; Anna,安娜; Lily,莉莉; Xiaohong,小红; Wang Fang,王芳")

_MEN = """father,爸爸; older brother,哥哥; younger brother,弟弟; grandfather,爷爷; uncle,叔叔;
    son,儿子"""
_WOMEN = """mother,妈妈; older sister,姐姐; younger sister,妹妹; grandmother,奶奶; aunt,阿姨;
    daughter,女儿"""


def _family() -> tuple[Person, ...]:
    """Give my father (我爸爸), our teacher (我们的老师), their parents and so on."""
    family: list[Person] = []
    for owner in (I, YOU, HE, SHE):
        for pronoun, table in ((HE, _MEN), (SHE, _WOMEN), (THEY, "parents,父母")):
            family += [
                _third(f"{owner.possessive} {member.en}", owner.zh + member.zh, pronoun)
                for member in _people(pronoun, table)
            ]
    spouses = ((I, "wife", "妻子", SHE), (HE, "wife", "妻子", SHE), (SHE, "husband", "丈夫", HE))
    family += [
        _third(f"{owner.possessive} {en}", owner.zh + zh, pronoun)
        for owner, en, zh, pronoun in spouses
    ]
    return tuple(family)


FAMILY = _family()
CIRCLE = tuple(
    _third(f"{owner.possessive} {member.en}", owner.zh_possessive + member.zh, pronoun)
    for owner in PRONOUNS
    for pronoun, table in (
        (HE, "friend,朋友; neighbor,邻居; boss,老板; teacher,老师"),
        (THEY, "friends,朋友们; classmates,同学们; colleagues,同事们"),
    )
    for member in _people(pronoun, table)
)
ROLES = _people(
    HE, "the teacher,老师; the doctor,医生; the manager,经理; the driver,司机; the boy,男孩"
) + _people(SHE, "the nurse,护士; the girl,女孩")
GROUPS = _people(THEY, "the children,孩子们; the students,学生们; the teachers,老师们")

_THIRD_PERSONS = NAMES * 2 + FAMILY + CIRCLE + ROLES + GROUPS
# Pronouns begin about half of all sentences, as in talk.
SUBJECTS = PRONOUNS * (len(_THIRD_PERSONS) // 6) + _THIRD_PERSONS
# Nobody asks whether "I" did something, nor tells "you" what "you" did yesterday.
ASKED = tuple(person for person in SUBJECTS if person.person != 1)
SINGULAR = tuple(person for person in SUBJECTS if not person.many)
OTHERS = NAMES * 2 + FAMILY + CIRCLE + GROUPS
FAMILY_ONE = tuple(person for person in FAMILY if not person.many)
CHILDREN = tuple(
    person for person in FAMILY if person.en.endswith(("brother", "sister", "son", "daughter"))
)
# Those of whom it is not known what they do for a living.
FRIENDS = tuple(person for person in CIRCLE if person.en.endswith(("friend", "neighbor")))
ADULTS = FAMILY_ONE + FRIENDS
WORKERS = PRONOUNS[:4] * (len(ADULTS) // 4) + NAMES * 2 + ADULTS
# Who goes to school.
PUPILS = PRONOUNS * 6 + NAMES + CHILDREN + ROLES[4:5] + ROLES[6:] + GROUPS[:2]
_COMPANIONS = OTHERS + PRONOUNS * 8


def related(first: Person, second: Person) -> bool:
    """Return whether two people in one sentence could be the same or include each other."""
    if first.en == second.en or {first.person, second.person} in ({1}, {2}):
        return True
    return first in PRONOUNS[2:] and second in PRONOUNS[2:]


def another(draw: Draw, first: Person) -> Person:
    """Draw somebody other than first, for a sentence about two."""
    second = draw.form(_COMPANIONS)
    while related(first, second):
        second = draw.form(_COMPANIONS)
    draw.remember(second.en)
    return second


TRAITS = read_adjectives(
    """tall,高,很高的,taller
    clever,聪明,聪明的,cleverer
    kind,善良,善良的,kinder
    friendly,友好,友好的,friendlier
    honest,诚实,诚实的,-
    lazy,懒,很懒的,lazier,*
    brave,勇敢,勇敢的,braver
    polite,有礼貌,有礼貌的,-
    patient,有耐心,有耐心的,-
    careful,细心,细心的,-
    famous,出名,著名的,-
    rich,有钱,有钱的,richer
    young,年轻,年轻的,younger
    strong,强壮,强壮的,stronger
    thin,瘦,瘦瘦的,thinner,*
    shy,害羞,害羞的,shyer,*
    popular,受欢迎,受欢迎的,-
    healthy,健康,健康的,healthier
    serious,严肃,严肃的,-,*
    hardworking,勤奋,勤奋的,-"""
)
FEELINGS = read_adjectives(
    """happy,高兴,高兴的,happier
    tired,累,累,-,*
    busy,忙,忙,busier,*
    hungry,饿,饿,hungrier,*
    thirsty,渴,渴,thirstier,*
    sad,难过,难过,sadder,*
    angry,生气,生气,angrier,*
    nervous,紧张,紧张,-,*
    excited,激动,激动,-,*
    worried,担心,担心,-,*
    surprised,惊讶,惊讶,-,*
    lonely,孤单,孤单,lonelier,*
    disappointed,失望,失望,-,*"""
)
GOOD_TRAITS: tuple[Adjective, ...] = tuple(
    trait
    for trait in TRAITS
    if trait.en not in ("tall", "lazy", "rich", "strong", "thin", "shy", "serious")
)
COUNTRIES = (
    Phrase("China", "中国"),
    Phrase("Japan", "日本"),
    Phrase("America", "美国"),
    Phrase("Britain", "英国"),
    Phrase("France", "法国"),
    Phrase("Germany", "德国"),
    Phrase("Italy", "意大利"),
    Phrase("Russia", "俄罗斯"),
    Phrase("Canada", "加拿大"),
    Phrase("Australia", "澳大利亚"),
    Phrase("India", "印度"),
    Phrase("Korea", "韩国"),
)
NATIONALITIES = tuple(
    Phrase(en, country.zh + "人")
    for en, country in zip(
        [
            "Chinese",
            "Japanese",
            "American",
            "British",
            "French",
            "German",
            "Italian",
            "Russian",
            "Canadian",
            "Australian",
            "Indian",
            "Korean",
        ],
        COUNTRIES,
        strict=True,
    )
)
CITIES = (
    Phrase("Beijing", "北京"),
    Phrase("Shanghai", "上海"),
    Phrase("Guangzhou", "广州"),
    Phrase("Nanjing", "南京"),
    Phrase("Hangzhou", "杭州"),
    Phrase("Chengdu", "成都"),
    Phrase("Hong Kong", "香港"),
    Phrase("London", "伦敦"),
    Phrase("Paris", "巴黎"),
    Phrase("New York", "纽约"),
    Phrase("Tokyo", "东京"),
    Phrase("Berlin", "柏林"),
    Phrase("Rome", "罗马"),
    Phrase("Moscow", "莫斯科"),
    Phrase("Singapore", "新加坡"),
)
