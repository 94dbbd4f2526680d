"""Scores of given translations at the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from keras_transformer import score
from keras_transformer.inference.translator import Score


class Counting:
    """A target of n characters has n tokens, each of probability 1/e."""

    def score(
        self, sources: Sequence[str], targets: Sequence[str], progress: object
    ) -> list[Score]:
        return [
            Score(-float(len(text)), len(text), (-1.0,) * len(text), tuple(text))
            for text in targets
        ]


def test_one_line_for_each_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(score, "load_translator", lambda options: Counting())
    (tmp_path / "s").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "t").write_text("eins\nzw\n", encoding="utf-8")
    words = ["--run", "r", "--source", str(tmp_path / "s"), "--target", str(tmp_path / "t")]

    assert score.main(words) == 0
    assert capsys.readouterr().out == "-4.0000\t4\n-2.0000\t2\n"
    assert score.main([*words, "--tokens"]) == 0
    assert capsys.readouterr().out.endswith("-2.0000\t2\tz:-1.0000 w:-1.0000\n")


def test_blank_sides_keep_their_line_and_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(score, "load_translator", lambda options: Counting())
    (tmp_path / "s").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "t").write_text("eins\n\n", encoding="utf-8")
    words = ["--run", "r", "--source", str(tmp_path / "s"), "--target", str(tmp_path / "t")]

    assert score.main(words) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 2
    assert output.err == "kept 1 blank on one side, scored as the end token alone (line 2)\n"


def test_counts_that_differ_are_refused_with_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "t").write_text("eins\n", encoding="utf-8")
    words = ["--run", "r", "--source", str(tmp_path / "s"), "--target", str(tmp_path / "t")]

    assert score.main(words) == 2
    assert "--source has 2 lines, --target has 1" in capsys.readouterr().err
