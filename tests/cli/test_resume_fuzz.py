"""Interrupted outputs of any content: completed as if uninterrupted, or refused and unchanged."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import assume, example
from hypothesis import strategies as st

from keras_transformer.cli import translation
from keras_transformer.errors import UserError
from keras_transformer.inference import translator as translator_module
from keras_transformer.inference.grouping import windows
from keras_transformer.inference.translator import Alternative, Translation
from tests.support.fuzzing import attempt, fuzz, sizes


class Echo:
    """Translates window by window by repeating; some lines have several hypotheses."""

    def __init__(self, n_best: int, dies_at: int = 0) -> None:
        self.search = SimpleNamespace(n_best=n_best)
        self.dies_at = dies_at
        """Number of the line at which the process is killed."""

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
        begin = itertools.repeat("") if prefixes is None else iter(prefixes)
        number = first_line - 1
        for group in windows(lines, window, ready):
            for line in group:
                number += 1
                if number == self.dies_at:
                    raise KeyboardInterrupt
                others = [Alternative(line.upper(), -2.0)] * (len(line) % self.search.n_best)
                text = next(begin) + line
                yield Translation(text, -1.25, True, alternatives=tuple(others), attention=None)


def translate(folder: Path, translator: Echo, append: bool, **columns: bool) -> None:
    """Translate ``in`` to ``out``."""
    own = {"prefix": None, "scores": False, "alignment": False, "pieces": False, "attention": None}
    own |= {"file": str(folder / "in"), "output": str(folder / "out"), "append": append}
    translation.translate_lines(translator, SimpleNamespace(**(own | columns)))  # type: ignore[arg-type]


# Texts as decoding gives them: without line feeds, sometimes with digits, tabs and odd characters.
TEXTS = st.text(st.sampled_from("ab1 \t\r\u2028\x00äß我\ufeff😀"), max_size=6)
LINES = st.lists(TEXTS, max_size=7).map(lambda lines: "".join(f"{line}\n" for line in lines))
WINDOWS = st.integers(1, 5)
N_BEST = st.integers(1, 3)


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the number of lines translated together."""
    return lambda size: monkeypatch.setattr(translator_module, "WINDOW", size)


@sizes(25)
def test_cut_at_any_byte_and_killed_again_it_becomes_the_uninterrupted_output(
    tmp_path: Path, window: Callable[[int], None], count: int
) -> None:
    out = tmp_path / "out"

    @fuzz(count, lines=LINES, n_best=N_BEST, scores=st.booleans(), cut=st.floats(0, 1),
          junk=st.sampled_from([b"", b"\xe6\x88", b"\0\0\0", b"1", b"9\t"]), size=WINDOWS,
          dies_at=st.integers(0, 9))  # fmt: skip
    def check(
        lines: str, n_best: int, scores: bool, cut: float, junk: bytes, size: int, dies_at: int
    ) -> None:
        (tmp_path / "in").write_bytes(lines.encode())
        window(size)
        translate(tmp_path, Echo(n_best), append=False, scores=scores)
        whole = out.read_bytes()
        out.write_bytes(whole[: round(cut * len(whole))] + junk)
        try:
            translate(tmp_path, Echo(n_best, dies_at), append=True, scores=scores)
        except KeyboardInterrupt:
            translate(tmp_path, Echo(n_best), append=True, scores=scores)
        assert out.read_bytes() == whole

    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


# Lines that could stand in some output, and others.
PARTS = st.sampled_from(
    [b"1\ta\n", b"2\tb\n", b"3\t\n", b"4\tc\n", b"7\tx\n", b"0\tx\n", b"01\tx\n", b"-1\tx\n",
     b"9" * 5000 + b"\tx\n", b"1", b"\n", b"\t", b"a\n", b"\xff\n", b"\xe6\x88\n", b"\0\n", b"\r\n",
     "\u0661\tx\n".encode(), "\ufeff1\ta\n".encode()]
)  # fmt: skip
OUTPUTS = st.lists(PARTS | st.binary(max_size=4), max_size=6).map(b"".join)


@sizes(25)
def test_an_output_of_any_content_is_refused_unchanged_or_completed(
    tmp_path: Path, window: Callable[[int], None], count: int
) -> None:
    out = tmp_path / "out"

    @fuzz(count, before=OUTPUTS, lines=LINES, n_best=N_BEST, size=WINDOWS)
    @example(before=b"9" * 5000 + b"\tx\n", lines="a\n", n_best=2, size=1)
    @example(before=b"1\ta\n4\tb\n", lines="a\n" * 5, n_best=2, size=1)  # 2 and 3 are missing
    @example(before=b"2\ta\n1\tb\n", lines="a\n" * 5, n_best=2, size=1)
    @example(before=b"a\nb\nc", lines="a\n", n_best=1, size=1)  # more lines than the input
    @example(before=b"a\n\xff\n", lines="a\n" * 5, n_best=1, size=1)
    def check(before: bytes, lines: str, n_best: int, size: int) -> None:
        (tmp_path / "in").write_bytes(lines.encode())
        out.write_bytes(before)
        window(size)
        _, error = attempt(lambda: translate(tmp_path, Echo(n_best), append=True))
        after = out.read_bytes()
        if error:
            assert after == before
            assert "--append" in error
            return
        text = after.decode()
        inputs = lines.split("\n")[:-1]
        if n_best == 1:
            assert after.startswith(before[: before.rfind(b"\n") + 1])  # no complete line is lost
            assert text.count("\n") == len(inputs)
        else:
            numbers = [int(line.partition("\t")[0]) for line in text.split("\n")[:-1]]
            assert sorted(set(numbers)) == list(range(1, len(inputs) + 1))
            assert numbers == sorted(numbers)

    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@sizes(20)
def test_an_input_that_cannot_be_read_changes_no_output(
    tmp_path: Path, window: Callable[[int], None], count: int
) -> None:
    out = tmp_path / "out"

    @fuzz(count, before=st.none() | st.sampled_from([b"", b"a\n", b"a\nb"]), n_best=N_BEST,
          broken=st.sampled_from([b"\xff\n", b"a\nb\xff", b"a\n\xff\n", None]))  # fmt: skip
    @example(before=b"a\nb", n_best=1, broken=None)
    @example(before=None, n_best=1, broken=None)
    def check(before: bytes | None, n_best: int, broken: bytes | None) -> None:
        for path, content in ((tmp_path / "in", broken), (out, before)):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
        window(100)
        _, error = attempt(lambda: translate(tmp_path, Echo(n_best), append=True))
        assert error
        assert (out.read_bytes() if out.exists() else None) == before


def place(folder: Path, kind: str) -> None:
    out = folder / "out"
    if kind == "folder":
        out.mkdir()
    elif kind == "pipe":
        os.mkfifo(out)
    elif kind == "link to itself":
        out.symlink_to("out")
    elif kind == "dangling link":
        out.symlink_to("real")
    elif kind == "link into no folder":
        out.symlink_to("none/real")
    elif kind == "link to a pipe":
        os.mkfifo(folder / "pipe")
        out.symlink_to("pipe")
    elif kind == "link to the null device":
        out.symlink_to("/dev/null")
    else:
        (folder / "real").write_text("a\nb")
        out.symlink_to("real")


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("folder", False),
        ("pipe", False),
        ("link to itself", False),
        ("dangling link", True),
        ("link into no folder", False),
        ("link to a pipe", False),
        ("link to the null device", False),
        ("link to an output", True),
    ],
)
def test_an_output_that_is_no_file(tmp_path: Path, kind: str, right: bool) -> None:
    (tmp_path / "in").write_text("a\nc\n")
    place(tmp_path, kind)
    before = sorted(os.listdir(tmp_path))
    _, error = attempt(lambda: translate(tmp_path, Echo(1), append=True))
    assert bool(error) != right
    if right:
        assert (tmp_path / "out").is_symlink()
        assert (tmp_path / "real").read_text() == "a\nc\n"
    else:
        assert "expected a" in error
        assert sorted(os.listdir(tmp_path)) == before


@sizes(20)
def test_prefixes_and_input_of_different_length_are_refused(
    tmp_path: Path, window: Callable[[int], None], count: int
) -> None:
    prefix = str(tmp_path / "prefix")

    @fuzz(count, done=st.integers(0, 4), lines=st.integers(0, 4), prefixes=st.integers(0, 4))
    def check(done: int, lines: int, prefixes: int) -> None:
        assume(lines != prefixes or lines < done)
        (tmp_path / "in").write_text("a\n" * lines)
        (tmp_path / "prefix").write_text("p\n" * prefixes)
        (tmp_path / "out").write_text("x\n" * done + "y")
        window(2)
        with pytest.raises(UserError, match="--prefix|--append"):
            translate(tmp_path, Echo(1), append=True, prefix=prefix)  # type: ignore[arg-type]
        assert (tmp_path / "out").read_text() == "x\n" * done + "y"
