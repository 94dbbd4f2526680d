"""Attention weights of a sentence pair, with next tokens and hypothesis tree.

Shapes: H heads, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import tensorflow as tf

from keras_transformer.inference.translator import Translator
from keras_transformer.model.attention_weights import attention_weights
from keras_transformer.special_tokens import END, START
from keras_transformer.visualize import html_page
from keras_transformer.visualize.attention_kinds import ATTENTION_KINDS
from keras_transformer.visualize.attention_rollout import rollout
from keras_transformer.visualize.beam import BeamTree, search_tree
from keras_transformer.visualize.drawing import drawing_module
from keras_transformer.visualize.heads import AttentionKind, HeadStatistics, head_statistics
from keras_transformer.visualize.next_tokens import NextTokens, read_next_tokens
from keras_transformer.visualize.page_data import page_data
from keras_transformer.visualize.renormalization import without_special_keys
from keras_transformer.visualize.sentence import encode_source, encode_target
from keras_transformer.visualize.tokens import Token, read_tokens

if TYPE_CHECKING:
    from keras_transformer.visualize.heatmaps import Picture

MAX_TOKENS = 60
"""Most tokens of each side that are shown."""

Head = int | Literal["mean"]


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Attention weights of a sentence and its translation, next tokens and hypothesis tree.

    A notebook shows it as the interactive page.
    """

    sentence: str
    translation: str
    forced: bool
    """Whether the translation was given; otherwise it is the result of the beam search."""
    source: tuple[Token, ...]
    """S tokens, the end token last unless ``data.source_end`` is false."""
    inputs: tuple[Token, ...]
    """T input tokens of the decoder, the start token first."""
    target: tuple[Token, ...]
    """T labels: the tokens that follow the inputs, the end token last."""
    encoder: list[np.ndarray]
    """(H, S, S) float32 for each layer, first to last; none in a recurrent model."""
    decoder: list[np.ndarray]
    """(H, T, T) float32 for each layer; none in a recurrent model."""
    cross: list[np.ndarray]
    """(H, T, S) float32 for each layer."""
    next_tokens: list[NextTokens]
    """The distribution at each of the T positions."""
    beam: BeamTree | None
    """Hypothesis tree of the search; None if it was not requested."""
    notes: tuple[str, ...]
    """Sentences about what is not shown."""

    @property
    def kinds(self) -> list[AttentionKind]:
        """Kinds of attention that the model has, cross-attention first."""
        return [kind for kind in ATTENTION_KINDS if getattr(self, kind)]

    def layers(self, kind: AttentionKind) -> list[np.ndarray]:
        """Return the weights of a kind of attention, (H, queries, keys) for each layer."""
        found: list[np.ndarray] = getattr(self, kind)
        return found

    def rows(self, kind: AttentionKind) -> tuple[Token, ...]:
        """Return the tokens of the queries; in cross-attention those that the queries predict."""
        return {"cross": self.target, "encoder": self.source, "decoder": self.inputs}[kind]

    def columns(self, kind: AttentionKind) -> tuple[Token, ...]:
        """Return the tokens of the keys."""
        return self.inputs if kind == "decoder" else self.source

    def weights(
        self, kind: AttentionKind, layer: int, head: Head = "mean", special_tokens: bool = True
    ) -> tuple[np.ndarray, tuple[Token, ...]]:
        """Return the weights of one head (queries, keys), and the tokens of the keys.

        Args:
            kind: "cross", "encoder" or "decoder".
            layer: From 0.
            head: From 0, or "mean" for the mean of all heads.
            special_tokens: Whether the start and end tokens are among the keys. Without them the
                weights of each row are divided by their sum.
        """
        heads = self.layers(kind)[layer]
        values = heads.mean(0) if head == "mean" else heads[head]
        if special_tokens:
            return values, self.columns(kind)
        return without_special_keys(values, self.columns(kind))

    def heads(self) -> list[HeadStatistics]:
        """Return entropy, mean distance and role of each head, over all tokens."""
        return [
            head_statistics(values, kind, self.columns(kind), self.rows(kind), layer, head)
            for kind in self.kinds
            for layer, heads in enumerate(self.layers(kind))
            for head, values in enumerate(heads)
        ]

    def rollout(self, kind: AttentionKind) -> np.ndarray:
        """Return the attention rollout of "encoder" (S, S) or "decoder" (T, T), a heuristic."""
        return rollout(self.layers(kind))

    def figure(
        self,
        kind: AttentionKind = "cross",
        layer: int | None = None,
        head: Head | None = None,
        special_tokens: bool = True,
    ) -> Picture:
        """Draw heat maps of one kind of attention on the scale 0 to 1, a row for each layer.

        Args:
            kind: "cross", "encoder" or "decoder".
            layer: From 0; None: all layers.
            head: From 0; "mean": the mean of all heads; None: all heads.
            special_tokens: As in `weights`.

        Raises:
            MissingError: Matplotlib is not installed.
        """
        picture: Picture = drawing_module("figures").attention_figure(
            self, kind, layer, head, special_tokens
        )
        return picture

    def heads_figure(self) -> Picture:
        """Draw entropy and role of each head as tables."""
        picture: Picture = drawing_module("figures").heads_figure(self.heads())
        return picture

    def rollout_figure(self) -> Picture:
        """Draw the attention rollout of encoder and decoder."""
        picture: Picture = drawing_module("figures").rollout_figure(self)
        return picture

    def next_tokens_figure(self) -> Picture:
        """Draw the most probable tokens at each position."""
        picture: Picture = drawing_module("figures").next_tokens_figure(self.next_tokens)
        return picture

    def page(self) -> str:
        """Return the interactive page, one self-contained HTML file."""
        return html_page.page("Attention", [page_data(self)])

    def save(self, folder: Path, extension: str = "png") -> list[Path]:
        """Write the page and the pictures; see `files.save_view`."""
        from keras_transformer.visualize.files import save_view

        return save_view(self, folder, extension)

    def _repr_html_(self) -> str:
        return html_page.inline(self.page())


def attention(
    translator: Translator,
    sentence: str,
    target: str | None = None,
    *,
    top_k: int = 5,
    beam_tree: bool = True,
) -> AttentionView:
    """Return the attention of a sentence and its translation.

    Args:
        translator: The trained model.
        sentence: The source.
        target: A given translation (forced decoding); None: the best hypothesis of the search.
        top_k: Number of candidates for the next token at each position.
        beam_tree: Whether to search and keep the hypothesis tree even if a target is given.

    Raises:
        TranslationError: A text is blank or too long.
    """
    source = encode_source(translator, sentence)
    given = None if target is None else [*encode_target(translator, target), END]
    tree = None
    if given is None or beam_tree:
        tree = search_tree(translator, source, translator.search)
    labels = list(tree.tokens) if given is None and tree is not None else given or []
    return _view(translator, sentence, source, labels, target is not None, top_k, tree)


def _view(
    translator: Translator,
    sentence: str,
    source: Sequence[int],
    labels: Sequence[int],
    forced: bool,
    top_k: int,
    tree: BeamTree | None,
) -> AttentionView:
    inputs = [START, *labels[:-1]]
    ids = {"source": tf.constant([list(source)]), "target": tf.constant([inputs])}
    weights = attention_weights(translator.model, ids["source"], ids["target"])
    logits = translator.model(ids, training=False)[0].numpy()  # (T, V)
    sides = translator.tokenizer
    notes = _notes(len(source), len(labels), labels[-1:] == [END])
    view = AttentionView(
        sentence,
        sides.target.decode([list(labels)])[0],
        forced,
        read_tokens(sides.source, source[:MAX_TOKENS]),
        read_tokens(sides.target, inputs[:MAX_TOKENS]),
        read_tokens(sides.target, labels[:MAX_TOKENS]),
        _first_sentence(weights.encoder),
        _first_sentence(weights.decoder),
        _first_sentence(weights.cross),
        read_next_tokens(logits, labels, sides.target, top_k)[:MAX_TOKENS],
        tree,
        notes,
    )
    absent = [
        names.title.lower() for kind, names in ATTENTION_KINDS.items() if kind not in view.kinds
    ]
    if not absent:
        return view
    note = f"This model has no {' and no '.join(absent)}: it is left out."
    return dataclasses.replace(view, notes=(*notes, note))


def _first_sentence(layers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the weights of a batch of one sentence, at most MAX_TOKENS tokens of each side."""
    return [layer[0, :, :MAX_TOKENS, :MAX_TOKENS] for layer in layers]


def _notes(source: int, target: int, finished: bool) -> tuple[str, ...]:
    notes = []
    if max(source, target) > MAX_TOKENS:
        notes.append(
            f"Only the first {MAX_TOKENS} tokens of each side are shown; there are {source} and "
            f"{target}. Rows may sum to less than 1."
        )
    if not finished:
        notes.append("The translation stopped at the length limit, without an end token.")
    return tuple(notes)
