"""Tests of `keras_transformer.lab.run_statistics`."""

from __future__ import annotations

from keras_transformer.lab.run_statistics import tokens_per_core_second


def _record(tokens_per_second: float, seconds: float, processor_seconds: float) -> dict[str, float]:
    return {
        "target_tokens_per_second": tokens_per_second,
        "seconds_per_step": seconds,
        "processor_seconds_per_step": processor_seconds,
    }


def test_tokens_per_core_second_is_the_median_without_the_first_record() -> None:
    steps = [
        _record(1.0, 9.0, 9.0),  # with the time of tracing
        _record(1_000.0, 0.5, 1.0),  # 500 tokens in 1 s of two cores
        _record(250.0, 2.0, 1.0),  # the same work beside another process
        _record(1_000.0, 0.6, 1.0),
    ]
    assert tokens_per_core_second(steps) == 500.0


def test_tokens_per_core_second_needs_two_records() -> None:
    assert tokens_per_core_second([_record(1.0, 9.0, 9.0)]) is None
