"""Every signature of an export against Python's translator, with valid and odd inputs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import ConfigError, SearchConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.serving.saved_model import lint
from keras_transformer.serving.saved_model.compact import compact
from keras_transformer.serving.saved_model.module import ServedTranslator
from keras_transformer.serving.saved_model.weights import Weights
from keras_transformer.special_tokens import UNKNOWN

ODD = [
    "A dog runs over the green grass.",
    "",
    "naïve café — cafe\u0301 ＦＵＬＬ ｗｉｄｔｈ",
    "emoji 🐶👩‍👩‍👧 and 中文，日本語、العربية",
    " \t\u3000\u200b",
    "\x00\x07 control\tcharacters\x85 and\u2028separators",
    "<s> </s> <pad> <unk> ▁",
    "Two men are talking, and a woman listens. " * 20,
    "x" * 100_000,
    "The child sees a red ball.",
]


@pytest.fixture(scope="module")
def expected(translator):
    return translator.translate(ODD)


def texts(tensor: tf.Tensor):
    return [item.decode() for item in tensor.numpy()]


@pytest.fixture(scope="module")
def translated(signatures):
    """Outputs of ``translate`` for all texts."""
    return signatures["translate"](text=tf.constant(ODD))


def test_translate_equals_the_python_translator(translated, expected) -> None:
    found = translated
    assert texts(found["translation"]) == [item.text for item in expected]
    np.testing.assert_allclose(found["score"], [item.score for item in expected], atol=1e-4)
    cut = [len(text) > 500 for text in ODD]
    unfinished = [not item.finished for item in expected]
    assert found["truncated"].numpy().tolist() == (np.array(cut) | unfinished).tolist()
    assert sum(cut) == 2


def test_serving_default_is_translate(signatures, translated) -> None:
    found = signatures["serving_default"](text=tf.constant(ODD))
    for key in ("translation", "score", "truncated"):
        assert found[key].numpy().tolist() == translated[key].numpy().tolist()


def test_nbest_equals_the_python_translator(signatures, expected) -> None:
    found = signatures["nbest"](text=tf.constant(ODD))
    assert found["translations"].shape == found["scores"].shape == (len(ODD), 3)
    for row, scores, item in zip(
        found["translations"].numpy(), found["scores"].numpy(), expected, strict=True
    ):
        if not item.text:
            assert row.tolist() == [b"", b"", b""]
            continue
        ours = [(item.text, item.score), *((a.text, a.score) for a in item.alternatives)]
        assert [text.decode() for text in row[: len(ours)]] == [text for text, _ in ours]
        np.testing.assert_allclose(scores[: len(ours)], [score for _, score in ours], atol=1e-4)
        assert (np.diff(scores) <= 0).all()


@pytest.mark.parametrize(
    ("alpha", "max_extra"), [pytest.param(0.0, 4, marks=pytest.mark.slow), (2.0, 2)]
)
def test_options_are_those_of_the_search(small_run, signatures, alpha, max_extra) -> None:
    search = dataclasses.replace(small_run.config.search, alpha=alpha, max_extra=max_extra)
    wanted = Translator(small_run.model(), small_run.tokenizer(), search, small_run.config.data)
    expected = wanted.translate(ODD)
    found = signatures["options"](
        text=tf.constant(ODD),
        alpha=tf.fill([len(ODD)], alpha),
        max_extra=tf.fill([len(ODD)], max_extra),
    )
    assert texts(found["translation"]) == [item.text for item in expected]
    np.testing.assert_allclose(found["score"], [item.score for item in expected], atol=1e-4)


def test_options_apply_per_row(signatures) -> None:
    text = tf.fill([4], "The child sees a red ball.")
    alpha, extra = [0.0, 2.0, 0.6, 0.6], [4, 4, 1, 4]
    together = signatures["options"](
        text=text, alpha=tf.constant(alpha), max_extra=tf.constant(extra)
    )
    for row in range(4):
        alone = signatures["options"](
            text=text[:1], alpha=tf.constant(alpha[row : row + 1]), max_extra=[extra[row]]
        )
        assert together["translation"][row] == alone["translation"][0]
        assert together["score"][row].numpy() == pytest.approx(alone["score"][0].numpy(), abs=1e-5)


def test_options_out_of_range_give_finite_scores_and_leave_other_rows_alone(signatures) -> None:
    options = [
        (alpha, extra)
        for alpha in (np.nan, -3.0, np.inf, -np.inf, 1e30)
        for extra in (-(2**31), 2**31 - 1)
    ]
    rows = [pair for option in options for pair in (option, (0.6, 4))]
    found = signatures["options"](
        text=tf.constant(["A dog runs.", "The child sees a red ball."] * len(options)),
        alpha=tf.constant([alpha for alpha, _ in rows], tf.float32),
        max_extra=tf.constant([extra for _, extra in rows]),
    )
    usual = signatures["translate"](text=tf.constant(["The child sees a red ball."]))
    assert np.isfinite(found["score"]).all()
    assert set(found["translation"].numpy()[1::2]) == {usual["translation"].numpy()[0]}


def test_score_equals_the_python_translator(signatures, translator) -> None:
    targets = ["Ein Hund rennt.", "", "Das", *ODD[3:]]
    found = signatures["score"](source=tf.constant(ODD), target=tf.constant(targets))
    expected = translator.score(ODD, targets)
    np.testing.assert_allclose(
        found["log_probability"], [item.log_probability for item in expected], rtol=1e-5, atol=1e-4
    )
    tokens = np.array([item.tokens for item in expected])
    assert found["tokens"].numpy().tolist() == tokens.tolist()
    penalty = ((5 + tokens) / 6) ** 0.6
    np.testing.assert_allclose(found["score"], found["log_probability"] / penalty, rtol=1e-5)


def test_align(signatures, translated, small_run) -> None:
    found = signatures["align"](text=tf.constant(ODD))
    for key in ("translation", "score", "truncated"):
        assert found[key].numpy().tolist() == translated[key].numpy().tolist()
    attention = found["attention"].numpy()
    source, target = found["source_pieces"].numpy(), found["target_pieces"].numpy()
    assert attention.shape == (len(ODD), target.shape[1], source.shape[1])
    # No wider than the longest row.
    assert any(target[:, -1])
    assert any(source[:, -1])
    pieces = small_run.tokenizer().source
    for row, text in enumerate(ODD):
        read = [name.decode() for name in source[row] if name]
        written = [name for name in target[row] if name]
        ids = pieces.encode([text])[0]
        assert read == ([*pieces.pieces(ids[:59]), "</s>"] if ids else [])
        sums = attention[row].sum(axis=1)
        np.testing.assert_allclose(sums[: len(written)], 1.0, atol=1e-5)
        assert not sums[len(written) :].any()
        assert not attention[row][:, len(read) :].any()


@pytest.mark.parametrize("count", [0, 1, 17, pytest.param(257, marks=pytest.mark.slow)])
def test_any_number_of_rows_each_as_if_alone(signatures, expected, count) -> None:
    places = [(7 * row) % len(ODD) for row in range(count)]
    found = signatures["translate"](text=tf.constant([ODD[p] for p in places], tf.string))
    assert texts(found["translation"]) == [expected[place].text for place in places]
    np.testing.assert_allclose(
        found["score"], [expected[place].score for place in places], atol=1e-5
    )


def test_no_rows_in_any_signature(signatures) -> None:
    none = tf.zeros([0], tf.string)
    inputs = {
        "nbest": {"text": none},
        "align": {"text": none},
        "options": {"text": none, "alpha": tf.zeros([0]), "max_extra": tf.zeros([0], tf.int32)},
        "score": {"source": none, "target": none},
    }
    for key, values in inputs.items():
        assert all(output.shape[0] == 0 for output in signatures[key](**values).values())


def test_invalid_utf8_becomes_replacement_characters(signatures, translator) -> None:
    broken = [b"\xff\xfe", b"A dog \xc3", b"\xed\xa0\x80 runs", b"\x80" * 1000]
    found = signatures["translate"](text=tf.constant(broken))
    assert len(texts(found["translation"])) == 4  # every output is UTF-8
    usual = signatures["translate"](text=tf.constant(["A dog runs."]))
    mixed = signatures["translate"](text=tf.constant([*broken, b"A dog runs."]))
    assert mixed["translation"][4] == usual["translation"][0]


def test_greedy_search_has_one_hypothesis(small_run) -> None:
    model, tokenizer = small_run.model(), small_run.tokenizer()
    search = SearchConfig(beam=1, max_extra=4, length_penalty="power")
    module = ServedTranslator(model, Weights(model), tokenizer, search, 60)
    expected = Translator(model, tokenizer, search, small_run.config.data).translate(ODD)
    found = module.nbest(tf.constant(ODD))
    assert [row[0].decode() for row in found["translations"].numpy()] == [
        item.text for item in expected
    ]
    np.testing.assert_allclose(found["scores"][:, 0], [item.score for item in expected], atol=1e-4)


@pytest.mark.slow
def test_power_length_penalty(small_run) -> None:
    model, tokenizer = small_run.model(), small_run.tokenizer()
    search = SearchConfig(beam=3, n_best=3, max_extra=4, alpha=1.5, length_penalty="power")
    module = ServedTranslator(model, Weights(model), tokenizer, search, 60)
    expected = Translator(model, tokenizer, search, small_run.config.data).translate(ODD)
    found = module.nbest(tf.constant(ODD))
    forced = module.score(tf.constant(ODD), found["translations"][:, 0])
    np.testing.assert_allclose(
        forced["score"], forced["log_probability"] / np.float32(forced["tokens"]) ** 1.5, rtol=1e-5
    )
    for row, scores, item in zip(
        found["translations"].numpy(), found["scores"].numpy(), expected, strict=True
    ):
        ours = [(item.text, item.score), *((a.text, a.score) for a in item.alternatives)]
        assert [text.decode() for text in row[: len(ours)]] == [text for text, _ in ours]
        np.testing.assert_allclose(scores[: len(ours)], [score for _, score in ours], atol=1e-4)


def test_constraints_of_the_search(small_run, tmp_path) -> None:
    config, tokenizer = small_run.config, small_run.tokenizer()
    search = dataclasses.replace(
        config.search, beam=2, n_best=2, min_length=7, no_repeat_ngram=1, max_extra=9
    )
    model = small_run.model()
    module = ServedTranslator(model, Weights(model), tokenizer, search, 60)
    only = tf.Module()  # one signature is enough, and quicker to save
    only.tracked = [module.weights, module.source, module.target]
    only.translate = module.translate
    tf.saved_model.save(only, str(tmp_path), {"serving_default": module.translate})
    compact(tmp_path)
    lint.check(tmp_path)
    lines = ["A dog runs.", "The child sees a red ball.", ""]
    expected = Translator(model, tokenizer, search, config.data).translate(lines)
    found = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](
        text=tf.constant(lines)
    )
    assert texts(found["translation"]) == [item.text for item in expected]
    free = dataclasses.replace(search, min_length=0, no_repeat_ngram=0)
    without = Translator(model, tokenizer, free, config.data).translate(lines)
    assert [item.text for item in without] != [item.text for item in expected]


@pytest.mark.slow
def test_limits_and_tokens_of_the_search(small_run) -> None:
    """A network that prefers the unknown token: it is written as SentencePiece does."""
    model, tokenizer, data = small_run.model(), small_run.tokenizer(), small_run.config.data
    usual = Translator(model, tokenizer, small_run.config.search, data).translate(ODD)
    tokens = [
        token for row in tokenizer.target.encode([item.text for item in usual]) for token in row
    ]
    table = transformer.projection(model).matrix
    rows = table.numpy()
    rows[UNKNOWN] = 3 * rows[max(set(tokens), key=tokens.count)]
    table.assign(rows)
    search = dataclasses.replace(
        small_run.config.search,
        n_best=3,
        max_factor=0.5,
        max_extra=6,
        max_length=12,
        allow_unknown=True,
    )
    plain = Translator(model, tokenizer, search, data).translate(ODD)
    assert "⁇" in "".join(item.text for item in plain)
    tokens = [
        token for row in tokenizer.target.encode([item.text for item in plain]) for token in row
    ]
    frequent = sorted(set(tokens) - {UNKNOWN}, key=tokens.count)[-20:]  # more than are compared
    search = dataclasses.replace(search, suppress=tokenizer.target.pieces(frequent))
    module = ServedTranslator(model, Weights(model), tokenizer, search, 60)
    expected = Translator(model, tokenizer, search, data).translate(ODD)
    found = module.nbest(tf.constant(ODD))
    for row, scores, item in zip(
        found["translations"].numpy(), found["scores"].numpy(), expected, strict=True
    ):
        ours = [(item.text, item.score), *((a.text, a.score) for a in item.alternatives)]
        assert [text.decode() for text in row[: len(ours)]] == [text for text, _ in ours]
        np.testing.assert_allclose(scores[: len(ours)], [score for _, score in ours], atol=1e-4)
    short = module.options(
        tf.constant(ODD), alpha=tf.fill([len(ODD)], 0.6), max_extra=tf.fill([len(ODD)], 1)
    )
    shorter = dataclasses.replace(search, max_extra=1)
    expected = Translator(model, tokenizer, shorter, data).translate(ODD)
    assert texts(short["translation"]) == [item.text for item in expected]


def test_an_unknown_piece_is_refused_before_tracing(small_run) -> None:
    search = dataclasses.replace(small_run.config.search, suppress=("no such piece",))
    model = small_run.model()
    with pytest.raises(ConfigError, match="suppress: .* got 'no such piece'"):
        ServedTranslator(model, Weights(model), small_run.tokenizer(), search, 60)
