"""Moments, signals, limits and kills: what is noticed, and what is judged."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.soak import moments
from tools.soak.exports import check_versions, hashes
from tools.soak.limits import clear_error
from tools.soak.moments import Moment, draw_training, event
from tools.soak.processes import _MARK, members, resident
from tools.soak.runs import Reference
from tools.soak.signals import last_step
from tools.soak.translation import check_same_lines, sources
from tools.soak.trials import TrialError


def test_chains_cover_preparation_and_averages() -> None:
    chains = [draw_training(random.Random(index), 5, index) for index in range(1, 21)]
    events = [[moment.event for moment in chain] for chain in chains]
    assert all(chain[0] == "preparation" for chain in events[::2])
    assert all(chain[-1] == "average" for chain in events[1::2])
    assert {"time", "checkpoint", "best"} <= {name for chain in events for name in chain}
    assert all(0 <= moment.delay <= 0.05 for chain in chains for moment in chain)


def test_a_missed_moment_comes_earlier() -> None:
    rng = random.Random(1)
    assert 0 < moments.earlier(Moment("time", 0.9, 0.01), rng).share < 0.9
    again = moments.earlier(Moment("best", 0.9, 0.05), rng)
    assert again.event == "best"
    assert again.delay < 0.05


def test_an_event_is_something_new_in_the_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "step-4.index").touch()
    (run / "best.weights.h5").write_text("old")
    fired = {
        name: event(Moment(name, share, 0.0), run, 8)
        for name, share in (("checkpoint", 0.0), ("best", 0.9), ("average", 0.9))
    }
    assert not any(each() for each in fired.values())
    (run / "checkpoints" / "step-8_temp").mkdir()
    assert fired["checkpoint"]()
    assert not fired["average"]()
    (run / "checkpoints" / "step-8.index").touch()
    assert fired["average"]()
    (run / "new").write_text("new")
    (run / "new").replace(run / "best.weights.h5")
    assert fired["best"]()


def test_weights_are_noticed_while_they_are_written_aside(tmp_path: Path) -> None:
    fired = event(Moment("best", 0.1, 0.0), tmp_path, 8)
    assert not fired()
    (tmp_path / ".partial.best.weights.h5").touch()
    assert fired()


def test_preparation_is_noticed_after_some_files_or_at_the_end(tmp_path: Path) -> None:
    run, partial = tmp_path / "run", tmp_path / ".run.partial"
    fired = event(Moment("preparation", 0.1, 0.0), run, 8)  # the second file
    partial.mkdir()
    (partial / "one").touch()
    assert not fired()
    (partial / "two").touch()
    assert fired()
    late = event(Moment("preparation", 0.99, 0.0), run, 8)
    assert not late()
    partial.rename(run)
    assert late()


def test_the_life_that_is_left_shrinks_with_the_steps() -> None:
    reference = Reference(Path(), startup=5.0, seconds=9.0, final_step=40, peak=0)
    assert [reference.left(step) for step in (0, 20, 40, 99)] == [9.0, 7.0, 5.0, 5.0]


def test_the_last_step_of_a_log_is_found() -> None:
    log = "2026-01-01 00:00:00 step 9/48  loss 1\n2026-01-01 00:00:00 step 10/48  loss 1\n"
    assert last_step(f"{log}2026-01-01 00:00:00 checkpoint at step 48\n") == 10
    assert last_step("") == 0


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            "step 1/4\nkeras_transformer.train: error: x: cannot be written\n",
            "x: cannot be written",
        ),
        ("", None),
        ("Traceback (most recent call last):\nkeras_transformer.train: error: x\n", None),
        ("a: error: x\nb: error: y\n", None),
    ],
)
def test_an_error_is_clear_if_it_is_one_line(log: str, message: str | None) -> None:
    assert clear_error(log) == message


def test_outputs_are_compared_line_by_line() -> None:
    check_same_lines(b"a\nb\n", b"a\nb\n")
    with pytest.raises(TrialError, match="1 differ, first line 2: 'x', expected 'b'"):
        check_same_lines(b"a\nx\nc\n", b"a\nb\nc\n")
    with pytest.raises(TrialError, match="^1 lines, expected 2$"):
        check_same_lines(b"a\n", b"a\nb\n")
    with pytest.raises(TrialError, match="^3 lines, expected 2$"):
        check_same_lines(b"a\nb\nb\n", b"a\nb\n")


def test_sources_are_as_many_as_wanted() -> None:
    assert len(sources(10)) == 10
    assert len(sources(70_000)) == 70_000
    assert all(sources(2_000))


def test_a_version_is_complete_or_a_fault(tmp_path: Path) -> None:
    for name in ("graph", "card"):
        (tmp_path / "1").mkdir(exist_ok=True)
        (tmp_path / "1" / name).write_text(name)
    expected: dict[str, str | None] = hashes(tmp_path / "1") | {"card": None}
    (tmp_path / ".2.partial").mkdir()
    assert [path.name for path in check_versions(tmp_path, expected)] == ["1"]
    (tmp_path / "1" / "card").write_text("another date")
    check_versions(tmp_path, expected)
    (tmp_path / "1" / "graph").write_text("half")
    with pytest.raises(TrialError, match="version 1, graph: other"):
        check_versions(tmp_path, expected)
    (tmp_path / "1" / "graph").unlink()
    with pytest.raises(TrialError, match="version 1, graph: missing"):
        check_versions(tmp_path, expected)
    (tmp_path / ".2.partial").rename(tmp_path / "2")
    with pytest.raises(TrialError, match="missing"):
        check_versions(tmp_path, expected)


def test_descendants_are_found_by_their_mark() -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    process = subprocess.Popen(
        [sys.executable, "-c", child], env=os.environ | {_MARK: "m1"}, stdin=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 20
        while len(members("m1")) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(members("m1")) == 2
        assert members("m") == []
        assert resident(process.pid) > 1e6
    finally:
        process.communicate(b"\n", timeout=20)
    assert members("m1") == []
    assert resident(process.pid) == 0
