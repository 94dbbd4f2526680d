"""Views of small models with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from keras_transformer.config import DataConfig, ModelConfig, SearchConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.inference.translation import TranslationError
from keras_transformer.inference.translator import Translator
from keras_transformer.model import transformer
from keras_transformer.visualize import attention_view
from keras_transformer.visualize.attention_view import attention
from keras_transformer.visualize.embedding_neighbours import neighbours

pytestmark = pytest.mark.slow

LINES = ["the old dog runs here", "a small bird sings today", "ein alter Hund rennt heute 你好"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 3, LINES * 3, DataConfig(vocabulary_size=320))


Build = Callable[..., Translator]


@pytest.fixture
def build(tokenizer: Tokenizer, talkative: Callable[[Any], Any]) -> Build:
    def built(
        positions: Literal["sinusoidal", "learned", "rotary", "alibi", "none"] = "sinusoidal",
        norm: Literal["post", "pre"] = "post",
        **search: Any,
    ) -> Translator:
        size = tokenizer.source.size
        config = ModelConfig(
            source_vocabulary_size=size,
            target_vocabulary_size=size,
            encoder_layers=2,
            decoder_layers=3,
            d_model=16,
            heads=2,
            d_ff=16,
            positions=positions,
            norm=norm,
            embeddings="untied",
        )
        model = talkative(transformer.build(config))
        options = SearchConfig(**({"beam": 3, "max_extra": 5} | search))
        return Translator(model, tokenizer, options, DataConfig())

    return built


@pytest.mark.parametrize(
    ("positions", "norm"),
    [("sinusoidal", "post"), ("learned", "pre"), ("rotary", "pre"), ("alibi", "post")],
)
def test_own_translation_and_shapes(build: Build, positions: Any, norm: Any) -> None:
    translator = build(positions, norm)

    view = attention(translator, LINES[0])

    assert view.translation == translator.translate([LINES[0]])[0].text
    sources, targets = len(view.source), len(view.target)
    assert [layer.shape for layer in view.cross] == [(2, targets, sources)] * 3
    assert [layer.shape for layer in view.encoder] == [(2, sources, sources)] * 2
    assert [layer.shape for layer in view.decoder] == [(2, targets, targets)] * 3
    for layer in (*view.cross, *view.encoder, *view.decoder):
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-5)
    assert (view.inputs[0].spoken, view.inputs[1:]) == ("start", view.target[:-1])
    assert view.beam is not None
    assert len(view.heads()) == 2 * (3 + 2 + 3)


def test_a_forced_target_has_the_probabilities_of_its_score(build: Build) -> None:
    translator = build()

    view = attention(translator, LINES[0], "你好 Hund ☃", beam_tree=False)

    (score,) = translator.score([LINES[0]], ["你好 Hund ☃"])
    found = [np.log(position.chosen.probability) for position in view.next_tokens]
    np.testing.assert_allclose(found, score.by_token, atol=1e-3)
    assert view.forced
    assert view.beam is None
    assert "byte" in {token.kind for token in view.target}  # ☃ is in no vocabulary here


def test_blank_texts_are_refused(build: Build) -> None:
    translator = build()

    with pytest.raises(TranslationError, match="sentence: expected text"):
        attention(translator, " ")
    with pytest.raises(TranslationError, match="target: expected text"):
        attention(translator, "a", " ")


def test_long_sentences_are_capped_with_a_note(build: Build) -> None:
    long = " ".join(LINES[0] for _ in range(20))

    view = attention(build(beam=1), long, long, beam_tree=False)

    assert len(view.source) == len(view.target) == attention_view.MAX_TOKENS
    assert view.cross[0].shape == (2, 60, 60)
    assert "Only the first 60 tokens" in view.notes[0]
    assert len(view.next_tokens) == 60


def test_neighbours_are_nearest_by_cosine(build: Build) -> None:
    translator = build()
    side = translator.tokenizer.source
    first = side.encode(["dog"])[0][0]
    second = first + 1 if first + 1 < side.size else first - 1
    layer = transformer.source_embedding(translator.model)
    matrix = layer.matrix.numpy()
    matrix[second] = 2 * matrix[first]
    layer.matrix.assign(matrix)

    found = neighbours(translator, ["dog"], k=2)

    nearest = found.nearest[0][0]
    assert nearest.cosine == pytest.approx(1)
    assert side.pieces([second])[0].replace("▁", "\u02cd") == nearest.token.label
    assert found.side == "source"
    assert len(neighbours(translator).tokens) > 3
    assert "<table>" in found._repr_html_()


def test_a_recurrent_model_shows_its_cross_attention(
    tokenizer: Tokenizer, talkative: Callable[[Any], Any]
) -> None:
    size = tokenizer.source.size
    config = ModelConfig(
        architecture="recurrent",
        source_vocabulary_size=size,
        target_vocabulary_size=size,
        encoder_layers=1,
        decoder_layers=1,
        d_model=16,
        embeddings="untied",
    )
    model = talkative(transformer.build(config))
    translator = Translator(model, tokenizer, SearchConfig(beam=2, max_extra=3), DataConfig())

    view = attention(translator, LINES[0])

    assert view.kinds == ["cross"]
    assert view.cross[0].shape == (1, len(view.target), len(view.source))
    assert "This model has no encoder self-attention and no decoder" in view.notes[-1]
    assert view.translation == translator.translate([LINES[0]])[0].text
