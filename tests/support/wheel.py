"""The wheel of the package, installed outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from keras_transformer.optional_dependencies import EXTRAS

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Build from a copy of the sources: a build leaves files beside them."""
    sources = copy_sources(folder)
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    call(sys.executable, "-m", "pip", "wheel", *options, str(sources), cwd=folder)
    (wheel,) = folder.glob("keras_translate-*.whl")
    return wheel


def copy_sources(folder: Path) -> Path:
    """Copy what a distribution is built from, and return the copy."""
    sources = folder / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "keras_transformer"):
        subprocess.run(["cp", "-r", str(ROOT / name), str(sources)], check=True)
    return sources


def install(wheel: Path, environment: Path, extras: bool = False) -> Path:
    """Install a wheel into a new environment with the packages of this one, or without extras.

    Returns:
        The folder of its scripts and of `python`.
    """
    venv.create(environment, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    hidden = sorted({module for modules in EXTRAS.values() for module in modules if not extras})
    (packages / "outer.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n"
        f"import sys; sys.modules.update(dict.fromkeys({hidden}))\n"  # importing them fails
    )
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    call(*pip, "install", "--no-deps", "--no-index", "--quiet", str(wheel), cwd=environment)
    return environment / "bin"


def call(*words: str | Path, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, (words, done.stderr[-3000:])
    return done
