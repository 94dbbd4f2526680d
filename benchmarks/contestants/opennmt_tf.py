"""OpenNMT-tf as a contestant: ``python opennmt_tf.py SETTINGS``; see ``protocol.py``.

Runs in an environment of its own. ``prepare`` gives an OpenNMT-tf Transformer the common
weights and exports it as OpenNMT-tf does for serving; the other tasks run that SavedModel in a
session, as TensorFlow Serving would.

Its ids differ: ``order`` says which of ours each of theirs is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import protocol

REPLIES = protocol.quiet()  # before the libraries say anything

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

PAD, UNKNOWN, START, END = 0, 1, 2, 3  # as in this package


def order(vocabulary: int) -> list[int]:
    """Return our id for each id of OpenNMT-tf, whose last id is the unknown word."""
    return [PAD, START, END, *range(END + 1, vocabulary), UNKNOWN]


def prepare(settings: dict[str, Any]) -> None:
    """Write the SavedModel."""
    import opennmt

    class Positions(opennmt.layers.PositionEncoder):
        """Sinusoidal positions as in the paper: from 0, sine and cosine interleaved."""

        def _encode(self, positions: Any, depth: int) -> tf.Tensor:
            rates = 10000.0 ** (-tf.range(0, depth, 2, dtype=tf.float32) / depth)
            angles = (tf.cast(positions, tf.float32) - 1.0)[..., None] * rates
            pairs = tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)
            return tf.reshape(pairs, tf.concat([tf.shape(angles)[:-1], [depth]], 0))

    ours, folder = settings["model"], Path(settings["folder"])
    inputters = [opennmt.inputters.WordEmbedder(embedding_size=ours["d_model"]) for _ in range(2)]
    model = opennmt.models.Transformer(
        *inputters,
        num_layers=(ours["encoder_layers"], ours["decoder_layers"]),
        num_units=ours["d_model"],
        num_heads=ours["heads"],
        ffn_inner_dim=ours["d_ff"],
        mha_bias=False,
        position_encoder_class=Positions,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        pre_norm=ours["norm"] == "pre",
        output_layer_bias=False,
    )
    words = folder / "opennmt-tf.vocabulary"
    special = ["<blank>", "<s>", "</s>"]
    ordinary = [str(ours_id) for ours_id in order(ours["source_vocabulary_size"])[3:-1]]
    words.write_text("\n".join([*special, *ordinary]) + "\n", encoding="utf-8")
    exact = settings["length"]
    model.initialize(
        {"source_vocabulary_size": str(words), "target_vocabulary_size": str(words)},
        {
            "beam_width": settings["beam"],
            "length_penalty": settings["alpha"],
            "num_hypotheses": 1,
            "minimum_decoding_length": exact or 0,
            "maximum_decoding_length": exact or settings["longest"],
        },
    )
    for part in model.submodules:
        if isinstance(part, tf.keras.layers.LayerNormalization):
            # Ours is 1e-6; below this one, Keras 2 leaves its faster implementation.
            part.epsilon = 1.001e-5
    model.create_variables()
    with np.load(folder / "weights.npz") as file:
        for index, (variable, name) in enumerate(zip(variables(model), file.files, strict=True)):
            value = file[name]
            variable.assign(value if index else value[order(len(value))])
    model.export(str(folder / "opennmt-tf"))


def variables(model: Any) -> Iterator[tf.Variable]:
    """Return the weights in the order of our model."""
    yield model.features_inputter.embedding
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers:
            attentions = [layer.self_attention, *getattr(layer, "attention", [])]
            for attention in attentions:
                parts = attention.layer
                yield parts.linear_queries.kernel
                yield parts.linear_keys.kernel
                yield parts.linear_values.kernel
                yield parts.linear_output.kernel
            for dense in (layer.ffn.layer.inner, layer.ffn.layer.outer):
                yield dense.kernel
                yield dense.bias
            for wrapper in (*attentions, layer.ffn):
                norm = wrapper.input_layer_norm or wrapper.output_layer_norm
                yield norm.gamma
                yield norm.beta
        if stack.layer_norm is not None:
            yield stack.layer_norm.gamma
            yield stack.layer_norm.beta


class Model:
    """SavedModel of OpenNMT-tf: lists of our ids in and out."""

    def __init__(self, folder: Path) -> None:
        v1 = tf.compat.v1
        self._session = v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            loaded = v1.saved_model.load(self._session, ["serve"], str(folder))
        signature = loaded.signature_def["serving_default"]
        self._inputs = [signature.inputs[name].name for name in ("tokens", "length")]
        # Without "alignment", which would cost time.
        self._outputs = [signature.outputs[name].name for name in ("tokens", "length")]

    def translate(self, batch: list[list[int]]) -> list[list[int]]:
        """Translate ids that end with END into ids without it."""
        longest = max(map(len, batch))
        words = [["</s>" if one == END else str(one) for one in ids] for ids in batch]
        padded = [ids + [""] * (longest - len(ids)) for ids in words]
        feed = dict(zip(self._inputs, (padded, [len(ids) for ids in batch]), strict=True))
        tokens, lengths = self._session.run(self._outputs, feed)
        found = zip(tokens[:, 0].tolist(), lengths[:, 0].tolist(), strict=True)
        return [[number(word) for word in row[:length]] for row, length in found]


def number(word: bytes) -> int:
    """Return our id of a word."""
    return int(word) if word.isdigit() else UNKNOWN


def text(settings: dict[str, Any]) -> Any:
    """Return a function that translates lines."""
    import sentencepiece

    model = Model(Path(settings["folder"]) / "opennmt-tf")
    pieces = sentencepiece.SentencePieceProcessor(model_file=settings["pieces"])

    def answer(request: dict[str, Any]) -> list[str]:
        sources = [[*ids, END] for ids in pieces.encode(request["lines"])]
        outputs: list[list[int]] = [[]] * len(sources)
        # One batch after the other: two at once ended the process ("corrupted list").
        for group in protocol.grouped(list(map(len, sources)), request["batch_tokens"]):
            found = model.translate([sources[place] for place in group])
            for place, ids in zip(group, found, strict=True):
                outputs[place] = ids
        return pieces.decode(outputs)

    return answer


def exact(settings: dict[str, Any]) -> Any:
    """Return a function that translates ids into outputs of one length."""
    model = Model(Path(settings["folder"]) / "opennmt-tf")
    return lambda request: [ids for batch in request["batches"] for ids in model.translate(batch)]


def main() -> None:
    """Prepare, or answer requests."""
    settings = json.loads(sys.argv[1])
    if settings["task"] == "prepare":
        prepare(settings)
    else:
        protocol.serve(
            {"text": text, "exact": exact}[settings["task"]](settings),
            REPLIES,
            ["OpenNMT-tf", "tensorflow"],
        )


if __name__ == "__main__":
    main()
