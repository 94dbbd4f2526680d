"""OpenNMT-tf in training: ``python train_opennmt_tf.py SETTINGS``; see ``protocol.Rounds``.

Runs in an environment of its own. Its ``Runner`` trains as its command line would: own
batches, own trainer, own step. The text is our pieces, one word for each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import protocol

REPLIES = protocol.quiet()  # before the libraries say anything

import opennmt  # noqa: E402
import tensorflow as tf  # noqa: E402

ROUNDS = protocol.Rounds(REPLIES, ["OpenNMT-tf", "tensorflow"])


class _Counting:
    """Dataset that records the size of its last batch."""

    def __init__(self, batches: tf.data.Dataset) -> None:
        self._batches = batches
        self.element_spec = batches.element_spec
        self.last = (0, 0)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            lengths = [side["length"].numpy() for side in batch]
            self.last = (
                sum(int(one.sum()) for one in lengths),
                sum(len(one) * int(one.max()) for one in lengths),
            )
            yield batch


class _PausingTrainer(opennmt.training.Trainer):
    """OpenNMT-tf's trainer, counting steps."""

    def _finalize_dataset(self, dataset: Any) -> _Counting:
        self._counting = _Counting(super()._finalize_dataset(dataset))
        return self._counting

    def _steps(self, *arguments: Any, **options: Any) -> Iterator[Any]:
        for loss in super()._steps(*arguments, **options):
            yield loss  # the trainer does what it does after a step
            ROUNDS.count(*self._counting.last)


def _model(ours: dict[str, Any]) -> Any:
    inputters = [opennmt.inputters.WordEmbedder(embedding_size=ours["d_model"]) for _ in range(2)]
    return opennmt.models.Transformer(
        *inputters,
        num_layers=(ours["encoder_layers"], ours["decoder_layers"]),
        num_units=ours["d_model"],
        num_heads=ours["heads"],
        ffn_inner_dim=ours["d_ff"],
        dropout=ours["dropout"],
        attention_dropout=ours["attention_dropout"],
        ffn_dropout=ours["feed_forward_dropout"],
        mha_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        pre_norm=ours["norm"] == "pre",
        output_layer_bias=False,
    )


def main() -> None:
    """Train until the last request."""
    settings = json.loads(sys.argv[1])
    text, config = Path(settings["text"]), settings["config"]
    train, model = config["train"], config["model"]
    words = str(text / "vocabulary")
    opennmt.training.Trainer = _PausingTrainer
    runner = opennmt.Runner(
        lambda: _model(model),
        {
            "model_dir": str(Path(settings["folder"]) / "opennmt-tf"),
            "data": {
                "train_features_file": str(text / "source"),
                "train_labels_file": str(text / "target"),
                "source_vocabulary_size": words,
                "target_vocabulary_size": words,
                # An end after the source too, as ours has.
                "source_sequence_controls": {"start": False, "end": True},
            },
            "params": {
                "optimizer": "Adam",
                "optimizer_params": {
                    "beta_1": train["adam_beta_1"],
                    "beta_2": train["adam_beta_2"],
                    "epsilon": train["adam_epsilon"],
                },
                "learning_rate": train["learning_rate_factor"],
                "decay_type": "NoamDecay",
                "decay_params": {
                    "model_dim": model["d_model"],
                    "warmup_steps": train["warmup_steps"],
                },
                "label_smoothing": train["label_smoothing"],
            },
            "train": {
                "batch_size": train["batch_tokens"],
                "batch_type": "tokens",
                "save_checkpoints_steps": 1_000_000,
                "max_step": 1_000_000,
            },
        },
    )
    runner.train()


if __name__ == "__main__":
    main()
