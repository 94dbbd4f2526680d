"""Where the graphs would run on a GPU, and what the host would wait for, seen without one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig, SearchConfig
from keras_transformer.inference.inference_functions import InferenceFunctions
from keras_transformer.model import transformer
from keras_transformer.run import Run
from keras_transformer.serving.saved_model.module import ServedTranslator
from keras_transformer.serving.saved_model.weights import Weights
from keras_transformer.training.optimizer import ReducedAdam
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.training.step import StepOptions, TranslationModel
from tests.support.placement import Key, Placement

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not tf.sysconfig.get_build_info().get("is_cuda_build"), reason="a TensorFlow without GPUs"
    ),
]
IDS = tf.TensorSpec((None, None), tf.int32)

# Copies at the beginning of a training step: three arrays of ids, and the number of the step.
STEP = {("Arg", "", 0): 3, ("ReadVariableOp", "training/step.py", 0): 1}
# In each position of a search: whether the loop goes on.
GOES_ON = {("LogicalAnd", "inference/search/decoding_loop.py", 2): 1}
SEED = ("Cast", "model/kernels/dropout.py", 0)
"""The seed of a dropout, 8 bytes."""


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let graphs be built as on a machine with a GPU."""
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: [f"/{kind}:0"])


def config(**changes: Any) -> ModelConfig:
    sizes = {f"{side}_vocabulary_size": 40_000 for side in ("source", "target")}
    small = {"d_model": 16, "heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    return ModelConfig(**(sizes | small | changes))


def step(
    dtype: str = "float32", recompute: bool = False, options: Any = None, **changes: Any
) -> Placement:
    model = transformer.build(config(**changes), dtype, TranslationModel, recompute)
    optimizer = ReducedAdam(NoamSchedule(16, 400, 1.0), 0.9, 0.98, 1e-9)
    model.configure(optimizer, StepOptions(0.1, 1, **(options or {})))
    specs = [{"source": IDS, "target": IDS}, IDS]
    function = tf.function(lambda *data: model.train_step(data), input_signature=specs)
    return Placement(function.get_concrete_function(), prefetched=True)


def search(dtype: str = "float32", **options: Any) -> Placement:
    functions = InferenceFunctions(
        transformer.build(config(), dtype), SearchConfig(**options), True
    )
    return Placement(functions.generate.get_concrete_function())


def in_a_step(placed: Placement) -> Counter[Key]:
    """Return what the host waits for in each position of a search, two loops deep."""
    return Counter({key: count for key, count in placed.back_to_host().items() if key[2] >= 2})


@pytest.mark.parametrize(
    ("options", "waiting"),
    [
        ({}, {SEED: 10}),
        (
            {"dtype": "mixed_bfloat16", "recompute": True},
            # A dropout inside a layer runs twice; the layer's seed belongs to its inputs.
            {SEED: 18, ("Cast", "model/kernels/gradient_checkpointing.py", 0): 2},
        ),
        (
            {"options": {"micro_batches": 2}, "attention": "blockwise"},
            {
                (*SEED[:2], 1): 10,
                # The lengths to which the three arrays of a micro-batch are trimmed.
                ("Cast", "training/step.py", 1): 3,
                # The seed of each block, forward and backward, in three attention layers.
                ("StatelessRandomUniformFullIntV2", "model/kernels/dropout.py", 3): 6,
            },
        ),
        ({"dtype": "mixed_float16", "options": {"loss_unit": 2.0**-12}}, {SEED: 10}),
    ],
    ids=["float32", "checkpointing", "micro-batches-blockwise", "float16"],
)
def test_a_training_step(options: dict[str, Any], waiting: dict[Key, int]) -> None:
    placed = step(**options)
    assert not placed.without_kernel()
    assert placed.back_to_host() == Counter(STEP | waiting)


def test_the_powers_of_adam_are_computed_once() -> None:
    """Kernels grow with the layers only by those of the layers and of their updates."""
    one, two = (step(encoder_layers=layers) for layers in (1, 2))
    powers = [sum(node.op == "Pow" for node in placed.nodes) for placed in (one, two)]
    # Two of Adam, one of the schedule, and one of the sinusoids on each side.
    assert powers == [5, 5]
    assert one.launches(0) <= 640


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("options", "waiting"),
    [
        ({"beam": 4}, {}),
        ({"beam": 1}, {}),
        ({"sample": True, "top_p": 0.9}, {}),
        (
            {"beam": 4, "no_repeat_ngram": 3, "min_length": 2},
            {
                # The number of banned tokens, and each comparison of n-grams.
                ("Cast", "inference/search/candidates.py", 2): 1,
                ("LogicalAnd", "inference/search/constraints.py", 3): 1,
            },
        ),
    ],
    ids=["beam", "greedy", "sampling", "constraints"],
)
def test_a_search(options: dict[str, Any], dtype: str, waiting: dict[Key, int]) -> None:
    placed = search(dtype, **options)
    assert not placed.without_kernel()
    assert in_a_step(placed) == Counter(GOES_ON | waiting)


def test_other_inference_functions() -> None:
    functions = InferenceFunctions(transformer.build(config()), SearchConfig(beam=4), True)
    prefix = Placement(functions.generate_after.get_concrete_function())
    assert not prefix.without_kernel()
    assert in_a_step(prefix) == Counter(GOES_ON)
    for function in (functions.force, functions.attention):
        placed = Placement(function.get_concrete_function())
        assert not placed.without_kernel()
        assert placed.back_to_host().total() <= 1


def test_an_export_leaves_only_texts_to_the_cpu() -> None:
    run = Run.open("builtin:phrasebook")
    model = run.model()
    served = ServedTranslator(model, Weights(model), run.tokenizer(), SearchConfig(beam=4), 64)
    placed = Placement(served.translate.get_concrete_function())
    assert {file.split("/")[0] for _, file, _ in placed.without_kernel()} == {"serving"}
    found = [key for key in placed.back_to_host() if key[1].startswith("inference/search/beam")]
    assert all(depth < 3 for _, _, depth in found)  # not in a position: chunks are a loop too
