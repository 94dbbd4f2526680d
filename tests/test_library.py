"""The public names, and the code in docs/library.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer as kt

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs" / "library.md").read_text("utf-8"), re.M | re.S
)

# One step of SGD on uneven shards: 13 real tokens on one replica, 5 on the other.
REPLICAS = """
from keras_transformer.training.loss import token_losses

plain = dataclasses.replace(config, dropout=0.0, attention_dropout=0.0)
rows = [7, 6, 2, 3]
labels = np.array([np.r_[np.arange(4, 4 + n), np.zeros(7 - n, int)] for n in rows])
some = {"source": labels, "target": np.c_[np.full(4, 2), labels[:, :-1]]}
batches = tf.data.Dataset.from_tensor_slices((some, labels)).batch(4).map(kt.losses.weight_tokens)


def after_a_step(strategy, weights=None):
    with strategy.scope():
        net = kt.build(plain)
        if weights is not None:
            net.set_weights(weights)
        net.compile(keras.optimizers.SGD(0.5), kt.losses.LabelSmoothedCrossEntropy(0.1),
                    metrics=[kt.metrics.Perplexity()])
    before = net.get_weights()
    expected = token_losses(net(some), labels, 0.1).numpy().sum() / sum(rows)
    logs = net.fit(batches, verbose=0).history
    assert abs(logs["loss"][0] - expected) < 1e-5, (logs, expected)
    return before, net.get_weights(), logs


before, one, logs = after_a_step(tf.distribute.get_strategy())
_, two, other = after_a_step(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), before)
for old, left, right in zip(before, one, two):
    np.testing.assert_allclose(left, right, atol=1e-6)
assert max(np.abs(old - left).max() for old, left in zip(before, one)) > 1e-3
assert abs(logs["perplexity"][0] - other["perplexity"][0]) < 1e-4
"""

CHECKS = """
assert history.history["token_accuracy"][-1] > 0.5, history.history
assert history.history["perplexity"][-1] < 5
model.save("reversal.keras")
again = keras.saving.load_model("reversal.keras")
first = {name: values[:2] for name, values in inputs.items()}
np.testing.assert_allclose(again(first), model(first), atol=1e-6)
assert again.loss.smoothing == 0.1
assert composed(first).shape == (2, 7, 20)
assert composed.count_params() == model.count_params() + 32  # the gate
composed.compile("adam", kt.losses.LabelSmoothedCrossEntropy(0.1))
assert np.isfinite(composed.train_on_batch(first, ids[:2]))
"""


def run(code: str, folder: Path) -> str:
    """Run code in a fresh process, with the package importable as if it were installed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_documents_code_trains_on_two_replicas(tmp_path: Path) -> None:
    assert len(BLOCKS) == 5
    run("\n".join([*BLOCKS[:2], "import dataclasses", CHECKS, REPLICAS]), tmp_path)


@pytest.mark.slow
def test_the_documents_code_trains_as_the_command_does(tmp_path: Path) -> None:
    code = "".join(BLOCKS[2:4])
    shorter = code.replace("max_steps=500", "max_steps=2").replace("max_steps=20", "max_steps=2")
    assert shorter.count("max_steps=2,") + shorter.count("max_steps=2)") == 2
    run(f"import keras_transformer as kt\n{shorter}", tmp_path)
    for name in ("phrasebook", "tuned"):
        assert (tmp_path / "runs" / name / "best.weights.h5").exists()


def test_importing_the_package_imports_no_tensorflow() -> None:
    code = (
        "import sys\nimport keras_transformer as kt\n"
        "assert kt.preset('tiny').model.d_model == kt.Config().model.d_model // 4\n"
        "print([name for name in ('tensorflow', 'keras', 'numpy') if name in sys.modules])"
    )
    assert run(code, ROOT) == "[]\n"


def test_every_public_name_exists() -> None:
    assert dir(kt) == sorted(kt.__all__) == sorted(kt._SOURCES)
    for name in kt.__all__:
        assert getattr(kt, name) is not None
    for name in kt.layers.__all__:
        assert getattr(kt.layers, name).__name__ == name
    with pytest.raises(AttributeError, match="'keras_transformer' has no attribute 'Nothing'"):
        kt.Nothing  # noqa: B018
