"""Continuation of an output file after a killed translation."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_transformer import system
from keras_transformer.cli import streams
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.resume_output import completed_lines, continue_output, skip

# Three lines of input: as many lines of output, or two for the first and three for the last.
PLAIN = "ein Hund\n\n爱我\n".encode()
NUMBERED = "1\tein Hund\n1\tder Hund\n2\t\n3\t爱\n3\t我\n3\t爱我\n".encode()


def finish(place: Path, numbered: bool) -> None:
    """Complete an output as ``translate --append`` does."""
    lines = (NUMBERED if numbered else PLAIN).decode().splitlines(keepends=True)
    with continue_output(place, numbered) as (stream, done):
        for line in lines if numbered else lines[done:]:
            if not numbered or int(line.partition("\t")[0]) > done:
                stream.write(line)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(numbered=st.booleans(), size=st.integers(0, len(NUMBERED)))
def test_wherever_a_run_was_killed_the_next_completes_it(
    tmp_path: Path, numbered: bool, size: int
) -> None:
    text = NUMBERED if numbered else PLAIN
    place = tmp_path / "out"
    place.write_bytes(text[:size])  # in the middle of a character, too
    finish(place, numbered)
    assert place.read_bytes() == text
    finish(place, numbered)
    assert place.read_bytes() == text


def test_completed_lines_counted_by_hand(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_bytes(b"one\n\nthree\nfo")
    assert completed_lines(place, numbered=False) == (3, len(b"one\n\nthree\n"))
    place.write_bytes(b"1\ta\n1\tb\n2\tc\n2\td")
    assert completed_lines(place, numbered=True) == (1, len(b"1\ta\n1\tb\n"))  # 2 may have had more


@pytest.mark.parametrize("line", ["Hund", "Hund\t1", "0\tHund", "-1\tHund"])
def test_lines_without_a_number_are_refused_and_kept(tmp_path: Path, line: str) -> None:
    place = tmp_path / "out"
    place.write_text(f"1\tein\n{line}\nhal")
    with pytest.raises(UsageError, match="out, line 2: expected the number of an input line"):
        finish(place, numbered=True)
    assert place.read_text() == f"1\tein\n{line}\nhal"


def test_two_writers_of_one_file_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with (
        continue_output(place, False),
        pytest.raises(system.FileError, match="another process"),
        continue_output(place, False),
    ):
        pass
    with (
        streams.output(str(place)),
        pytest.raises(system.FileError, match="another process"),
        continue_output(place, False),
    ):
        pass


def test_a_device_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="expected a regular file"),
        continue_output(Path("/dev/null"), False),
    ):
        pass


def test_fewer_input_than_output_lines_are_refused_with_both_counts() -> None:
    assert list(skip(iter("abc"), 1, "input")) == ["b", "c"]
    assert list(skip(iter("abc"), 3, "input")) == []
    with pytest.raises(UsageError, match=r"already has 4 lines; .* in input, got 3"):
        skip(iter("abc"), 4, "input")
