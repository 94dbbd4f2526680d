"""Preparation and batch plan of a corpus of millions of pairs in bounded memory."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PAIRS = 5_000_000
REPEATED = 1_000

# Everything that `train` does before its first step, in a process of its own. The memory of the
# process and its workers is summed ten times a second. RLIMIT_AS and RLIMIT_DATA would count
# what TensorFlow maps and never touches, separately for each process.
SCRIPT = """
import json, os, sys, threading, time
from pathlib import Path
import tensorflow
from keras_transformer.config import DataConfig
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.prepare import prepare

def resident(process):
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):  # it has just ended
        return 0

def watch():
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        peak[0] = max(peak[0], sum(map(resident, ["self", *children])))
        most[0] = max(most[0], len(children))
        time.sleep(0.1)

peak, most, lines = [0], [0], []
threading.Thread(target=watch, daemon=True).start()
folder = Path(sys.argv[1])
config = DataConfig(train=str(folder / "train"), dev=str(folder / "dev"), source="en",
                    target="de", vocabulary_size=1_000, drop_duplicates=True)
prepared = prepare(config, folder / "run", lines.append)
store = prepared.train
plan = BatchPlan(store.source_lengths, store.target_lengths, 4_096, seed=1)
epochs = [plan.epoch(n) for n in (0, 1)]
ends = [store.batch(range(3)), store.batch(range(len(store) - 3, len(store)))]
texts = [
    prepared.tokenizer.source.decode([[i for i in row if i > 3] for row in end["source"].tolist()])
    for end in ends
]
print(json.dumps({
    "peak": peak[0], "processes": most[0], "lines": lines, "report": prepared.report,
    "planned": [sum(map(len, epoch)) for epoch in epochs], "texts": texts,
}))
"""


def sentences(seed: int, count: int) -> list[str]:
    """Generate distinct sentences of three words."""
    generator = random.Random(seed)
    words = sorted({"".join(generator.choices("abcdefghijklm", k=k)) for k in [3, 5, 7] * 90})
    first, second, third = words[:200], words[:200], words[: -(-count // 40_000)]
    return [f"{a} {b} {c}\n" for c in third for b in second for a in first][:count]


@pytest.mark.slow
def test_five_million_pairs_in_two_gibibytes(tmp_path: Path) -> None:
    ends = []
    for seed, language in enumerate(("de", "en")):
        lines = sentences(seed, PAIRS - REPEATED)
        ends = [[line.strip() for line in part] for part in (lines[:3], lines[-3:])]
        with (tmp_path / f"train.{language}").open("w") as file:
            file.writelines(lines)
            file.writelines(lines[:REPEATED])
        (tmp_path / f"dev.{language}").write_text("".join(lines[::1_000_000]) + "unheard of\n")

    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
        cwd=Path(__file__).parents[2],
    )

    assert result.returncode == 0, result.stderr[-2_000:]
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["peak"] < 2 * 2**30
    train = found["report"]["train"]
    assert (train["read"], train["kept"]) == (PAIRS, PAIRS - REPEATED)
    assert train["dropped"] == {"seen before": REPEATED}
    assert found["report"]["dev"]["sources_in_training"] == 5
    assert found["planned"] == [PAIRS - REPEATED] * 2
    assert found["texts"] == ends
    assert any("a sample of" in line for line in found["lines"])
    assert any("seconds left" in line for line in found["lines"])
    cores = len(os.sched_getaffinity(0))
    assert found["processes"] == (cores if cores > 1 else 0)
