"""Tokens separated by spaces: learned, looked up, joined, in Python and in the graph."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.config import DataConfig
from keras_transformer.data.agreement import Agreement, agreement
from keras_transformer.data.errors import TokenizerError
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.word_tokenizer import Words
from keras_transformer.special_tokens import END, PAD, START, UNKNOWN

WORDS = Words(["the", "lo@@", "wer", "@-@", "hôtel", "\U0001f600", "\x00"], continuation="@@")
SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
TEXT = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(["\0", " ", *SPACES, "a"])),
    max_size=20,
)


@pytest.fixture(scope="module")
def graph():
    return WORDS.graph()


def graph_decode(graph, ids: list[list[int]]) -> list[str]:
    ragged = tf.ragged.constant(ids, dtype=tf.int32, ragged_rank=1)
    return [text.decode("utf-8") for text in graph.detokenize(ragged).numpy()]


def test_each_word_is_looked_up() -> None:
    assert WORDS.size == 11
    assert WORDS.encode(["the lo@@ wer hôtel", "The the", "", " \t"]) == [
        [4, 5, 6, 8],
        [UNKNOWN, 4],
        [],
        [],
    ]
    assert WORDS.pieces([0, 1, 2, 3, 5]) == ["<pad>", "<unk>", "<s>", "</s>", "lo@@"]


def test_names_of_special_tokens_in_a_text_are_unknown(graph) -> None:
    line = "<pad> <unk> <s> </s>"
    assert WORDS.encode([line]) == [[UNKNOWN] * 4]
    assert graph.tokenize([line]).to_list() == [[UNKNOWN] * 4]


def test_marked_words_are_joined_with_the_next(graph) -> None:
    ids = [[4, 5, 6, 8], [START, 4, PAD, END], [5, 5, 6, 5], [7], [4, UNKNOWN, 6], [5], []]
    texts = ["the lower hôtel", "the", "lolower lo", "@-@", "the <unk> wer"]
    assert WORDS.decode(ids) == [*texts, "lo", ""]
    assert graph_decode(graph, ids) == WORDS.decode(ids)
    plain = Words(["lo@@", "wer"])
    assert plain.decode([[4, 5]]) == ["lo@@ wer"]
    assert graph_decode(plain.graph(), [[4, 5]]) == ["lo@@ wer"]


def test_join_takes_words() -> None:
    assert WORDS.join(["lo@@", "wer", "none", "</s>"]) == "lower <unk>"


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_graph_and_python_agree_on_any_text(graph, texts: list[str]) -> None:
    words = " \u2003".join(WORDS.pieces(range(4, WORDS.size)))
    lines = [*texts, *(f"{words}{text}{words}" for text in texts)]
    assert graph.tokenize(lines).to_list() == WORDS.encode(lines)


def test_graph_and_python_split_at_the_same_characters(graph) -> None:
    lines = [f"the{space}wer" for space in SPACES]
    assert set(map(tuple, WORDS.encode(lines))) == {(4, 6)}
    assert graph.tokenize(lines).to_list() == WORDS.encode(lines)
    others = ["\0", "\u200b", "\u2060", "\ufeff", "\u180e", "\u2581", "\x7f"]
    lines = [f"the{other}wer" for other in others]
    assert set(map(tuple, WORDS.encode(lines))) == {(UNKNOWN,)}
    assert graph.tokenize(lines).to_list() == WORDS.encode(lines)


def test_bytes_that_are_no_text_are_unknown(graph) -> None:
    assert graph.tokenize([b"the \xff\xfe the\x80 the"]).to_list() == [[4, UNKNOWN, UNKNOWN, 4]]
    assert WORDS.encode(["\ud800 the"]) == [[UNKNOWN, 4]]


def test_the_most_frequent_words_are_learned() -> None:
    lines = ["b a c", "a  b\td", "<unk> <unk> <unk> e\u3000b"]
    words = Words.learn(lines, DataConfig(vocabulary_size=300))
    assert words.pieces(range(4, words.size)) == ["b", "a", "c", "d", "e"]
    many = [" ".join(f"w{i}" for i in range(400)) for _ in range(2)]
    words = Words.learn([*many, "last last last"], DataConfig(vocabulary_size=300))
    assert words.size == 300
    assert words.pieces([4, 5, 299]) == ["last", "w0", "w294"]


def test_a_corpus_gives_one_list_or_two() -> None:
    config = DataConfig(algorithm="words", joint=False)
    separate = Tokenizer.train(["a b b"], ["c"], config)
    assert separate.source.pieces([4, 5]) == ["b", "a"]
    assert separate.target.pieces([4]) == ["c"]
    assert not separate.same_ids
    joint = Tokenizer.train(["a b b"], ["c"], DataConfig(algorithm="words"))
    assert joint.joint
    assert joint.same_ids
    assert joint.source.pieces([4, 5, 6]) == ["b", "a", "c"]
    with pytest.raises(TokenizerError, match="expected words to learn a vocabulary from"):
        Tokenizer.train(["<unk>"], ["a"], config)


def test_save_and_load(tmp_path: Path) -> None:
    other = Words(["\u2028", "a\x85b", "\x1c"])  # line breaks elsewhere
    Tokenizer(WORDS, other).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.words", "target.words"]
    loaded = Tokenizer.load(tmp_path)
    assert loaded.source.serialized == WORDS.serialized
    assert loaded.source.decode([[5, 6]]) == ["lower"]
    assert loaded.target.pieces([4, 5, 6]) == ["\u2028", "a\x85b", "\x1c"]
    assert loaded.fingerprint == Tokenizer(WORDS, other).fingerprint
    assert loaded.fingerprint != Tokenizer(Words(["the"]), other).fingerprint
    Tokenizer(WORDS, WORDS).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["joint.words"]
    assert Tokenizer.load(tmp_path).joint
    assert WORDS.serialized.splitlines()[0] == b'{"format": 1, "words": 7, "continuation": "@@"}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"the\nwer\n",
        b"[]\n",
        b'{"format": 2, "words": 1, "continuation": ""}\nthe\n',
        WORDS.serialized[:-1],
        WORDS.serialized[:-9],
        WORDS.serialized + b"more\n",
        b"\xff" + WORDS.serialized,
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "joint.words").write_bytes(data)
    with pytest.raises(TokenizerError, match=r"joint\.words: expected a list of words, got \d+"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected words, got none"),
        (["a", "b", "a"], r"got 'a' with the ids 4 and 6"),
        (["a", "</s>"], r"got '</s>' with the ids 3 and 5"),
        (["a", ""], "without spaces, got '' with the id 5"),
        (["a b"], "without spaces, got 'a b' with the id 4"),
        (["\ud800"], "expected words in Unicode"),
    ],
)
def test_unusable_words_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        Words(words)


@pytest.mark.parametrize("token", [-1, 11])
def test_ids_outside_the_vocabulary_are_named(token: int) -> None:
    with pytest.raises(TokenizerError, match=f"expected 0 to 10, got {token}"):
        WORDS.decode([[4, token]])


def test_agreement_names_the_lines_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["the wer", "hôtel", "", "lo@@ wer"]
    found = agreement(Tokenizer(WORDS, Words(["the"])), lines)
    assert found == Agreement(4, (), ())
    assert found.note() == ""
    assert agreement(Tokenizer(WORDS, WORDS), []) == Agreement(0, (), ())

    other = Words(["the", "lo@@", "wer", "@-@", "hotel", "x", "y"]).graph()
    monkeypatch.setattr(Words, "graph", lambda self: other)
    found = agreement(Tokenizer(WORDS, WORDS), lines)
    assert found.encoded == ("hôtel",)
    assert found.decoded == ("hôtel", "lo@@ wer")
    assert found.note().startswith(
        "tokenizer: Python and the exported graph differ in the ids of 1 and the text of 2 of 4 "
        "lines, such as 'hôtel'"
    )
