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
    "hugging-face": [
        *("transformers==5.24.0", "torch==2.13.0", "sentencepiece", "sacremoses", "safetensors"),
    ],
    "marian": ["pymarian==1.12.42", "sentencepiece", "numpy"],
    "joeynmt": ["joeynmt==2.3.0", "torch==2.13.0", "importlib_metadata", "sentencepiece<0.2.1"],
    # What the source of fairseq imports; it is not built.
    "fairseq": [
        *("torch==2.13.0", "hydra-core==1.3.2", "omegaconf==2.3.0", "bitarray", "sacrebleu"),
        "scikit-learn",
        "tqdm",
    ],
}
SOURCES = {"fairseq": "fairseq-fixed==0.12.3.1"}
"""Packages whose source archive is used as it is, by environment."""


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
        if name in SOURCES:
            options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"]
            subprocess.run(
                [interpreter, "-m", "pip", "download", "--quiet", *options, SOURCES[name]],
                cwd=place, check=True,
            )  # fmt: skip
            shutil.unpack_archive(next(place.glob("*.tar.gz")), place / "source")
        done.write_text(wanted, encoding="utf-8")
    return str(interpreter)


def source(folder: Path, name: str) -> Path:
    """Return the root of the source archive of an environment, for ``PYTHONPATH``."""
    python(folder, name)
    return next((folder / name / "source").iterdir())


def _base(name: str) -> str:
    """Return the Python for an environment; TensorFlow 2.13 supports none after 3.11."""
    if name != "opennmt-tf" or sys.version_info < (3, 12):
        return sys.executable
    for version in ("3.11", "3.10", "3.9"):
        if found := shutil.which(f"python{version}"):
            return found
    raise SystemExit("OpenNMT-tf: expected python3.11, 3.10 or 3.9 on the path, found none")
