"""Where the graphs would run on a GPU, and what the host would wait for, seen without one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import tensorflow as tf

from keras_transformer.config import ModelConfig, SearchConfig
from keras_transformer.inference.inference_functions import InferenceFunctions
from keras_transformer.model import transformer
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

# Copies at the beginning of a step: three arrays of ids, and the number of the step.
STEP = {("Arg", "", 0): 3, ("ReadVariableOp", "training/step.py", 0): 1}


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
