"""Translator with a small random model: results are reproducible and follow the options."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer.config import ConfigError, DataConfig, SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.translator import Translation, TranslationError, Translator
from keras_transformer.special_tokens import END, START

SENTENCES = Path(__file__).with_name("sentences.tsv").read_text(encoding="utf-8").splitlines() * 5
ENGLISH, GERMAN = map(list, zip(*(line.split("\t") for line in SENTENCES), strict=True))
DATA = DataConfig(vocabulary_size=400, joint=False, max_tokens=60)
SEARCH = SearchConfig(beam=3, max_extra=4, batch_tokens=100)

ODDITIES = [
    "naïve café — cafe\u0301 ＦＵＬＬ ｗｉｄｔｈ",
    "emoji 🐶👩‍👩‍👧 and 中文，日本語、العربية עברית",
    "<s> </s> <pad> <unk> <0x0A> ▁",
    "\x00\x07 control\tcharacters\x85 and\u2028separators",
    "lone \ud83d surrogate",
    "x" * 40,
]
BLANK = ["", " ", "\t", "\u00a0", "\u3000", "\u200b", "\r"]


@pytest.fixture(scope="module")
def translator(model, tokenizer) -> Translator:
    return Translator(model, tokenizer, SEARCH, DATA)


@pytest.fixture
def sources(translator, monkeypatch) -> list[np.ndarray]:
    """Return the source ids that reach the model."""
    arrays: list[np.ndarray] = []
    search = translator._functions.search

    def spy(source, prefix=None):
        arrays.append(source)
        return search(source, prefix)

    monkeypatch.setattr(translator._functions, "search", spy)
    return arrays


@pytest.fixture(scope="module")
def alone(translator) -> dict[str, Translation]:
    """Translate each line by itself."""
    lines = [*ENGLISH[:4], *ODDITIES, *BLANK]
    return {line: translator.translate([line])[0] for line in lines}


def check(lines: list[str], together: list[Translation], alone: dict[str, Translation]) -> None:
    assert [item.text for item in together] == [alone[line].text for line in lines]
    assert [item.finished for item in together] == [alone[line].finished for line in lines]
    np.testing.assert_allclose(
        [item.score for item in together],
        [alone[line].score for line in lines],
        rtol=1e-5,
        atol=1e-5,
    )


def test_each_line_has_its_translation_in_order(translator, alone):
    lines = ["", *ENGLISH[:4], " ", *ODDITIES, *BLANK, ENGLISH[1]]
    together = translator.translate(lines)
    check(lines, together, alone)
    assert [item.score == 0.0 for item in together] == [line in BLANK for line in lines]
    assert not any(item.text for item, line in zip(together, lines, strict=True) if line in BLANK)
    assert len({item.text for item in together}) > 8, "too tame a model to show anything"


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.sampled_from(ENGLISH[:4] + ODDITIES + BLANK), max_size=8),
    batch_tokens=st.sampled_from([1, 30, 200, 4_096]),
)
def test_neither_batch_nor_order_changes_a_translation(translator, alone, lines, batch_tokens):
    with pytest.MonkeyPatch.context() as patch:
        search = dataclasses.replace(translator.search, batch_tokens=batch_tokens)
        patch.setattr(translator, "search", search)
        check(lines, translator.translate(lines), alone)


@pytest.mark.slow
def test_workers_change_no_result(model, tokenizer, translator, alone):
    search = dataclasses.replace(SEARCH, batch_tokens=40)
    several = Translator(model, tokenizer, search, DATA, workers=3)
    lines = ["", *ENGLISH[:4], *ODDITIES, *BLANK] * 3
    done: list[int] = []
    check(lines, several.translate(lines, done.append), alone)
    assert sum(done) == len(lines)
    for one, other in zip(
        several.score(ENGLISH, GERMAN), translator.score(ENGLISH, GERMAN), strict=True
    ):
        np.testing.assert_allclose(one.by_token, other.by_token, rtol=1e-5, atol=1e-5)


def test_blank_lines_do_not_run_the_model(translator, sources):
    translations = translator.translate(BLANK)
    assert [item.text for item in translations] == [""] * len(BLANK)
    assert all(item.finished and item.score == 0.0 for item in translations)
    assert translator.translate([]) == []
    assert sources == []


def test_the_model_reads_ids_and_end(translator, tokenizer, sources):
    translator.translate([ENGLISH[0]])
    assert sources[0].tolist() == [[*tokenizer.source.encode(ENGLISH[:1])[0], END]]


def test_output_never_exceeds_source_and_extra(translator, tokenizer):
    for line, translation in zip(ENGLISH[:4], translator.translate(ENGLISH[:4]), strict=True):
        (source,) = tokenizer.source.encode([line])
        hypotheses = translator._functions.search(np.array([[*source, END]], np.int32))
        (length,) = hypotheses.lengths.numpy()[:, 0]
        assert length <= len(source) + SEARCH.max_extra
        assert translation.finished or length == len(source) + SEARCH.max_extra


def test_output_is_one_clean_line(translator, monkeypatch):
    target = translator.tokenizer.target
    monkeypatch.setattr(target, "decode", lambda ids: [" a\nb\u2028c▁d\x07  e\r"] * len(ids))
    assert translator.translate(["A dog"])[0].text == "a b c d e"


def test_odd_input_gives_one_line_without_special_tokens(translator):
    for translation in translator.translate(ODDITIES):
        for text in (translation.text, *(item.text for item in translation.alternatives)):
            assert len(text.splitlines()) <= 1
            assert not any(mark in text for mark in ("▁", "<s>", "</s>", "<pad>", "<unk>", "⁇"))


def test_n_best_starts_with_the_best(model, tokenizer, translator):
    search = dataclasses.replace(SEARCH, n_best=3)
    lists = Translator(model, tokenizer, search, DATA).translate([*ENGLISH[:4], ""])
    assert lists[-1].alternatives == ()
    for several, best in zip(lists, translator.translate(ENGLISH[:4]), strict=False):
        assert several.text == best.text
        assert several.score == pytest.approx(best.score, rel=1e-5)
        assert best.alternatives == ()
        assert len({item.text for item in (several, *several.alternatives)}) == 3
        scores = [several.score, *(item.score for item in several.alternatives)]
        assert scores == sorted(scores, reverse=True)


def test_a_long_line_is_cut_with_a_warning_that_names_it(translator, sources, caplog):
    data = dataclasses.replace(DATA, max_tokens=6)
    (ids,) = translator.tokenizer.source.encode(ENGLISH[1:2])
    with caplog.at_level(logging.WARNING), pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "data", data)
        translator.translate(["a", ENGLISH[1]])
    assert caplog.messages == [f"line 2: {len(ids) + 1} tokens, cut to 6 (data.max_tokens)"]
    assert [*ids[:5], END] in np.concatenate([rows[:, :6] for rows in sources[:1]]).tolist()


def test_a_line_of_exactly_the_limit_is_not_cut(translator, tokenizer, monkeypatch, caplog):
    (ids,) = tokenizer.source.encode(ENGLISH[:1])
    data = dataclasses.replace(DATA, max_tokens=len(ids) + 1, on_long="refuse")
    monkeypatch.setattr(translator, "data", data)
    translator.translate(ENGLISH[:1])
    assert caplog.messages == []


def test_a_long_line_is_refused_with_on_long_refuse(translator, monkeypatch):
    data = dataclasses.replace(DATA, max_tokens=6, on_long="refuse")
    monkeypatch.setattr(translator, "data", data)
    with pytest.raises(TranslationError, match=r"line 3: expected at most 6 tokens .*, got \d+"):
        translator.translate(["a", "", ENGLISH[1]])


@pytest.mark.parametrize("window", [1, 3, 100])
def test_a_stream_gives_the_same_in_any_window(translator, window):
    lines = [*ENGLISH[:4], "", ODDITIES[0], ODDITIES[1]]
    streamed = translator.translate_stream(iter(lines), window=window)
    assert [item.text for item in streamed] == [item.text for item in translator.translate(lines)]


def test_a_stream_yields_translations_before_reading_further(translator):
    read = []

    def lines():
        for line in ENGLISH[:3]:
            read.append(line)
            yield line

    stream = translator.translate_stream(lines(), window=1)
    assert next(stream).score < 0.0
    assert read == ENGLISH[:1]


def test_a_stream_counts_lines_over_windows(translator, monkeypatch):
    data = dataclasses.replace(DATA, max_tokens=6, on_long="refuse")
    monkeypatch.setattr(translator, "data", data)
    stream = translator.translate_stream(["a", "a", "", ENGLISH[1]], window=3)
    for _ in range(3):
        next(stream)
    with pytest.raises(TranslationError, match="line 4: expected at most 6"):
        next(stream)


def test_progress_adds_up_to_the_number_of_lines(translator):
    done: list[int] = []
    translator.translate([*ENGLISH, *BLANK, *ODDITIES], progress=done.append)
    assert sum(done) == len([*ENGLISH, *BLANK, *ODDITIES])
    assert len(done) > 2
    done.clear()
    translator.score(ENGLISH, GERMAN, progress=done.append)
    assert sum(done) == len(ENGLISH)


def test_one_trace_for_all_shapes_and_no_xla(translator):
    for lines in (["a"], ENGLISH[:1], ENGLISH, ["a b c"] * 7):
        translator.translate(lines)
        translator.score(lines, lines)
    functions = translator._functions
    assert functions.generate.experimental_get_tracing_count() == 1
    assert functions.force.experimental_get_tracing_count() == 1
    graph = functions.generate.get_concrete_function().graph.as_graph_def()
    names = {node.op for node in graph.node}
    names |= {node.op for function in graph.library.function for node in function.node_def}
    assert not [name for name in names if name.startswith("Xla")]


def test_scores_are_those_of_the_full_forward_pass(translator, model, tokenizer):
    (score,) = translator.score(ENGLISH[:1], GERMAN[:1])
    (source,), (target,) = tokenizer.source.encode(ENGLISH[:1]), tokenizer.target.encode(GERMAN[:1])
    inputs = {
        "source": tf.constant([[*source, END]]),
        "target": tf.constant([[START, *target]]),
    }
    logits = np.asarray(model(inputs), np.float64)[0]
    logits -= logits.max(-1, keepdims=True)
    each = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = each[range(len(target) + 1), [*target, END]]
    np.testing.assert_allclose(score.by_token, expected, atol=1e-4)
    assert score.log_probability == pytest.approx(expected.sum(), abs=1e-3)
    assert score.tokens == len(target) + 1


def test_scores_do_not_depend_on_the_batch(translator):
    sources, targets = [*ENGLISH[:4], "", "a"], [*GERMAN[:4], "a", ""]
    together = translator.score(sources, targets)
    for source, target, score in zip(sources, targets, together, strict=True):
        (alone,) = translator.score([source], [target])
        assert score.tokens == alone.tokens
        assert score.log_probability == pytest.approx(alone.log_probability, abs=1e-4)
    assert together[-1].tokens == 1  # END alone
    assert np.isfinite([score.log_probability for score in together]).all()
    assert translator.score([], []) == []


def test_scores_of_unequal_files_are_refused_with_both_counts(translator):
    with pytest.raises(TranslationError, match="got 2 sources and 3 targets"):
        translator.score(["a", "b"], ["a", "b", "c"])


def test_a_long_target_is_refused_by_name(translator, monkeypatch):
    data = dataclasses.replace(DATA, max_tokens=6, on_long="refuse")
    monkeypatch.setattr(translator, "data", data)
    with pytest.raises(TranslationError, match="target line 2: expected at most 6"):
        translator.score(["a", "a"], ["a", GERMAN[1]])


def test_a_tokenizer_of_another_model_is_refused(model, tokenizer):
    other = Tokenizer(tokenizer.target, tokenizer.source)
    assert other.target.size != tokenizer.target.size
    with pytest.raises(TranslationError, match=r"expected target vocabulary size \d+"):
        Translator(model, other, SEARCH, DATA)


@pytest.mark.slow
def test_a_suppressed_piece_is_not_written(model, tokenizer, translator):
    def pieces(own: Translator) -> tuple[str, ...]:
        return own.translate(ENGLISH[:1], attention=True)[0].attention.target_pieces

    first = pieces(translator)
    search = dataclasses.replace(SEARCH, suppress=first[:1])
    assert first[0] not in pieces(Translator(model, tokenizer, search, DATA))


def test_an_unknown_piece_is_refused_by_name(model, tokenizer):
    with pytest.raises(ConfigError, match=r"search\.suppress: .* got '>>xx<<'"):
        Translator(model, tokenizer, dataclasses.replace(SEARCH, suppress=(">>xx<<",)), DATA)


def test_without_a_source_end_the_model_reads_ids_alone(translator, tokenizer, sources, caplog):
    data = dataclasses.replace(DATA, source_end=False)
    (ids,) = tokenizer.source.encode(ENGLISH[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "data", dataclasses.replace(data, max_tokens=len(ids)))
        (blank, _) = translator.translate(["", ENGLISH[0]])
        assert caplog.messages == []
        patch.setattr(translator, "data", dataclasses.replace(data, max_tokens=len(ids) - 1))
        translator.translate(ENGLISH[:1])
    assert caplog.messages == [
        f"line 1: {len(ids)} tokens, cut to {len(ids) - 1} (data.max_tokens)"
    ]
    assert blank.text == ""
    assert [rows.tolist() for rows in sources] == [[ids], [ids[:-1]]]
