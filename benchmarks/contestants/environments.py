"""Virtual environments of the peers, created on first use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = {
    # TensorFlow Addons and typeguard still ask for pkg_resources.
    "opennmt-tf": ["OpenNMT-tf==2.32.0", "tensorflow==2.13.*", "setuptools<81", "sentencepiece"],
    "ctranslate2": ["ctranslate2>=4.8", "sentencepiece"],
    "plot": ["matplotlib>=3.9"],
}


def python(folder: Path, name: str) -> str:
    """Return the interpreter of an environment.

    Args:
        folder: Where the environments are.
        name: One of ``REQUIREMENTS``.
    """
    place, wanted = folder / name, "\n".join(REQUIREMENTS[name])
    interpreter, done = place / "bin" / "python", place / "installed.txt"
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        print(f"setting up {place}", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([_base(name), "-m", "venv", place], check=True)
        pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *REQUIREMENTS[name]], check=True)
        done.write_text(wanted, encoding="utf-8")
    return str(interpreter)


def _base(name: str) -> str:
    """Return the Python for an environment; TensorFlow 2.13 supports none after 3.11."""
    if name != "opennmt-tf" or sys.version_info < (3, 12):
        return sys.executable
    for version in ("3.11", "3.10", "3.9"):
        if found := shutil.which(f"python{version}"):
            return found
    raise SystemExit("OpenNMT-tf: expected python3.11, 3.10 or 3.9 on the path, found none")
