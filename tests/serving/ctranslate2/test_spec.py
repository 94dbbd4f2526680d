"""The model in CTranslate2: the same scores and translations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DataConfig, ModelConfig, SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.plain_text import plain
from keras_transformer.inference.search.constraints import FORBIDDEN
from keras_transformer.inference.search.scoring import forced_log_probabilities, length_penalty
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.presets import preset
from keras_transformer.serving.settings import ExportError
from keras_transformer.special_tokens import END, START
from tests.support.model_options import ALL

ctranslate2 = pytest.importorskip("ctranslate2", reason="the optional package is not installed")

ENGLISH = [
    "A dog runs over the green grass.",
    "Two men are talking, and a woman listens.",
    "The child sees a red ball.",
    "Nobody knows where the old train goes.",
]
GERMAN = [
    "Ein Hund rennt über das grüne Gras.",
    "Zwei Männer reden, und eine Frau hört zu.",
    "Das Kind sieht einen roten Ball.",
    "Niemand weiß, wohin der alte Zug fährt.",
]
POSITIONS = 90
SMALL = ModelConfig(encoder_layers=2, decoder_layers=3, d_model=16, heads=2, d_ff=32)
ROTARY = {
    "positions": "rotary",
    "position_layout": "interleaved",
    "position_rates": "paper",
    "first_position": 0,
    "activation": "gelu",
    "norm": "pre",
    "decoder_norm": "post",
    "final_norm": "decoder",
    "embeddings": "untied",
}
KINDS = {
    "the paper's": (SMALL, True),
    "Pre-LN": (dataclasses.replace(SMALL, norm="pre"), True),
    "learned": (dataclasses.replace(SMALL, positions="learned", max_positions=20), True),
    "untied": (dataclasses.replace(SMALL, norm="pre", embeddings="untied"), False),
    "untied, learned": (
        dataclasses.replace(SMALL, embeddings="untied", positions="learned", max_positions=200),
        False,
    ),
    "shared by the decoder, none": (
        dataclasses.replace(SMALL, norm="pre", embeddings="decoder", positions="none"),
        False,
    ),
    "rotary": (dataclasses.replace(SMALL, norm="pre", positions="rotary"), True),
    "wide heads": (dataclasses.replace(SMALL, d_key=12, d_value=12), True),
    "characters": (SMALL, "char"),
    "all options": (dataclasses.replace(SMALL, **ALL), True),
    "all options, rotary": (dataclasses.replace(SMALL, **(ALL | ROTARY)), False),
    "learned and normalized, GELU by tanh": (
        dataclasses.replace(
            SMALL,
            activation="gelu_tanh",
            positions="learned",
            max_positions=20,
            embedding_norm=True,
        ),
        True,
    ),
    "no final norms, GELU by sigmoid": (
        dataclasses.replace(SMALL, activation="gelu_sigmoid", norm="pre", final_norm="none"),
        True,
    ),
}
QUICK = 8  # kinds that `test_forced_scores` checks in the quick suite
SEARCHED = list(KINDS)[:9]  # search does not depend on the options of the others
SLOW_KINDS = [
    pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "untied, learned"
]


@pytest.fixture(scope="module")
def tokenizers() -> dict[bool | str, Tokenizer]:
    def train(**options: Any) -> Tokenizer:
        config = DataConfig(vocabulary_size=400, **options)
        return Tokenizer.train(ENGLISH * 5, GERMAN * 5, config)

    return {
        True: train(),
        False: train(joint=False),
        "char": train(algorithm="char"),
    }


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, marks=pytest.mark.slow) if number >= QUICK else kind
        for number, kind in enumerate(KINDS)
    ],
)
def pair(request, tokenizers, tmp_path_factory):
    """A model of some kind, its tokenizer, and the same model in CTranslate2."""
    config, kind = KINDS[request.param]
    tokenizer = tokenizers[kind]
    config = dataclasses.replace(
        config,
        source_vocabulary_size=tokenizer.source.size,
        target_vocabulary_size=tokenizer.target.size,
    )
    model = lively(transformer.build(config))
    return model, tokenizer, engine(model, config, tokenizer, tmp_path_factory.mktemp("kind"))


def engine(model, config, tokenizer, folder):
    from keras_transformer.serving.ctranslate2 import spec

    spec.build_spec(model, config, tokenizer, POSITIONS, "float32").save(str(folder))
    return ctranslate2.Translator(str(folder), intra_threads=1)


def lively(model):
    """Set random weights with which a model makes many different clear choices.

    The first feature is always 40. It makes END frequent, bytes rare, and forbidden tokens so
    improbable that CTranslate2's distribution over the other tokens is the same.
    """
    random = np.random.default_rng(11)
    for weight in model.weights:
        offset = random.normal(0.0, 0.7, weight.shape)
        weight.assign(weight + offset if len(weight.shape) == 1 else offset)
    embeddings = [transformer.source_embedding, transformer.target_embedding]
    for layer in {find(model) for find in [*embeddings, transformer.projection]}:
        layer.matrix.assign(0.2 * layer.matrix)  # else the model would repeat its input
    decoder = model.get_layer("decoder")
    norm = decoder.final_norm or decoder.layers[-1].feed_forward_connection.normalization
    norm.gamma.assign(np.concatenate([[0.0], 9.0 * norm.gamma.numpy()[1:]]))
    norm.beta.assign(np.concatenate([[40.0], norm.beta.numpy()[1:]]))
    table = transformer.projection(model).matrix
    rows = table.numpy()
    rows[:, 0] = 0.0
    rows[END, 0] = 0.2
    rows[END + 1 : END + 257, 0] = -0.5  # bytes
    rows[list(FORBIDDEN)] = -np.eye(rows.shape[1])[0]
    table.assign(rows)
    return model


def pieces(tokenizer: Tokenizer, lines):
    return [tokenizer.source.pieces(ids) for ids in tokenizer.source.encode(lines)]


def test_forced_scores(pair) -> None:
    model, tokenizer, translator = pair
    random = np.random.default_rng(1)
    sides = (tokenizer.source, tokenizer.target)
    # Different lengths, some above the 20 learned positions of one kind.
    source, target = (
        [random.integers(4, side.size, length).tolist() for length in (30, 3, 17, 60)]
        for side in sides
    )
    found = translator.score_batch(
        [sides[0].pieces(ids) for ids in source], [sides[1].pieces(ids) for ids in target]
    )
    for ours, theirs, score in zip(source, target, found, strict=True):
        labels = tf.constant([[*theirs, END]])
        given = {"source": tf.constant([[*ours, END]]), "target": tf.constant([[START, *theirs]])}
        expected = forced_log_probabilities(model(given), labels)[0].numpy()
        np.testing.assert_allclose(score.log_probs, expected, rtol=1e-4, atol=1e-4)


def both_searches(pair, beam: int):
    """Yield text and score of each line by ours and by CTranslate2, with length penalty 0."""
    model, tokenizer, translator = pair
    search = SearchConfig(beam=beam, alpha=0.0, max_extra=9)
    ours = Translator(model, tokenizer, search, DataConfig(max_tokens=80)).translate(ENGLISH)
    for expected, source in zip(ours, pieces(tokenizer, ENGLISH), strict=True):
        (found,) = translator.translate_batch(
            [source],
            beam_size=beam,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=len(source) + search.max_extra,
            return_scores=True,
        )
        text = plain(tokenizer.target.join(found.hypotheses[0]), tokenizer.target)
        yield (expected.text, expected.score), (text, found.scores[0])


@pytest.mark.parametrize("pair", ["untied, learned", *SLOW_KINDS], indirect=True)
def test_greedy_search_finds_the_same(pair) -> None:
    for (text, score), theirs in both_searches(pair, 1):
        assert theirs == (text, pytest.approx(score, abs=2e-4))


@pytest.mark.slow
@pytest.mark.parametrize("pair", SEARCHED, indirect=True)
def test_a_beam_finds_the_same_or_less(pair) -> None:
    """CTranslate2 considers END only among the best W tokens, ours among the best 2 W."""
    for (text, score), theirs in both_searches(pair, 4):
        if theirs[0] == text:
            assert theirs[1] == pytest.approx(score, abs=2e-4)
        else:
            assert theirs[1] < score


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["the paper's", "untied"], indirect=True)
@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_power_length_penalty_ranks_as_ctranslate2_does(pair, alpha) -> None:
    """Scores of its n-best lists are ours, in its order; ``gnmt`` orders some of them otherwise."""
    _, tokenizer, translator = pair
    disagreements = 0
    for source in pieces(tokenizer, ENGLISH):
        limit = len(source) + 9
        (found,) = translator.translate_batch(
            [source],
            beam_size=8,
            num_hypotheses=8,
            length_penalty=alpha,
            min_decoding_length=0,
            max_decoding_length=limit,
            return_scores=True,
        )
        # END counts, except in a hypothesis that was cut at the limit and has none.
        lengths = [len(words) + (len(words) < limit) for words in found.hypotheses]
        forced = translator.score_batch([source] * 8, found.hypotheses)
        log_probabilities = [
            sum(score.log_probs[:length]) for score, length in zip(forced, lengths, strict=True)
        ]
        power, gnmt = (
            log_probabilities / length_penalty(tf.constant(lengths), alpha, form).numpy()
            for form in ("power", "gnmt")
        )
        np.testing.assert_allclose(found.scores, power, rtol=1e-4)
        assert (np.diff(power) <= 1e-5).all()
        disagreements += np.argsort(-gnmt).tolist() != np.argsort(-power).tolist()
    assert disagreements


@pytest.mark.slow
def test_attention_is_that_of_alignments(pair) -> None:
    model, tokenizer, translator = pair
    search = SearchConfig(beam=1, max_extra=9)
    ours = Translator(model, tokenizer, search, DataConfig(max_tokens=80))
    (expected,) = ours.translate(ENGLISH[:1], attention=True)
    (found,) = translator.translate_batch(
        pieces(tokenizer, ENGLISH[:1]), beam_size=1, max_decoding_length=20, return_attention=True
    )
    assert expected.attention is not None
    rows = min(len(found.attention[0]), len(expected.attention.weights))
    np.testing.assert_allclose(
        found.attention[0][:rows], expected.attention.weights[:rows, :-1], atol=1e-4
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ablation": "no_residual"}, "model.ablation: expected none .* the run has no_residual"),
        ({"positions": "alibi"}, "model.positions: expected sinusoidal, .* the run has alibi"),
        ({"d_value": 12}, "model.d_value: expected the width of model.d_key .* has 12 and 8"),
    ],
)
def test_unsupported_models(changes, message) -> None:
    from keras_transformer.serving.ctranslate2 import spec

    with pytest.raises(ExportError, match=message):
        spec.check(dataclasses.replace(SMALL, **changes))


def test_a_recurrent_model_is_refused() -> None:
    from keras_transformer.serving.ctranslate2 import spec

    with pytest.raises(ExportError, match=r"architecture: expected transformer .* has recurrent"):
        spec.check(preset("rnn").model)
