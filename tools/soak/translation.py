"""Batch translation that is killed and continued with ``--append``."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer import system
from keras_transformer.data import phrasebook
from tools.soak import moments
from tools.soak.processes import Process, complete
from tools.soak.runs import Runs, phrasebook_run
from tools.soak.trials import Trial, TrialError

_WINDOW_BYTES = 30_000


def killed(trial: Trial, runs: Runs, lines: int) -> dict[str, Any]:
    """Kill a translation, continue it as often, and compare its output.

    Args:
        trial: The trial; ``count`` is the number of kills.
        runs: The folder of the test.
        lines: Number of lines to translate.

    Raises:
        TrialError: The output differs from that of an uninterrupted translation.
    """
    rng = trial.random()
    expected, words, seconds = _reference(runs, lines)
    output = runs.folder / "trials" / f"{trial.name}.txt"
    output.parent.mkdir(exist_ok=True)
    output.unlink(missing_ok=True)
    words = [*words, "--output", str(output), "--append"]
    done: list[int] = []
    missed = 0
    while len(done) < trial.count:
        if not _kill(rng, words, output, expected.stat().st_size, seconds):
            check_same_lines(output.read_bytes(), expected.read_bytes())
            output.unlink()
            missed += 1
            if missed > 3 * trial.count:
                raise TrialError(f"the translation ended {missed} times before it was killed")
            continue
        done.append(_size(output))
        found = output.read_bytes() if output.exists() else b""
        if not expected.read_bytes().startswith(found[: found.rfind(b"\n") + 1]):
            check_same_lines(found, expected.read_bytes())
    complete("translate", words)
    check_same_lines(output.read_bytes(), expected.read_bytes())
    output.unlink()
    return {"bytes at the kills": done, "lines": lines}


def _kill(
    rng: random.Random, words: Sequence[str], output: Path, total: int, seconds: float
) -> bool:
    """Start or continue a translation and kill it; return false if it has ended before."""
    process, size = Process("translate", words), _size(output)
    if rng.random() < 0.3:
        fired = moments.after(rng.random() * seconds * (1 - size / total))
    else:
        # At most one window further, so that lines are left for the other kills.
        target = size + rng.random() * min(total - size, _WINDOW_BYTES)

        def fired() -> bool:
            return _size(output) > target

    delay = rng.uniform(0.0, moments.LATEST)
    if process.wait_until(fired) and process.wait_until(moments.after(delay)):
        process.kill()
        return True
    if process.wait():
        raise TrialError(f"the translation failed\n{process.log[-1500:]}")
    return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def check_same_lines(ours: bytes, theirs: bytes) -> None:
    """Check that two outputs are equal.

    Raises:
        TrialError: Names the first line that differs.
    """
    if ours == theirs:
        return
    pairs = list(zip(ours.splitlines(), theirs.splitlines(), strict=False))
    different = [number for number, (one, other) in enumerate(pairs, start=1) if one != other]
    counts = f"{len(ours.splitlines())} lines, expected {len(theirs.splitlines())}"
    if not different:
        raise TrialError(counts)
    one, other = pairs[different[0] - 1]
    raise TrialError(
        f"{counts}; {len(different)} differ, first line {different[0]}: "
        f"{one.decode(errors='replace')!r}, expected {other.decode(errors='replace')!r}"
    )


def _reference(runs: Runs, lines: int) -> tuple[Path, list[str], float]:
    """Translate without a stop; return the output, the options and the seconds."""
    folder = runs.folder / "reference"
    source, output = folder / f"source-{lines}.txt", folder / f"translation-{lines}.txt"
    words = ["--run", str(phrasebook_run(runs.folder / "models", 1)), str(source)]
    times = folder / f"translation-{lines}.json"
    if not times.exists():
        folder.mkdir(parents=True, exist_ok=True)
        system.write_text(source, "".join(f"{line}\n" for line in sources(lines)))
        process = complete("translate", [*words, "--output", str(output)])
        system.write_json(times, {"seconds": round(process.seconds, 1)})
    seconds = json.loads(times.read_text(encoding="utf-8"))["seconds"]
    return output, words, float(seconds)


def sources(count: int) -> list[str]:
    """Return English sentences of the built-in corpus, repeated where it has fewer."""
    found = [english for split in phrasebook.SPLITS for english, _ in phrasebook.pairs(split)]
    random.Random(0).shuffle(found)
    return (found * (count // len(found) + 1))[:count]
