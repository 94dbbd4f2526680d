"""Standard streams that are closed, non-blocking or in another encoding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.cli import standard_streams

ROOT = Path(__file__).parents[2]
CODE = """
import os, sys
from keras_transformer.cli.main import run_main

@run_main("train")
def main(argv):
    first = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    os.write(first, b"%d " % first)
    child = os.fork()  # what it prints must not get into the file
    if not child:
        os.execv(sys.executable, [sys.executable, "-c", "print(1, input() if 0 else 2)"])
    os.waitpid(child, 0)
    print("out", sys.argv[2:], sys.stdin.read(), file=sys.stdout)
    print("err", os.fsdecode(b"caf\\xe9"), file=sys.stderr)

sys.exit(main())
"""


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&-", "2>&-"])
def test_closed_streams_are_empty_and_take_everything(tmp_path: Path, closed: str) -> None:
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", CODE, tmp_path / "file"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    number = int((tmp_path / "file").read_bytes())  # and nothing else
    assert number > 2
    assert done.stdout == (b"" if ">&- " in closed else b"1 2\nout [] \n")
    assert done.stderr == (b"" if "2>" in closed else b"err caf\\udce9\n")


def test_results_for_a_closed_output_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    """Hours of work would be lost; the command ends before it looks for the run."""
    command = [sys.executable, "-m", "keras_transformer.translate", "--run", "none", "file"]
    words = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == (
        b"keras_transformer.translate: error: standard output is closed; expected a place for the "
        b"results\n"
    )


def test_a_pipe_that_does_not_block_is_made_to_block() -> None:
    """Else reading ends at the first pause, and a write into a full pipe fails."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = [os.dup(descriptor) for descriptor in (0, 1)]
    try:
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        standard_streams.prepare()
    finally:
        for descriptor, handle in enumerate(before):
            os.dup2(handle, descriptor)
            os.close(handle)
    assert os.get_blocking(reading)
    assert os.get_blocking(writing)
    os.close(reading)
    os.close(writing)
