"""Results with figures chosen by hand, in place of trained runs."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from keras_transformer.config import Config, from_dict
from keras_transformer.lab.baseline import BASELINE_CONFIG
from keras_transformer.lab.experiment import Experiment
from keras_transformer.lab.jobs import Corpus, Job, make_jobs
from keras_transformer.lab.results import Result, Results

CORPUS = Corpus("multi30k/train", "0123456789")
LAYERS = ("embedding", "encoder_0", "encoder_1", "encoder_2", "decoder_0", "decoder_1", "decoder_2")


def baseline() -> Config:
    return from_dict(BASELINE_CONFIG)


def result(
    bleu: float | None = 20.0,
    outcome: str = "learned",
    losses: Sequence[float | None] = (6.0, 4.0, 3.0, 2.0),
    diverged_at: int | None = None,
    **values: Any,
) -> Result:
    """Return the values of a run, as `Results.add` takes them, with 1,000 tokens in each step."""
    curve = [
        {"step": 10 * place, "target_tokens": 10_000 * place, "nll": nll, "bleu": bleu or 0.0}
        for place, nll in enumerate(losses, start=1)
    ]
    final = {
        "bleu": bleu,
        "chrf": 2 * (bleu or 0.0),
        "nll_per_token": losses[-1] if losses else None,
        "nll_per_character": (losses[-1] or 0.0) / 4 if losses else None,
        "characters_per_token": 4.0,
        "length_ratio": 1.0,
        "by_length": [
            {"longest": longest, "sentences": 20, "bleu": bleu, "length_ratio": 1.0}
            for longest in (10, 15, 20)
        ],
    }
    return {
        "outcome": outcome,
        "diverged_at": diverged_at,
        "steps": 10 * len(losses),
        "target_tokens": 10_000 * len(losses),
        "tokens_per_core_second": 5_000.0,
        "parameters": 1_500_000,
        "first_loss": 8.5,
        "ln_vocabulary": 8.294,
        "pairs": 10_000,
        "versions": {"tensorflow": "2.21.0"},
        "processor": "x86_64",
        "cores": 2,
        "curve": curve,
        "measurements": [measured(point["step"], 1.0) for point in [{"step": 0}, *curve]],
        "final": None if bleu is None else final,
        **values,
    }


def measured(step: int, norm: float) -> dict[str, Any]:
    """Return the measurements of one checkpoint."""
    fall = math.exp(-step / 40)
    return {
        "step": step,
        "target_tokens": 1_000 * step,
        "gradient_norm": {name: norm * fall / (1 + n) for n, name in enumerate(LAYERS)},
        "activation_norm": {name: norm * (1 + n) for n, name in enumerate(LAYERS)},
        "relative_attention_entropy": {
            part: [0.9 * fall + 0.05] * 3 for part in ("encoder", "decoder", "cross")
        },
        "rank_distance": [0.9, 0.7, 0.5, 0.4],
        "reliability": {
            "confidence": [None, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95],
            "accuracy": [None, 0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.8, 0.9, 0.97],
        },
        "calibration_error": 0.04,
    }


def fill(results: Results, experiments: Sequence[Experiment], seeds: int) -> list[Job]:
    """Add plausible results of all variants: some are worse, some diverge."""
    made = make_jobs(experiments, baseline(), seeds, CORPUS)
    for job in made:
        rng = random.Random(job.variant_key)
        quality = rng.uniform(-6, 0.5) if job.overrides else 0.0
        noise = random.Random(job.key).gauss(0, 0.4)
        bleu = max(22 + quality + noise, 0.1)
        count = 10
        losses = [
            1.8 - quality / 10 + 6.4 * math.exp(-place / 2.2) + noise / 20
            for place in range(1, count + 1)
        ]
        if quality < -5.2:
            values = result(None, "diverged", losses[:3], 37)
        else:
            values = result(bleu, "learned", losses)
        if job.searches_only:
            values = {name: each for name, each in values.items() if not isinstance(each, list)}
        for place, point in enumerate(values.get("curve", [])):
            point["bleu"] = bleu * (1 - math.exp(-place / 3))
        results.add(job, values)
    return made
