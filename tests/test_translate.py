"""Translation at the command line, with a scripted translator."""

from __future__ import annotations

import io
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from keras_transformer import translate
from keras_transformer.inference.alignment import Attention
from keras_transformer.inference.translator import Alternative, Translation


class Reversing:
    """Translates by reversing; a blank line is blank; one alternative in capitals."""

    def __init__(self, n_best: int = 1) -> None:
        self.search = SimpleNamespace(n_best=n_best)
        self.windows: list[int] = []
        self.unfinished: set[int] = set()
        """Numbers of the lines whose translations come to no end."""
        self.dies_at = 0
        """Number of the line at which the process is killed."""
        self.ready: list[bool] = []
        """For each line, True if the next one came at once."""

    def translate_stream(
        self,
        lines: Iterable[str],
        window: int,
        progress: object,
        first_line: int,
        *,
        prefixes: Iterable[str] | None,
        attention: bool,
        ready: Callable[[], bool],
    ) -> Iterator[Translation]:
        self.windows.append(window)
        begin = itertools.repeat("") if prefixes is None else prefixes
        for number, (line, prefix) in enumerate(zip(lines, begin, strict=False), start=first_line):
            if number == self.dies_at:
                raise KeyboardInterrupt
            self.ready.append(ready())
            others = (Alternative(line[::-1].upper(), -2.5),) if line else ()
            looked = looking(line) if attention and line else None
            text, score = prefix + line[::-1], -1.25 if line else 0.0
            finished = number not in self.unfinished
            yield Translation(text, score, finished, alternatives=others, attention=looked)


def looking(line: str) -> Attention:
    """Attention: a token per character; each attends to its own source, the end to the end."""
    size = len(line)
    weights = np.eye(size + 1, dtype=np.float32)
    weights[:size, :size] = weights[:size, :size][::-1]
    words = [line[: place + 1].count(" ") for place in range(size)]
    backwards = [line[::-1][: place + 1].count(" ") for place in range(size)]
    pieces = line.replace(" ", "▁")
    return Attention(
        (*pieces, "</s>"), (*pieces[::-1], "</s>"), weights, tuple(words), tuple(backwards)
    )


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


@pytest.mark.parametrize(
    ("unfinished", "warning"),
    [
        ([], ""),
        (
            [2],
            "1 translation stopped at the length limit (search.max_extra, search.max_length) "
            "without an end token: line 2\n",
        ),
        (
            range(3, 10),
            "7 translations stopped at the length limit (search.max_extra, search.max_length) "
            "without an end token: lines 3, 4, 5, 6, 7, ...\n",
        ),
    ],
)
def test_translations_without_an_end_are_counted_in_a_warning(
    translator: Reversing,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    unfinished: Iterable[int],
    warning: str,
) -> None:
    translator.unfinished = set(unfinished)
    (tmp_path / "in").write_text("ab\n" * 10)
    assert translate.main(["--run", "r", str(tmp_path / "in")]) == 0
    assert capsys.readouterr() == ("ba\n" * 10, warning)


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


def test_typed_lines_are_translated_one_by_one(
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


def test_lines_of_a_pipe_are_grouped_only_while_they_come_at_once(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"ab\ncd\n")
    later = threading.Timer(0.2, lambda: (os.write(writing, b"ef\n"), os.close(writing)))
    later.start()
    assert translate.main(["--run", "r", f"/dev/fd/{reading}"]) == 0
    later.join()
    os.close(reading)
    assert capsys.readouterr().out == "ba\ndc\nfe\n"
    assert translator.ready == [True, False, False]
    assert translator.windows[0] > 1000
    translator.ready.clear()
    assert translate.main(["--run", "r", lines_in(tmp_path, "in", "ab\ncd\n")]) == 0
    assert translator.ready == [True, True]


def lines_in(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_links_between_words_and_between_pieces(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lines_in(tmp_path, "in.txt", "ab cd e\n\n爱\n")

    assert translate.main(["--run", "r", path, "--alignment", "--scores"]) == 0
    assert capsys.readouterr().out == (
        "-1.2500\te dc ba\t2-0 1-1 0-2\n0.0000\t\t\n-1.2500\t爱\t0-0\n"
    )
    assert translate.main(["--run", "r", path, "--alignment", "--pieces"]) == 0
    first, blank, last = capsys.readouterr().out.splitlines()
    links = "6-0 5-1 4-2 3-3 2-4 1-5 0-6"
    assert first == f"e dc ba\t{links}\ta b ▁ c d ▁ e\te ▁ d c ▁ b a"
    assert (blank, last) == ("\t\t\t", "爱\t0-0\t爱\t爱")


def test_attention_of_each_line_is_saved_whole(translator: Reversing, tmp_path: Path) -> None:
    path = lines_in(tmp_path, "in.txt", "ab\n\n爱\n")
    saved = tmp_path / "attention.npz"
    words = ["--run", "r", path, "--attention", str(saved), "--output", str(tmp_path / "out")]

    assert translate.main(words) == 0
    with np.load(saved) as found:
        assert len(found.files) == 9
        assert found["source_1"].tolist() == ["a", "b", "</s>"]
        assert found["target_1"].tolist() == ["b", "a", "</s>"]
        np.testing.assert_array_equal(found["attention_1"], [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
        assert found["attention_1"].dtype == np.float32
        assert (found["attention_2"].shape, found["source_2"].size) == ((0, 0), 0)
        assert found["target_3"].tolist() == ["爱", "</s>"]
    saved.unlink()
    translator.dies_at = 3
    assert translate.main(words) == 130
    assert not [path.name for path in tmp_path.iterdir() if "attention" in path.name]


def test_each_line_begins_with_its_prefix(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lines_in(tmp_path, "in.txt", "ab\ncd\n")
    prefixes = lines_in(tmp_path, "prefix.txt", "X \n\n")

    assert translate.main(["--run", "r", path, "--prefix", prefixes]) == 0
    assert capsys.readouterr().out == "X ba\ndc\n"
    lines_in(tmp_path, "prefix.txt", "X\n")
    assert translate.main(["--run", "r", path, "--prefix", prefixes]) == 2
    assert "each of the 2 lines" in capsys.readouterr().err


@pytest.mark.parametrize("n_best", [1, 2])
def test_a_killed_run_is_completed(translator: Reversing, tmp_path: Path, n_best: int) -> None:
    translator.search.n_best = n_best
    path = lines_in(tmp_path, "in.txt", "ab\n\ncd\nef\n")
    prefixes = lines_in(tmp_path, "prefix.txt", "1\n2\n3\n4\n")
    out, whole = tmp_path / "out.txt", tmp_path / "whole.txt"
    words = ["--run", "r", path, "--prefix", prefixes, "--output"]
    assert translate.main([*words, str(whole)]) == 0

    for translator.dies_at in (3, 4):
        assert translate.main([*words, str(out), "--append"]) == 130
        there = out.read_text(encoding="utf-8")
        assert there
        assert whole.read_text(encoding="utf-8").startswith(there)
        with out.open("ab") as file:
            file.write("3\t爱".encode()[:-1])  # half a line, half a character
    translator.dies_at = 0
    for _ in range(2):  # again changes nothing
        assert translate.main([*words, str(out), "--append"]) == 0
        assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("words", ["--append", "", "--scores"])
def test_an_output_that_is_the_input_is_refused(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    path = lines_in(tmp_path, "in.txt", "ab\ncd\nno line feed")
    (tmp_path / "link").symlink_to("in.txt")
    for name in (path, str(tmp_path / "link")):
        assert translate.main(["--run", "r", path, "--output", name, *words.split()]) == 2
        assert "this command reads it too" in capsys.readouterr().err
        assert Path(path).read_text() == "ab\ncd\nno line feed"
    assert translator.windows == []


def test_files_of_the_run_and_prefixes_are_inputs_too(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    (run / "tokenizer").mkdir(parents=True)
    path, prefix = lines_in(tmp_path, "in.txt", "ab\n"), lines_in(tmp_path, "prefix", "x\n")
    read = [lines_in(run, name, "x\n") for name in ("config.yaml", "tokenizer/source.model")]
    for option, file in zip(("--output", "--attention", "--output"), [prefix, *read], strict=True):
        words = ["--run", str(run), path, "--prefix", prefix, option, file]
        assert translate.main(words) == 2
        assert f"{option} {file}: this command reads it too" in capsys.readouterr().err
        assert Path(file).read_text() == "x\n"


def test_a_file_to_which_the_shell_appends_keeps_its_lines(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = lines_in(tmp_path, "in.txt", "ab\n"), lines_in(tmp_path, "log", "before\n")
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)
    words = ["--run", "r", path, "--output", f"/dev/fd/{handle}"]
    assert translate.main(words) == 0
    assert Path(log).read_text() == "before\nba\n"
    assert translate.main([*words, "--append"]) == 2
    assert "expected the name of a file" in capsys.readouterr().err
    os.close(handle)


def test_attention_goes_into_a_pipe(translator: Reversing, tmp_path: Path) -> None:
    path = lines_in(tmp_path, "in.txt", "ab\n")
    reading, writing = os.pipe()
    assert translate.main(["--run", "r", path, "--attention", f"/dev/fd/{writing}"]) == 0
    os.close(writing)
    with open(reading, "rb") as pipe, np.load(io.BytesIO(pipe.read())) as found:
        assert found["source_1"].tolist() == ["a", "b", "</s>"]
        assert found["attention_1"].shape == (3, 3)


def test_an_output_longer_than_the_input_is_refused(
    translator: Reversing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lines_in(tmp_path, "in.txt", "ab\n")
    out = lines_in(tmp_path, "out.txt", "1\n2\n")

    assert translate.main(["--run", "r", path, "--output", out, "--append"]) == 2
    assert "the output already has 2 lines" in capsys.readouterr().err
    assert Path(out).read_text() == "1\n2\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--append", "--output FILE is missing"),
        ("--append --output o --attention a.npz", "--append or --attention, not both"),
        ("--pieces", "--alignment is missing"),
        ("--attention none/a.npz", "--attention none/a.npz: expected a file to write"),
        ("--append --output none/o", "--output none/o: expected a file to write"),
    ],
)
def test_options_that_contradict_each_other(
    translator: Reversing, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate.main(["--run", "r", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_links_of_several_hypotheses_are_refused(
    translator: Reversing, capsys: pytest.CaptureFixture[str]
) -> None:
    translator.search.n_best = 3
    assert translate.main(["--run", "r", "--alignment"]) == 2
    assert "expected search.n_best 1, got 3" in capsys.readouterr().err


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


def test_a_folder_without_a_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert translate.main(["--run", str(tmp_path / "none")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("keras_transformer.translate: error: ")
    assert "none" in message
    assert message.count("\n") == 1
