"""Lines in, lines out, with a scripted translator."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from keras_transformer import entry, translate
from keras_transformer.inference.translator import Alternative, Translation


class Reversing:
    """Translates by reversing; a blank line is blank; one alternative in capitals."""

    def __init__(self, n_best: int = 1) -> None:
        self.search = SimpleNamespace(n_best=n_best)
        self.windows: list[int] = []

    def translate_stream(
        self, lines: Iterable[str], window: int, progress: object
    ) -> Iterator[Translation]:
        self.windows.append(window)
        for line in lines:
            others = (Alternative(line[::-1].upper(), -2.5),) if line else ()
            yield Translation(line[::-1], -1.25 if line else 0.0, alternatives=others)


@pytest.fixture
def translator(monkeypatch: pytest.MonkeyPatch) -> Reversing:
    scripted = Reversing()
    monkeypatch.setattr(translate, "load_translator", lambda options: scripted)
    return scripted


def test_file_to_standard_output(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("ab c\n\n爱我\n", encoding="utf-8")

    assert translate.main(["--run", "r", str(path)]) == 0
    assert capsys.readouterr().out == "c ba\n\n我爱\n"
    assert translator.windows[0] > 1000


def test_standard_input_to_a_file(
    translator: Reversing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab\n\nno end")))
    path = tmp_path / "out.txt"

    assert translate.main(["--run", "r", "--output", str(path), "--scores"]) == 0
    assert path.read_text(encoding="utf-8") == "-1.2500\tba\n0.0000\t\n-1.2500\tdne on\n"


def test_n_best_lines_begin_with_the_number_of_the_input_line(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator.search.n_best = 2
    path = tmp_path / "in.txt"
    path.write_text("ab\n\ncd\n", encoding="utf-8")

    assert translate.main(["--run", "r", str(path)]) == 0
    assert capsys.readouterr().out == "1\tba\n1\tBA\n2\t\n3\tdc\n3\tDC\n"
    assert translate.main(["--run", "r", str(path), "--scores"]) == 0
    assert capsys.readouterr().out.startswith("1\t-1.2500\tba\n1\t-2.5000\tBA\n2\t0.0000\t\n")


def test_a_person_is_answered_line_by_line(
    translator: Reversing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(b"ab\n"))
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)

    assert translate.main(["--run", "r"]) == 0
    assert translator.windows == [1]
    captured = capsys.readouterr()
    assert captured.out == "ba\n"
    assert "Ctrl-D" in captured.err


def test_bad_input_leaves_no_output_file(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(b"good\nb\xe4d\n")
    out = tmp_path / "out.txt"

    assert translate.main(["--run", "r", str(path), "--output", str(out)]) == 2
    assert "in.txt" in capsys.readouterr().err
    assert [item.name for item in tmp_path.iterdir()] == ["in.txt"]
    assert translate.main(["--run", "r", str(tmp_path / "none.txt")]) == 2
    assert "none.txt" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate.main(["--run", str(tmp_path / "none")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("keras_transformer.translate: error: ")
    assert "none" in message
    assert message.count("\n") == 1


def test_progress_is_shown_only_where_it_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with entry.progress(3) as report:
        assert report is None  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with entry.progress(3) as report:
        assert report is not None
        report(3)
    assert "3/3" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with entry.progress(3) as report:
        assert report is None  # the bar would run through the output
