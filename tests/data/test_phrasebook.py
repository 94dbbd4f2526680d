"""The built-in corpus: size, splits, agreement of both sides, and its grammar by hand."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from keras_transformer.data.phrasebook import (
    belongings,
    dates,
    forms,
    nouns,
    pairs,
    phrases,
    sentences,
    tenses,
    words,
)

SPLITS = ("train", "dev", "test")
MARKS = {".": "。", "?": "？", "!": "！"}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def text() -> str:
    """Give all pairs, one a line, English and Chinese parted by a tab."""
    return "\n".join("\t".join(pair) for split in SPLITS for pair in pairs(split))


def _bare(text: str) -> str:
    return text.rstrip(".?!。？！").casefold()


def _english_words(text: str) -> list[str]:
    return re.findall(r"[a-zé]+(?:['-][a-z]+)*", text.casefold())


@pytest.fixture(scope="module")
def everything() -> list[tuple[str, str]]:
    return [pair for split in SPLITS for pair in pairs(split)]


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


@pytest.mark.parametrize("seed", ["0", "12345"])
def test_other_processes_give_the_same_pairs(seed: str) -> None:
    script = (
        "import hashlib, json\n"
        "from keras_transformer.data.phrasebook import pairs\n"
        "text = json.dumps([pairs(split) for split in ('train', 'dev', 'test')])\n"
        "print(hashlib.sha256(text.encode()).hexdigest())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    here = json.dumps([pairs(split) for split in SPLITS])
    assert run.stdout.strip() == hashlib.sha256(here.encode()).hexdigest()


def test_splits_share_no_sentence_in_either_language() -> None:
    for side in (0, 1):
        seen = [{_bare(pair[side]) for pair in pairs(split)} for split in SPLITS]
        assert not seen[0] & seen[1]
        assert not seen[0] & seen[2]
        assert not seen[1] & seen[2]


def test_combinations_are_held_out_whole() -> None:
    combination = {_bare(item.english): item.combination for item in sentences.all_sentences()}
    used = [{combination[_bare(english)] for english, _ in pairs(split)} for split in SPLITS]
    assert not used[0] & (used[1] | used[2])
    assert not used[1] & used[2]


def test_every_held_out_word_and_character_is_trained() -> None:
    train = pairs("train")
    known_words = {word for english, _ in train for word in _english_words(english)}
    known_characters = {character for _, chinese in train for character in chinese}
    for split in ("dev", "test"):
        for english, chinese in pairs(split):
            assert known_words.issuperset(_english_words(english)), english
            assert known_characters.issuperset(chinese), chinese


def test_held_out_sentences_come_from_nearly_all_patterns() -> None:
    pattern = {_bare(item.english): item.pattern for item in sentences.all_sentences()}
    shares = Counter(pattern[_bare(english)] for english, _ in pairs("test"))
    assert len(shares) > 0.9 * len({*pattern.values()})
    assert max(shares.values()) < 40  # none dominates


def test_one_sentence_has_one_translation(everything: list[tuple[str, str]]) -> None:
    translations = defaultdict(set)
    for english, chinese in everything:
        # Short forms are the same sentence: "I don't know." and "I do not know."
        translations[_bare(forms.contract(english))].add(_bare(chinese))
    assert not {key: found for key, found in translations.items() if len(found) > 1}
    assert len(everything) == len({english for english, _ in everything})


def test_patterns_never_contradict_each_other() -> None:
    """Draw far more sentences than the corpus keeps: still one translation each."""
    translations: dict[str, str] = {}
    for english, chinese in phrases.fixed():
        translations[_bare(forms.contract(english))] = _bare(chinese)
    for module in sentences._MODULES:
        for pattern, _ in module.PATTERNS:
            draw = words.Draw(f"more of {pattern.__name__}")
            for _ in range(200):
                english, chinese = pattern(draw)
                english = _bare(forms.contract(english))
                assert translations.setdefault(english, _bare(chinese)) == _bare(chinese), english


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


def test_a_tenth_of_the_statements_come_without_stop_too() -> None:
    train = pairs("train")
    translation = dict(train)
    stopped = {english for english, _ in train if english.endswith(".")}
    unstopped = [english for english, _ in train if english[-1].isalpha()]
    twins = [english for english in unstopped if english + "." in stopped]
    assert 0.10 < len(twins) / len(stopped) < 0.15
    assert all(translation[english] + "。" == translation[english + "."] for english in twins)
    pattern = {_bare(item.english): item.pattern for item in sentences.all_sentences()}
    assert len({pattern[_bare(english)] for english in twins}) > 100


def test_love_is_trained() -> None:
    train = dict(pairs("train"))
    assert train["I love you"] == "我爱你"
    assert train["I love you."] == "我爱你。"


VOWELS = "aeiou"


def test_articles_fit_the_sound(everything: list[tuple[str, str]]) -> None:
    spoken_consonant = ("university", "uniform", "useful")
    for english, _ in everything:
        for article, following in re.findall(r"\b([Aa]n?) ([A-Za-zé-]+)", english):
            vowel = following[0].lower() in VOWELS and following not in spoken_consonant
            vowel = vowel or following in ("hour", "honest")
            assert article.lower() == ("an" if vowel else "a"), english


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("apple", "an apple"),
        ("honest man", "an honest man"),
        ("hour", "an hour"),
        ("uniform", "a uniform"),
        ("useful book", "a useful book"),
        ("university", "a university"),
        ("umbrella", "an umbrella"),
        ("gray coat", "a gray coat"),
    ],
)
def test_article(phrase: str, expected: str) -> None:
    assert forms.with_article(phrase) == expected


def test_subjects_agree_with_their_verbs(everything: list[tuple[str, str]]) -> None:
    wrong = re.compile(
        r"^(I|You|We|They) (is|has|does|was (?!\b)|likes|wants|needs|goes|plans)\b"
        r"|^(He|She) (am|are|have|do|were|like|want|need|go|plan)\b"
        r"|^(You|We|They) was\b|^I (is|are|were)\b"
    )
    for english, _ in everything:
        assert not wrong.search(english), english


def test_one_goes_with_singular_and_numbers_with_plural(
    everything: list[tuple[str, str]],
) -> None:
    singular = {noun.en for noun in (*nouns.CLOTHES, *nouns.VEHICLES, *nouns.FARM_ANIMALS)}
    singular -= {noun.en for noun in nouns.PETS + nouns.FARM_ANIMALS if noun.plural == noun.en}
    numbers = "two|three|four|five|six|seven|many|some|several|these|those|few"
    wrong = re.compile(rf"\b({numbers}) ({'|'.join(singular)})\b", re.IGNORECASE)
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
def test_things_are_counted_by_their_own_measure_word(noun: str, measure: str, text: str) -> None:
    every_measure = "本份封件条顶双部台辆把张块支匹头只个根朵棵位场首家所座杯瓶碗盘"
    counted = rf"[一两三四五六七八九十这那]([{every_measure}]){noun}[。？！，]?$"
    found = Counter(re.findall(counted, text, re.MULTILINE))
    assert found[measure] > 0
    assert set(found) == {measure}


def test_two_is_said_right(everything: list[tuple[str, str]]) -> None:
    for _, chinese in everything:
        assert not re.search(r"(?<![十百期])二[个本件条张辆只台部]", chinese), chinese
        assert "两月" not in chinese
        assert "星期两" not in chinese


@pytest.mark.parametrize(
    ("number", "english", "chinese"),
    [
        (2, "two", "二"),
        (10, "ten", "十"),
        (12, "twelve", "十二"),
        (20, "twenty", "二十"),
        (35, "thirty-five", "三十五"),
        (100, "one hundred", "一百"),
        (105, "one hundred and five", "一百零五"),
        (110, "one hundred and ten", "一百一十"),
        (222, "two hundred and twenty-two", "两百二十二"),
    ],
)
def test_numbers(number: int, english: str, chinese: str) -> None:
    assert forms.english_number(number) == english
    assert forms.chinese_number(number) == chinese


def test_numbers_are_never_written_alike() -> None:
    for write in (forms.chinese_number, forms.english_number, forms.ordinal):
        numbers = range(1, 100) if write is forms.ordinal else range(1000)
        assert len({write(number) for number in numbers}) == len(numbers)


@pytest.mark.parametrize(
    ("base", "third", "past", "participle", "gerund"),
    [
        ("go", "goes", "went", "gone", "going"),
        ("watch", "watches", "watched", "watched", "watching"),
        ("study", "studies", "studied", "studied", "studying"),
        ("play", "plays", "played", "played", "playing"),
        ("make", "makes", "made", "made", "making"),
        ("swim", "swims", "swam", "swum", "swimming"),
        ("fly", "flies", "flew", "flown", "flying"),
        ("ski", "skis", "skied", "skied", "skiing"),
        ("see", "sees", "saw", "seen", "seeing"),
        ("have", "has", "had", "had", "having"),
        ("chat", "chats", "chatted", "chatted", "chatting"),
    ],
)
def test_verbs(base: str, third: str, past: str, participle: str, gerund: str) -> None:
    verb = forms.conjugate(base)
    assert (verb.third, verb.past, verb.participle, verb.gerund) == (
        third,
        past,
        participle,
        gerund,
    )


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("box", "boxes"),
        ("library", "libraries"),
        ("toy", "toys"),
        ("knife", "knives"),
        ("child", "children"),
        ("cup of tea", "cups of tea"),
        ("pair of glasses", "pairs of glasses"),
        ("post office", "post offices"),
    ],
)
def test_plurals(noun: str, expected: str) -> None:
    assert forms.plural(noun) == expected


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("I do not know", "I don't know"),
        ("I am not tired", "I'm not tired"),
        ("she cannot swim", "she can't swim"),
        ("they will not go", "they won't go"),
        ("do you know where he is?", "do you know where he is?"),
        ("do not run", "don't run"),
    ],
)
def test_contractions(full: str, short: str) -> None:
    assert forms.contract(full) == short
    assert forms.contract(full.capitalize()) == short.capitalize()


# Checked by hand: one sentence of each construction, as the corpus must translate it.
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


class _Scripted(words.Draw):
    """Takes the given choices in turn, by their English words or as they are."""

    def __init__(self, *script: object) -> None:
        super().__init__("unused")
        self._script = list(script)

    def form(self, choices):  # type: ignore[no-untyped-def]
        wanted = self._script.pop(0)
        return next(item for item in choices if wanted in (item, getattr(item, "en", None)))

    def chance(self, probability: float) -> bool:
        return bool(self._script.pop(0))


def test_a_sentence_by_hand() -> None:
    seek = next(frame for frame in tenses.EVENTS if frame.en == "find")
    draw = _Scripted("she", "yesterday", tenses.with_one, seek, "key", False)
    assert tenses._event(draw) == ("she found a key yesterday", "她昨天找到了一把钥匙")
    assert draw.take() == {"she", "find", "key"}


def test_job_and_season_by_hand() -> None:
    draw = _Scripted("my mother", "engineer", "not")
    assert belongings._job(draw) == ("my mother is not an engineer", "我妈妈不是工程师")
    draw = _Scripted("Tom", "winter", True)
    expected = ("Tom's favorite season is winter", "汤姆最喜欢的季节是冬天")
    assert dates._favorite(draw) == expected


def test_the_young_do_not_drink_wine(everything: list[tuple[str, str]]) -> None:
    for english, _ in everything:
        if english.startswith(("The boy ", "The girl ", "The children ")):
            assert not re.search(r"\b(wine|beer|drives?|drove)\b", english), english
