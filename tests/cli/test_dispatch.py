"""The console script."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.cli import dispatch

PACKAGE = Path(dispatch.__file__).parents[1]


def test_every_entry_point_is_a_command() -> None:
    """An entry point is a module, or the ``__main__`` of a package, that calls ``run_main``."""
    files = [*PACKAGE.glob("*.py"), *PACKAGE.glob("*/__main__.py")]
    found = {
        path.parent.name if path.stem == "__main__" else path.stem
        for path in files
        if "@run_main(" in path.read_text("utf-8")
    }
    assert found == set(dispatch.COMMANDS)
    assert {path.parent.name for path in files if path.stem == "__main__"} == set(dispatch.PACKAGES)


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_help_lists_the_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch.main(words) == 0
    text = capsys.readouterr().out
    for name, purpose in dispatch.COMMANDS.items():
        assert f"  {name:12}{purpose}\n" in text


def test_the_list_imports_no_tensorflow() -> None:
    code = (
        "import sys\nfrom keras_transformer.cli import dispatch\ndispatch.main([])\n"
        "assert not {'tensorflow', 'keras', 'numpy', 'jsonargparse'} & sys.modules.keys()"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=PACKAGE.parent
    )


def test_a_command_gets_its_words_and_its_status_returns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    score = importlib.import_module("keras_transformer.score")
    words: list[list[str]] = []
    monkeypatch.setattr(score, "main", lambda argv: words.append(argv) or 7)
    monkeypatch.setattr(sys, "argv", ["keras-translate", "score", "--run", "r"])
    assert dispatch.main() == 7
    assert words == [["--run", "r"]]
    assert dispatch.main(["trian"]) == 2
    assert "unknown command 'trian'; did you mean train?" in capsys.readouterr().err
    assert dispatch.main(["xyz"]) == 2
    assert "expected one of train, translate," in capsys.readouterr().err
