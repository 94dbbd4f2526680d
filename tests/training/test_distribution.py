from __future__ import annotations

import pytest
import tensorflow as tf

from keras_transformer.training.distribution import (
    WORKER_LOST,
    Distribution,
    DistributionError,
    slurm_addresses,
)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ("tpu", "expected auto, cpu, gpu, cpu:N or gpu:N, got tpu"),
        ("cpu:0", "expected auto, cpu, gpu, cpu:N or gpu:N, got cpu:0"),
        ("gpu:9", r"expected at most the 0 GPUs .*, got gpu:9\. pip install .*\[gpu\]"),
        ("cpu:7", "TensorFlow has started with 1 CPU devices already"),
    ],
)
def test_unavailable_devices_are_refused(devices: str, message: str) -> None:
    if devices.startswith("gpu") and tf.config.list_physical_devices("GPU"):
        pytest.skip("there are GPUs")
    tf.config.list_logical_devices()  # TensorFlow has started
    with pytest.raises(DistributionError, match=message):
        Distribution(devices)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"cluster": {}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_an_invalid_cluster_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(DistributionError, match="TF_CONFIG: expected .*, got "):
        Distribution()


def test_addresses_of_a_slurm_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_STEP_NODELIST", "a[1-2],b")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2(x2),1")
    assert slurm_addresses() == ["a1:8888", "a1:8889", "a2:8888", "a2:8889", "b:8888"]
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "2")
    with pytest.raises(
        DistributionError, match=r"SLURM_STEP_NODELIST, .* got 'a\[1-2\],b' and '2'"
    ):
        slurm_addresses()


def test_a_single_worker_does_not_communicate() -> None:
    distribution = Distribution("cpu")
    assert (distribution.workers, distribution.worker, distribution.chief) == (1, 0, True)
    assert distribution.broadcast_from_chief([1.0, 2.0]) == [1.0, 2.0]
    assert distribution.any_worker([True, False]) == [True, False]


def test_a_lost_worker_ends_the_process_and_other_errors_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    distribution = Distribution("cpu")
    distribution.workers = 2
    with pytest.raises(SystemExit) as ended, distribution.exit_on_lost_worker():
        raise tf.errors.UnavailableError(None, None, "connection reset")
    assert ended.value.code == WORKER_LOST
    assert capsys.readouterr().err == (
        "worker 0: another worker is gone (UnavailableError); restart all workers with --resume\n"
    )
    with (
        pytest.raises(tf.errors.ResourceExhaustedError),
        distribution.exit_on_lost_worker(),
    ):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM")
    distribution.workers = 1
    with pytest.raises(tf.errors.UnavailableError), distribution.exit_on_lost_worker():
        raise tf.errors.UnavailableError(None, None, "a file system")
