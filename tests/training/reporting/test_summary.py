from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from keras_transformer.config import Config, ModelConfig, TrainConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.training.distribution import Distribution
from keras_transformer.training.reporting.summary import (
    activation_bytes,
    parameters_by_part,
    summary,
)

SMALL = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 4, "heads": 2, "d_ff": 8}


@pytest.mark.parametrize(
    ("embeddings", "positions", "expected"),
    [
        ("tied", "sinusoidal", 10 * 4),
        ("untied", "sinusoidal", 3 * 10 * 4),
        ("tied", "learned", 10 * 4 + 2 * 1024 * 4),
    ],
)
def test_parameters_by_part_add_up_to_all(embeddings: str, positions: str, expected: int) -> None:
    config = ModelConfig(10, 10, **SMALL, embeddings=embeddings, positions=positions)
    model = transformer.build(config)
    parts = parameters_by_part(model)
    assert parts["embeddings"] == expected
    assert sum(parts.values()) == model.count_params()
    # Attention 4 * 4 * 4; feed-forward 4 * 8 + 8 + 8 * 4 + 4; a gain and a bias per sub-layer.
    assert parts["encoder"] == 64 + 76 + 2 * 8
    assert parts["decoder"] == 2 * 64 + 76 + 3 * 8


def test_activations_of_one_pair_by_hand() -> None:
    """S = 2, T = 3. Attention keeps 2 * 2 * (2 + 2) + 4 * 4 = 32 numbers per position, the
    feed-forward network 8 + 4 * 4 = 24, and weights 3 * 2 heads * 4 bytes per pair of positions."""
    model = ModelConfig(10, 10, **SMALL)
    config = Config(model=model)
    sizes = np.array([[1, 1, 1], [1, 2, 3]])
    encoder = 4 * 2 * (32 + 24) + 24 * 2 * 2
    decoder = 4 * 3 * (2 * 32 + 24) + 24 * 3 * (3 + 2)
    embedded, logits = 4 * 2 * 4 * (2 + 3), 4 * 2 * 3 * 10
    assert activation_bytes(config, sizes) == encoder + decoder + embedded + logits


def test_activations_of_other_options_by_hand() -> None:
    """As above, with 4 heads of width 1 in the decoder, d_ff 16 there, and SiLU."""
    model = ModelConfig(10, 10, **SMALL, decoder_heads=4, decoder_d_ff=16, activation="silu")
    encoder = 4 * 2 * (32 + 3 * 8 + 16) + 24 * 2 * 2
    decoder = 4 * 3 * (2 * 32 + 3 * 16 + 16) + 48 * 3 * (3 + 2)
    embedded, logits = 4 * 2 * 4 * (2 + 3), 4 * 2 * 3 * 10
    found = activation_bytes(Config(model=model), np.array([[1, 2, 3]]))
    assert found == encoder + decoder + embedded + logits


def changed(config: Config, **values: object) -> Config:
    """Return the configuration with other fields of the model or the training."""
    model = {name: value for name, value in values.items() if name == "attention"}
    return dataclasses.replace(
        config,
        model=dataclasses.replace(config.model, **model),
        train=dataclasses.replace(
            config.train, **{name: values[name] for name in values.keys() - model.keys()}
        ),
    )


def test_options_that_save_memory_reduce_the_estimate() -> None:
    model = ModelConfig(100, 100, encoder_layers=3, decoder_layers=3, d_model=64, heads=4, d_ff=128)
    config = Config(model=model, train=TrainConfig())
    sizes = np.array([[8, 100, 100]])
    whole = activation_bytes(config, sizes)
    half = activation_bytes(config, sizes, shards=2)
    assert whole / 2 <= half < 0.6 * whole
    for values in (
        {"precision": "bfloat16"},
        {"gradient_checkpointing": True},
        {"attention": "blockwise"},
    ):
        assert activation_bytes(changed(config, **values), sizes) < 0.85 * whole


def test_lines_of_the_summary(trained: Run) -> None:
    config = changed(trained.config, max_minutes=90.0, ema_decay=0.9)
    lengths = np.array([2, 2, 4, 4])
    plan = BatchPlan(lengths, lengths + 1, 5, seed=1)
    assert plan.batches_per_epoch == 4
    lines = summary(trained.model(), config, plan, Distribution("cpu"), micro_batches=3)
    parameters, memory, batches, work = lines
    count = trained.model().count_params()
    assert parameters.startswith(f"{count:,} parameters: embeddings ")
    assert "Adam's moments" in memory
    assert "EMA" in memory
    assert batches == (
        "4 pairs in 4 batches per epoch, 3 + 4 tokens per batch (source + target), 0.0% padding"
    )
    assert work == (
        "6 updates, 1.5 epochs, 1:30:00 at most; 1 CPU, 3 micro-batches per device, float32"
    )


def test_the_summary_is_logged_before_the_first_step(trained: Run) -> None:
    log = (trained.path / "log.txt").read_text(encoding="utf-8")
    assert (
        log.index("parameters: embeddings") < log.index("tokens per batch") < log.index("step 1/6")
    )
    assert "300 pairs in" in log
