"""OpenNMT-tf in the conversion proof: ``python opennmt_tf.py SETTINGS``.

Makes a model folder: checkpoint, vocabularies, model_description.py, data.yml. Where
``ctranslate2`` is a folder, CTranslate2's converter writes the same model there. Variants:

- shared: norm before each sublayer; one matrix for both sides and the output; SentencePiece
- separate: norm after each sublayer; two vocabularies of words, own output matrix, GELU
- relative: relative positions, which no conversion can represent
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import answers
import corpus
import opennmt
import pieces
import sentencepiece
import tensorflow as tf

SPECIAL = ["<blank>", "<s>", "</s>"]
DESCRIPTION = '''"""Model of the conversion proof."""

{imports}


def model():
    return opennmt.models.Transformer(
        source_inputter=opennmt.inputters.WordEmbedder(embedding_size={width}),
        target_inputter=opennmt.inputters.WordEmbedder(embedding_size={width}),
        num_layers=({layers}),
        num_units={width},
        num_heads=4,
        ffn_inner_dim={inner},
        dropout=0.0,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        ffn_activation={activation},
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.{sharing},
        pre_norm={pre_norm},{more}
    )
'''


class Text:
    """Tokenization of one variant, outside the graph.

    Args:
        settings: Of the command.
        folder: Where vocabularies are written.
    """

    def __init__(self, settings: dict[str, Any], folder: Path) -> None:
        pairs = corpus.read_pairs(settings, "train")
        self._model: Any = None
        if settings["variant"] == "separate":
            lines = ([pieces.spaced(pair[index]) for pair in pairs] for index in (0, 1))
            rows = [
                [token for token, _ in pieces.by_frequency(line.split() for line in side)]
                for side in lines
            ]
            names = ["source.vocab", "target.vocab"]
        else:
            both = [pair[index] for index in (0, 1) for pair in pairs]
            proto = pieces.train_sentencepiece(both, 2 * settings["pieces"], settings["rule"])
            (folder / "joint.model").write_bytes(proto)
            self._model = sentencepiece.SentencePieceProcessor(model_proto=proto)
            size = self._model.get_piece_size()
            rows = [[self._model.id_to_piece(number) for number in range(3, size)]]
            names = ["joint.vocab"]
        for name, row in zip(names, rows, strict=True):
            pieces.write_lines(folder / name, [*SPECIAL, *row])
        self.vocabularies = {"source_vocabulary": names[0], "target_vocabulary": names[-1]}
        self._write_data(folder)

    def cut(self, line: str) -> list[str]:
        """Return the tokens of a line."""
        if self._model is None:
            return pieces.spaced(line).split()
        return self._model.encode(line, out_type=str)

    def join(self, tokens: list[str]) -> str:
        """Return the text of tokens."""
        return " ".join(tokens) if self._model is None else self._model.decode(tokens)

    def _write_data(self, folder: Path) -> None:
        lines = ["data:", *(f"  {key}: {name}" for key, name in self.vocabularies.items())]
        if self._model is not None:
            for side in ("source", "target"):
                lines += [f"  {side}_tokenization:", "    type: SentencePieceTokenizer"]
                lines += ["    params:", "      model: joint.model"]
        pieces.write_lines(folder / "data.yml", lines)


def build(settings: dict[str, Any], folder: Path, text: Text, beam: int) -> Any:
    """Write the description, and return a model that it describes."""
    variant, width = settings["variant"], settings["d_model"]
    description = DESCRIPTION.format(
        imports="import opennmt" + ("" if variant == "separate" else "\nimport tensorflow as tf"),
        width=width,
        inner=2 * width,
        layers="2, 1" if variant == "separate" else "2, 2",
        activation="opennmt.layers.gelu" if variant == "separate" else "tf.nn.relu",
        sharing="NONE" if variant == "separate" else "ALL",
        pre_norm=variant != "separate",
        more="\n        position_encoder_class=None,\n        maximum_relative_position=8,"
        if variant == "relative"
        else "",
    )
    (folder / "model_description.py").write_text(description, encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(description, "model_description.py", "exec"), names)
    model = names["model"]()
    model.initialize(
        {key: str(folder / name) for key, name in text.vocabularies.items()},
        params={
            "beam_width": beam,
            "num_hypotheses": beam,
            "length_penalty": 0,
            "maximum_decoding_length": settings["most"],
        },
    )
    return model


def batch(rows: list[list[str]]) -> dict[str, Any]:
    """Return tokens (B, T) and lengths (B,)."""
    longest = max(map(len, rows))
    padded = [[*row, *[""] * (longest - len(row))] for row in rows]
    return {"tokens": tf.constant(padded), "length": tf.constant([len(row) for row in rows])}


def train(settings: dict[str, Any], model: Any, text: Text) -> None:
    """Perturb the model and train it for some updates."""
    tf.random.set_seed(settings["seed"])
    model.create_variables()
    for variable in model.trainable_variables:
        if len(variable.shape) == 1:
            variable.assign_add(tf.random.normal(variable.shape, stddev=0.2))
    optimizer = tf.keras.optimizers.legacy.Adam(settings["rate"])
    pairs = [tuple(map(text.cut, pair)) for pair in corpus.read_pairs(settings, "train")]

    @tf.function(reduce_retracing=True)
    def step(source: dict[str, Any], target: dict[str, Any]) -> Any:
        with tf.GradientTape() as tape:
            labels, logits = forward(model, source, target)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels["ids_out"], logits)
            mask = tf.sequence_mask(labels["length"], dtype=tf.float32)
            loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    dice, loss = random.Random(1), 0.0
    for _ in range(settings["updates"]):
        chosen = dice.sample(pairs, min(24, len(pairs)))
        loss = step(batch([pair[0] for pair in chosen]), batch([pair[1] for pair in chosen]))
    print(f"{settings['variant']}: loss {float(loss):.3f}", file=sys.stderr)


def forward(model: Any, source: dict[str, Any], target: dict[str, Any]) -> tuple[Any, Any]:
    """Return labels and logits; the model has no dropout, so training changes no number."""
    features = model.features_inputter.make_features(features=dict(source), training=True)
    labels = model.labels_inputter.make_features(features=dict(target), training=True)
    outputs, _ = model(features, labels=labels, training=True)
    return labels, outputs["logits"]


def ask(
    settings: dict[str, Any], greedy: Any, model: Any, text: Text, sources: list[str]
) -> answers.Answers:
    """Return the numbers of the saved model, which is loaded once for each beam."""
    cut = [text.cut(line) for line in sources]
    found: answers.Answers = {"source_tokens": cut, "n_best": [], "greedy": []}
    for ((words, _, ended),) in search(settings, greedy, cut):
        found["greedy"].append(answers.greedy(words, text.join(words), ended))

    @tf.function(reduce_retracing=True)
    def score(source: dict[str, Any], target: dict[str, Any]) -> Any:
        labels, logits = forward(model, source, target)
        scores = tf.nn.log_softmax(logits, -1)
        return tf.gather(scores, labels["ids_out"], batch_dims=2)

    few = cut[: settings["n_best_sentences"]]
    for source, row in zip(few, search(settings, model, few), strict=True):
        kept = [one for one in row if one[0]]
        numbers = score(batch([source] * len(kept)), batch([words for words, _, _ in kept]))
        # OpenNMT-tf's search reports another log-probability for a hypothesis that changes its
        # place in the beam after its end: that of the hypothesis that was there before.
        own = [
            answers.hypothesis(words, scores[: len(words) + ended], 0.0, ended)
            for (words, _, ended), scores in zip(kept, numbers.numpy().tolist(), strict=True)
        ]
        for one in own:
            one["score"] = round(sum(one["log_probs"]), answers.DIGITS)
        found["n_best"].append(sorted(own, key=lambda one: -one["score"]))
    return {
        "peer": "OpenNMT-tf",
        "words": settings["variant"] == "separate",
        "variant": settings["variant"],
        "versions": answers.versions(["OpenNMT-tf", "tensorflow"]),
        "search": {
            "beam": settings["beam"],
            "alpha": 0.0,
            "length_penalty": "gnmt",
            "most": settings["most"],
        },
        "sources": sources,
        **found,
    }


def search(settings: dict[str, Any], model: Any, rows: list[list[str]]) -> list[list[Any]]:
    """Return for each source (tokens, log-probability, whether it ended) of each hypothesis."""

    @tf.function(reduce_retracing=True)
    def decode(source: dict[str, Any]) -> Any:
        features = model.features_inputter.make_features(features=dict(source), training=False)
        return model(features)[1]

    found = []
    for start in range(0, len(rows), 32):
        reply = {
            key: value.numpy() for key, value in decode(batch(rows[start : start + 32])).items()
        }
        for tokens, lengths, totals in zip(
            reply["tokens"], reply["length"], reply["log_probs"], strict=True
        ):
            own = []
            for words, length, total in zip(
                tokens.tolist(), lengths.tolist(), totals.tolist(), strict=True
            ):
                kept = [word.decode() for word in words[:length]]
                own.append((kept, total, length < settings["most"]))
            found.append(own)
    return found


def restored(settings: dict[str, Any], folder: Path, text: Text, beam: int) -> Any:
    """Return the saved model."""
    model = build(settings, folder, text, beam)
    opennmt.utils.checkpoint.Checkpoint(model, model_dir=str(folder)).restore()
    model.create_variables()
    return model


def main() -> None:
    """Make, train, save, and ask."""
    settings = json.loads(sys.argv[1])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    folder = Path(settings["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    text = Text(settings, folder)
    model = build(settings, folder, text, 1)
    train(settings, model, text)
    checkpoint = opennmt.utils.checkpoint.Checkpoint(model, model_dir=str(folder))
    checkpoint.save(step=settings["updates"])
    greedy, beam = (restored(settings, folder, text, size) for size in (1, settings["beam"]))
    corpus.write_words(settings, lambda _, line: pieces.spaced(line).split())
    sources = [pair[0] for pair in corpus.read_pairs(settings, "test")][: settings["sentences"]]
    if settings["variant"] == "separate":
        sources = [pieces.spaced(line) for line in sources]
    answers.write(Path(settings["answers"]), ask(settings, greedy, beam, text, sources))
    if settings.get("ctranslate2"):
        import ctranslate2

        converter = ctranslate2.converters.OpenNMTTFConverter(beam)
        converter.convert(settings["ctranslate2"], force=True)


if __name__ == "__main__":
    main()
