"""Generator of the notebooks: percent scripts become executed .ipynb files.

A notebook runs in an empty folder. Its outputs stay, without standard error, times and ids that
change from run to run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "notebooks"
COMMAND = "python -m tools.notebooks"
CELL_SECONDS = 600
SKIPPED = "skip-execution"
"""Tag of cells that are shown and never run, such as the installation."""

_ABOUT_WIDGETS = re.compile(r".*TqdmWarning: IProgress not found.*\n")
"""The one warning that is no fault of a notebook: a progress bar without ipywidgets."""

_BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
_MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|usr|var|work|opt|Users)/|site-packages")
_HIDDEN = re.compile(r"<[\w.]+ object at 0x[0-9a-f]+>|0x[0-9a-f]{8,}")

Notebook = Any
"""`nbformat.NotebookNode`, a dictionary whose keys are attributes too."""


class NotebookError(Exception):
    """A notebook that fails, warns, or shows something of the machine it ran on."""


def names() -> list[str]:
    """Return the names of all notebooks, in their order."""
    return sorted(path.stem for path in FOLDER.glob("[0-9]_*.py"))


def from_script(name: str) -> Notebook:
    """Return the notebook of a script, not executed, with the same ids in every run."""
    notebook = jupytext.read(FOLDER / f"{name}.py", fmt="py:percent")
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index}"
    first = notebook.cells[0]
    first.source = f"{badge(name)}\n\n{first.source}"
    return notebook


def badge(name: str) -> str:
    """Return the line "Open in Colab", with the address of the project in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return f"[![Open in Colab]({_BADGE})]({colab_address(project['urls']['Homepage'], name)})"


def colab_address(homepage: str, name: str) -> str:
    """Return where a notebook opens: in Colab if the project is on GitHub, else its own file.

    >>> colab_address("https://github.com/owner/project", "1_a")
    'https://colab.research.google.com/github/owner/project/blob/main/notebooks/1_a.ipynb'
    """
    home = homepage.rstrip("/").replace(
        "https://github.com/", "https://colab.research.google.com/github/"
    )
    return f"{home}/blob/main/notebooks/{name}.ipynb"


def execute(notebook: Notebook, folder: Path, python: Path, environment: dict[str, str]) -> None:
    """Execute a notebook and clean its outputs.

    Args:
        notebook: Gets the outputs.
        folder: The working folder, outside the checkout.
        python: The interpreter of the kernel.
        environment: Variables added to those of this process.

    Raises:
        NotebookError: A cell fails or warns, or an output has a path of this machine.
    """
    with tempfile.TemporaryDirectory() as temporary:
        kernel = Path(temporary, "kernels", "notebook")
        kernel.mkdir(parents=True)
        argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        description = {"argv": argv, "display_name": "Python 3", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(description), encoding="utf-8")
        specs = KernelSpecManager(kernel_dirs=[str(kernel.parent)], ensure_native_kernel=False)
        client = NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_name="notebook", kernel_spec_manager=specs),
            coalesce_streams=True,  # else the parts of an output depend on its timing
            timeout=CELL_SECONDS,
            resources={"metadata": {"path": str(folder)}},
            record_timing=False,
        )
        variables = os.environ | {"IPYTHONDIR": temporary} | environment
        variables.pop("MPLBACKEND", None)  # the kernel's own shows figures
        try:
            client.execute(env=variables, cleanup_kc=True)  # else the kernel stays alive
        except CellExecutionError as error:
            raise NotebookError(str(error)) from error
    _refuse_warnings(notebook)
    _clean(notebook)
    _refuse_machine_paths(notebook)


def _refuse_warnings(notebook: Notebook) -> None:
    for cell, output in _outputs(notebook):
        if output.get("name") != "stderr":
            continue
        if "Warning" in _ABOUT_WIDGETS.sub("", output.text):
            raise NotebookError(f"a warning\n{cell.source}\n{output.text}")


def _refuse_machine_paths(notebook: Notebook) -> None:
    for cell, output in _outputs(notebook):
        for text in _texts(output):
            if _MACHINE_PATH.search(text) or _HIDDEN.search(text):
                raise NotebookError(
                    f"an output with a path or an address of this machine\n{cell.source}\n{text}"
                )


def _outputs(notebook: Notebook) -> list[tuple[Any, Any]]:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell, output) for cell in cells for output in cell.outputs]


def _texts(output: Any) -> list[str]:
    """Return the texts of an output, without images."""
    if "text" in output:
        return [output.text]
    data = output.get("data", {})
    return [text for kind, text in data.items() if kind.startswith("text/")]


def _clean(notebook: Notebook) -> None:
    """Remove what changes from run to run, and what readers do not need."""
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        kept = []
        for output in cell.outputs:
            if output.get("name") == "stderr":
                continue
            if output.output_type == "error":  # a cell that fails on purpose
                output.traceback = [f"{output.ename}: {output.evalue}"]
            if "image/png" in output.get("data", {}):
                output.data.pop("text/plain", None)
                output.metadata = {}
            kept.append(output)
        cell.outputs = kept
        if SKIPPED not in cell.metadata.get("tags", []):
            number += 1
            cell.execution_count = number
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = number


def differences(name: str) -> list[str]:
    """Return a line for each difference between a script and its notebook, outputs aside."""
    path = FOLDER / f"{name}.ipynb"
    if not path.is_file():
        return [f"{path.name}: missing"]
    made, written = from_script(name), nbformat.read(path, as_version=4)
    if len(made.cells) != len(written.cells):
        return [f"{path.name}: {len(written.cells)} cells, the script has {len(made.cells)}"]
    return [
        f"{path.name}: cell {index} differs from the script"
        for index, (one, other) in enumerate(zip(made.cells, written.cells, strict=True))
        if (one.cell_type, one.source) != (other.cell_type, other.source)
    ]


def build(name: str, quick: bool = False) -> float:
    """Write an executed notebook beside its script; return the seconds that it ran."""
    notebook = from_script(name)
    variables = {"PYTHONPATH": str(ROOT), "NOTEBOOK_QUICK": "1" if quick else "0"}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder), Path(sys.executable), variables)
    nbformat.validate(notebook)
    nbformat.write(notebook, FOLDER / f"{name}.ipynb")
    return time.monotonic() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Make or check notebooks."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Make the notebooks from scripts.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--check", action="store_true", help="compare, execute nothing")
    parser.add_argument("--quick", action="store_true", help="the sizes of the tests")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"NAME: expected some of {', '.join(names())}, got {', '.join(unknown)}")
    found = []
    for name in options.names or names():
        if options.check:
            found += differences(name)
            continue
        try:
            print(f"{name}: {build(name, options.quick):.0f} s", flush=True)
        except NotebookError as error:
            found.append(f"{name}: {error}")
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
