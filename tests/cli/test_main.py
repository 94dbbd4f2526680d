"""Exit status, messages and signals of every entry point."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from keras_transformer.cli import main as cli_main
from keras_transformer.errors import UserError

ENTRY_POINTS = ("train", "translate", "evaluate", "score")


def status(error: BaseException | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    @cli_main.run_main("train")
    def main(argv: Sequence[str]) -> None:
        if error is not None:
            raise error

    return main([]), capsys.readouterr().err


def test_exit_status_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(None, capsys) == (0, "")
    assert status(UserError("bad x"), capsys) == (2, "keras_transformer.train: error: bad x\n")
    assert status(KeyboardInterrupt(), capsys) == (130, "interrupted\n")
    missing = FileNotFoundError(2, "No such file or directory", "text/a.en")
    assert status(missing, capsys) == (
        2,
        "keras_transformer.train: error: text/a.en: No such file or directory\n",
    )
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # a write has no file name
    assert status(full, capsys) == (
        2,
        "keras_transformer.train: error: No space left on device\n",
    )


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGTERM, "terminated\n"),
        (signal.SIGHUP, "ended by SIGHUP\n"),
        (signal.SIGXCPU, "ended by SIGXCPU\n"),
    ],
)
def test_a_stop_signal_becomes_an_exit(
    number: signal.Signals, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned = []

    def work() -> None:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGHUP)  # the shell repeats that of the kernel
            cleaned.append(True)

    before = {each: signal.signal(each, signal.SIG_DFL) for each in (number, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit) as ended, cli_main.exit_on_signals():
            work()
        after = signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN
        assert signal.getsignal(number) == after  # it may come again while the process exits
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert ended.value.code == 128 + number
    assert cleaned == [True]
    assert capsys.readouterr().err == message


def test_a_signal_ignored_by_nohup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with cli_main.exit_on_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_defect_keeps_its_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="defect"):
        status(ValueError("a defect"), capsys)
    with pytest.raises(OSError, match="disk"):
        status(OSError("disk"), capsys)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_mistakes_end_with_status_2_before_anything_is_loaded(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"keras_transformer.{name}")

    assert module.main(["--bogus", "1"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"keras_transformer.{name}: error: unknown option --bogus")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("train", "--data.train text/train --data.dev text/val", "--run DIR is missing"),
        ("translate", "", "--run DIR is missing"),
        ("score", "--source a", "--target FILE is missing"),
        ("evaluate", "", "expected --run DIR or --hypotheses FILE"),
        ("evaluate", "--run r --hypotheses h --reference f", "one of the two"),
        ("evaluate", "--run r --source a", "--reference FILE is missing"),
        ("evaluate", "--run r --reference a", "--source FILE is missing"),
        ("evaluate", "--run r --data d --reference a", "not both"),
        ("evaluate", "--run r --data d --moses --tokenize zh", "not both"),
        ("evaluate", "--hypotheses h --reference a", "--target_language CODE is missing"),
        (
            "evaluate",
            "--hypotheses h --reference a --target_language=",
            "--target_language CODE is missing",
        ),
        ("evaluate", "--hypotheses h --reference a --output o", "are saved already"),
    ],
)
def test_missing_and_contradictory_options_are_named(
    name: str, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"keras_transformer.{name}")

    assert module.main(words.split()) == 2
    assert message in capsys.readouterr().err


def test_a_closed_output_ends_with_status_141() -> None:
    code = (
        "from keras_transformer.cli.main import run_main\n"
        "@run_main('train')\n"
        "def main(argv):\n"
        "    for _ in range(100_000): print('a line of text')\n"
        "raise SystemExit(main([]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        message = process.stderr.read()

    assert process.returncode == 141
    assert message == b""


def test_a_closed_standard_error_changes_no_status() -> None:
    code = (
        "import sys\n"
        "from keras_transformer.cli.main import run_main\n"
        "@run_main('train')\n"
        "def main(argv):\n"
        "    print('ready', flush=True); sys.stdin.readline()\n"
        "    for _ in range(3): print('a line of text', file=sys.stderr)\n"
        "raise SystemExit(main([]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stderr.close()
        process.stdin.close()

    assert process.returncode == 0


def test_windows_is_sent_to_wsl(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        with pytest.raises(UserError, match="^Windows: .*WSL 2"):
            cli_main.import_tensorflow()


def test_the_commands_need_no_module_of_unix() -> None:
    code = (
        "import sys, signal, os\n"
        "for name in ('fcntl', 'resource', 'termios', 'pwd', 'grp'): sys.modules[name] = None\n"
        "del signal.SIGHUP, signal.SIGXCPU, os.sched_getaffinity, os.confstr\n"
        "from keras_transformer import train, translate, evaluate, score, export, serve\n"
        "sys.exit(train.main(['--run', 'gs://bucket/run']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_without_a_folder_for_temporary_files_the_import_log_is_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(cli_main.tempfile, "TemporaryFile", fail)
    with cli_main._without_import_log():
        os.write(2, b"I0000 00:00:1 port.cc:153] hello\n")
    assert capfd.readouterr().err == "I0000 00:00:1 port.cc:153] hello\n"


def test_other_lines_of_the_import_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with cli_main._without_import_log():
        os.write(2, b"I0000 00:00:1 port.cc:153] hello\nE0000 00:00:2 a real error\n")

    assert capfd.readouterr().err == "E0000 00:00:2 a real error\n"


def test_control_characters_of_names_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    error = UserError("a\x1b[2Jb\r\x9b.en: no\ttext\nin 我")
    _, message = status(error, capsys)
    assert message == "keras_transformer.train: error: a\\x1b[2Jb\\r\\x9b.en: no\ttext\nin 我\n"
