"""The built-in corpus: size, splits, and the agreement of both sides."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from keras_transformer.data.phrasebook import SPLITS, pairs

MARKS = {".": "。", "?": "？", "!": "！"}
VOWELS = "aeiou"


@pytest.fixture(scope="module")
def text() -> str:
    """Return all pairs, one a line, English and Chinese separated by a tab."""
    return "\n".join("\t".join(pair) for split in SPLITS for pair in pairs(split))


@pytest.fixture(scope="module")
def everything() -> list[tuple[str, str]]:
    return [pair for split in SPLITS for pair in pairs(split)]


def _bare(text: str) -> str:
    return text.rstrip(".?!。？！").casefold()


def _english_words(text: str) -> list[str]:
    return re.findall(r"[a-zé]+(?:['-][a-z]+)*", text.casefold())


def test_there_are_enough_pairs_and_words() -> None:
    distinct = {_bare(english) for english, _ in pairs("train")}
    assert len(distinct) >= 40_000
    assert len(pairs("dev")) == len(pairs("test")) == 1000
    assert len({word for english in distinct for word in _english_words(english)}) >= 450


def test_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="expected train, dev or test, got 'valid'"):
        pairs("valid")


def test_callers_cannot_change_the_corpus() -> None:
    pairs("dev").clear()
    assert len(pairs("dev")) == 1000


def test_splits_share_no_sentence_in_either_language() -> None:
    for side in (0, 1):
        seen = [{_bare(pair[side]) for pair in pairs(split)} for split in SPLITS]
        assert not seen[0] & seen[1]
        assert not seen[0] & seen[2]
        assert not seen[1] & seen[2]


def test_every_held_out_word_and_character_is_in_the_training_split() -> None:
    train = pairs("train")
    known_words = {word for english, _ in train for word in _english_words(english)}
    known_characters = {character for _, chinese in train for character in chinese}
    for split in ("dev", "test"):
        for english, chinese in pairs(split):
            assert known_words.issuperset(_english_words(english)), english
            assert known_characters.issuperset(chinese), chinese


def test_both_sides_end_alike(everything: list[tuple[str, str]]) -> None:
    for english, chinese in everything:
        assert MARKS.get(english[-1], "") == (chinese[-1] if chinese[-1] in "。？！" else ""), (
            english
        )
        assert not re.search(r"[.?!]", english[:-1]), english
        assert not re.search(r"[。？！]", chinese[:-1]), chinese
        assert not re.search(r"[,.?!;:A-Za-z\s]", chinese), chinese


def test_english_is_capitalised_and_single_spaced(everything: list[tuple[str, str]]) -> None:
    for english, _ in everything:
        assert english[0].isupper(), english
        assert english == " ".join(english.split()), english
        assert not re.search(r"\bi\b", english), english
        for name in ("tom", "mary", "beijing", "chinese", "monday", "january"):
            assert name not in english.split(), english


def test_a_tenth_of_the_statements_also_come_without_a_full_stop() -> None:
    train = pairs("train")
    translation = dict(train)
    stopped = {english for english, _ in train if english.endswith(".")}
    unstopped = [english for english, _ in train if english[-1].isalpha()]
    twins = [english for english in unstopped if english + "." in stopped]
    assert 0.10 < len(twins) / len(stopped) < 0.15
    assert all(translation[english] + "。" == translation[english + "."] for english in twins)


def test_the_example_of_the_readme_is_in_the_training_split() -> None:
    train = dict(pairs("train"))
    assert train["I love you"] == "我爱你"
    assert train["I love you."] == "我爱你。"


def test_articles_fit_the_sound(everything: list[tuple[str, str]]) -> None:
    spoken_consonant = ("university", "uniform", "useful")
    for english, _ in everything:
        for article, following in re.findall(r"\b([Aa]n?) ([A-Za-zé-]+)", english):
            vowel = following[0].lower() in VOWELS and following not in spoken_consonant
            vowel = vowel or following in ("hour", "honest")
            assert article.lower() == ("an" if vowel else "a"), english


def test_subjects_agree_with_their_verbs(everything: list[tuple[str, str]]) -> None:
    wrong = re.compile(
        r"^(I|You|We|They) (is|has|does|was (?!\b)|likes|wants|needs|goes|plans)\b"
        r"|^(He|She) (am|are|have|do|were|like|want|need|go|plan)\b"
        r"|^(You|We|They) was\b|^I (is|are|were)\b"
    )
    for english, _ in everything:
        assert not wrong.search(english), english


MEASURES = {
    "书": "本",
    "报纸": "份",
    "信": "封",
    "衬衫": "件",
    "裙子": "条",
    "帽子": "顶",
    "鞋子": "双",
    "手机": "部",
    "电脑": "台",
    "自行车": "辆",
    "汽车": "辆",
    "椅子": "把",
    "桌子": "张",
    "雨伞": "把",
    "手表": "块",
    "票": "张",
    "钢笔": "支",
    "马": "匹",
    "牛": "头",
    "狗": "只",
    "猫": "只",
    "苹果": "个",
    "香蕉": "根",
    "花": "朵",
    "树": "棵",
    "老师": "位",
    "电影": "部",
    "比赛": "场",
    "歌": "首",
    "银行": "家",
    "学校": "所",
    "公园": "座",
}


@pytest.mark.parametrize(("noun", "measure"), MEASURES.items())
def test_each_noun_has_its_own_measure_word(noun: str, measure: str, text: str) -> None:
    every_measure = "本份封件条顶双部台辆把张块支匹头只个根朵棵位场首家所座杯瓶碗盘"
    counted = rf"[一两三四五六七八九十这那]([{every_measure}]){noun}[。？！，]?$"
    found = Counter(re.findall(counted, text, re.MULTILINE))
    assert found[measure] > 0
    assert set(found) == {measure}


def test_two_before_a_measure_word_is_liang(everything: list[tuple[str, str]]) -> None:
    for _, chinese in everything:
        assert not re.search(r"(?<![十百期])二[个本件条张辆只台部]", chinese), chinese
        assert "两月" not in chinese
        assert "星期两" not in chinese


# One pattern for each construction and one for its translation, checked by hand.
CONSTRUCTIONS = {
    r"[A-Z][a-z ]+ is wearing a red \w+\.": r"着一.红色的.+。",
    r"[A-Z][A-Za-z ]+ is (reading|eating) an? \w+\.": r"在[看吃]一[本份篇个根颗块]",
    r"[A-Z][a-z ]+ did not [a-z ]+(?<!before) yesterday\.": r"昨天没有",
    r"Have you ever seen a tiger\?": r"你见过老虎吗？",
    r"[A-Z]\w+ has never been to Beijing\.": r"从来没有去过北京。",
    r"(?:He|She|I|We|They) put the \w+ on the table\.": r"把.+放在桌子上了。",
    r"Please put the \w+ on the table\.": r"请把.+放在桌子上。",
    r"[A-Z]\w+ is taller than [a-z ]+\.": r"比.+高。",
    r"[A-Z][a-z ]+ is as [a-z]+ as [^\t]+": r"跟.+一样",
    r"[A-Z][a-z ]+ is the [a-z]+est student in the class\.": r"是班里最.+的学生。",
    r"There are two \w+ in the park\.": r"公园里有两",
    r"The \w+ that I bought [^\t]+": r"我.*买的",
    r"Because [^\t]+": r"因为.+，所以",
    r"Although [^\t]+": r"虽然.+，但是",
    r"If [^\t]+": r"如果.+，.*就(不)?会",
    r"[A-Z]\w+ [a-z ]+ for two hours yesterday\.": r"昨天.+了两个小时",
    r"[A-Z]\w+'s \w+ was [a-z]+ by [^\t]+": r"被.+了",
    r"[A-Z]\w+ often [a-z ]+ while [^\t]+": r"经常一边.+一边",
    r"[A-Z][a-z ]+ usually gets up at [^\t]+\.": r"通常.+点.*起床。",
    r"[A-Z][a-z ]+ costs [a-z -]+ yuan\.": r"要.+块钱。",
    r"How many [a-z ]+ do you have\?": r"你有几.+？",
    r"Whose [a-z ]+\?": r"是谁的.+？",
    r"Why [^\t]+\?": r"为什么.+？",
    r"Let's [a-z ]+(?<!after) tomorrow\.": r"我们明天.+吧。",
    r"[A-Z]\w+ is getting more and more [a-z]+\.": r"越来越",
}


@pytest.mark.parametrize(("english", "chinese"), CONSTRUCTIONS.items())
def test_constructions(english: str, chinese: str, text: str) -> None:
    found = re.findall(rf"^({english})\t(.+)$", text, re.MULTILINE)
    assert found
    for sentence in found:
        assert re.search(chinese, sentence[-1]), sentence


def test_children_do_not_drink_wine(everything: list[tuple[str, str]]) -> None:
    for english, _ in everything:
        if english.startswith(("The boy ", "The girl ", "The children ")):
            assert not re.search(r"\b(wine|beer|drives?|drove)\b", english), english
