"""Plan of the trials, and trials.jsonl."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tools.soak.__main__ import parser, plan
from tools.soak.trials import (
    Result,
    Trial,
    TrialError,
    TrialLog,
    chains,
    repeated,
    run_all,
    run_one,
)

TRIAL = Trial("training", "device", 1, 5, 1)


def planned(*words: str) -> list[Trial]:
    return plan(parser().parse_args(["--folder", "x", *words]))


def test_a_hundred_kills_are_spread_over_all_kinds() -> None:
    trials = planned("--only", "training")
    kills: Counter[str] = Counter()
    for trial in trials:
        kills[trial.kind] += trial.count
    assert kills.total() == 100
    assert set(kills) == {"device", "replicas", "workers", "bfloat16", "stopping", "export"}
    assert min(kills.values()) == 15
    assert len({trial.name for trial in trials}) == len(trials)


def test_signals_limits_and_translation_follow_the_number_of_kills() -> None:
    counts = Counter(trial.kind for trial in planned())
    assert counts["SIGTERM"] == counts["SIGINT"] == counts["SIGHUP"] == 10
    assert counts["disk"] == counts["memory"] == 5
    [translation] = planned("--only", "translation")
    assert translation.count == 10
    [server] = planned("--only", "server", "--minutes", "0.5")
    assert server.count == 30


def test_few_kills_are_one_for_each_kind() -> None:
    trials = chains("training", ["a", "b", "c"], 2, 1)
    assert [(trial.kind, trial.count) for trial in trials] == [("a", 1), ("b", 1)]
    assert sum(trial.count for trial in chains("training", ["a", "b", "c"], 17, 1)) == 17


def test_random_numbers_depend_on_seed_and_name_only() -> None:
    again = Trial("training", "device", 1, 5, 1)
    assert TRIAL.random().random() == again.random().random()
    others = [Trial("training", "device", 2, 5, 1), Trial("training", "device", 1, 5, 2)]
    assert TRIAL.random().random() not in [other.random().random() for other in others]


class Runner:
    """Counts its trials; some of them fail."""

    def __init__(self, failing: str = "") -> None:
        self.ran: list[str] = []
        self._failing = failing

    def __call__(self, trial: Trial) -> dict[str, Any]:
        self.ran.append(trial.name)
        if trial.name == self._failing:
            raise TrialError("other values", {"p50 ms": 3.0})
        return {"kills": ["time 0.5"]}


def test_a_second_call_runs_only_what_is_left(tmp_path: Path) -> None:
    trials, log = repeated("signals", ["SIGTERM"], 4, 1), TrialLog(tmp_path / "trials.jsonl")
    first, second = Runner(), Runner()
    run_all(trials[:2], first, log, 1, lambda result: None)
    results = run_all(trials, second, TrialLog(tmp_path / "trials.jsonl"), 2, lambda result: None)
    assert first.ran == ["signals-SIGTERM-1", "signals-SIGTERM-2"]
    assert sorted(second.ran) == ["signals-SIGTERM-3", "signals-SIGTERM-4"]
    assert [result.name for result in results] == [trial.name for trial in trials]
    assert results[0].details == {"kills": ["time 0.5"]}


def test_a_failure_stays_a_failure_in_a_second_call(tmp_path: Path) -> None:
    trials, log = repeated("signals", ["SIGINT"], 2, 1), TrialLog(tmp_path / "trials.jsonl")
    run_all(trials, Runner("signals-SIGINT-2"), log, 1, lambda result: None)
    results = run_all(trials, Runner(), log, 1, lambda result: None)
    assert [result.failure for result in results] == ["", "other values"]
    assert results[1].details == {"p50 ms": 3.0}


def test_a_line_cut_off_by_a_kill_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    trials = repeated("limits", ["disk"], 2, 1)
    run_all(trials, Runner(), TrialLog(path), 1, lambda result: None)
    path.write_text(path.read_text()[:-20])
    again = Runner()
    run_all(trials, again, TrialLog(path), 1, lambda result: None)
    assert again.ran == ["limits-disk-2"]
    assert [result.name for result in TrialLog(path).results()] == [
        "limits-disk-1",
        "limits-disk-2",
    ]


def test_a_closed_log_takes_no_failures_of_an_interrupt(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.close()
    reported: list[Result] = []
    run_all([TRIAL], Runner(TRIAL.name), log, 1, reported.append)
    assert log.results() == reported == []


@pytest.mark.parametrize("changed", [{"seed": 2}, {"count": 6}])
def test_another_seed_or_size_is_another_trial(tmp_path: Path, changed: dict[str, int]) -> None:
    log = TrialLog(tmp_path / "trials.jsonl")
    log.add(Result(TRIAL.name, "training", "device", 1, 5, "", 1.0))
    assert log.result(TRIAL) is not None
    assert log.result(Trial(**vars(TRIAL) | changed)) is None


def test_a_fault_of_the_test_itself_is_a_failure() -> None:
    def broken(trial: Trial) -> dict[str, Any]:
        raise KeyError("name")

    assert run_one(TRIAL, broken).failure.startswith("KeyError: 'name' (test_trials.py:")


@pytest.mark.parametrize("words", [["--trials", "0"], ["--minutes", "-1"], ["--only", "x"]])
def test_wrong_options_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        planned(*words)
