"""The run folder: it describes itself, and later commands read everything from it.

config.yaml            the resolved configuration
versions.json          of Python, TensorFlow and the other libraries
tokenizer/  data/      the SentencePiece models and the encoded corpora
log.txt  metrics.jsonl progress for people and for programs
checkpoints/           the last ones, with optimizer and dropout state, for --resume
best.weights.h5        the weights that translate
dev.translations.txt   what they make of the dev set
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from keras_transformer.config import Config, from_dict, to_dict
from keras_transformer.data.prepare import Prepared, prepare
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError

if TYPE_CHECKING:
    import keras

_LIBRARIES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "numpy", "sacrebleu")


class RunError(UserError):
    """A run folder that cannot be made or used."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder.

    Args:
        path: The folder.
        config: What `config.yaml` in it says.
    """

    path: Path
    config: Config

    @classmethod
    def create(cls, path: Path, config: Config, log: Callable[[str], None]) -> tuple[Run, Prepared]:
        """Prepare the data and make the folder, whole or not at all.

        Args:
            path: The folder to make.
            config: The configuration; vocabulary sizes of 0 are filled in.
            log: Called with lines about the data.

        Returns:
            The run, and its data.

        Raises:
            RunError: Something is there already.
            UserError: The data or the configuration cannot be used; nothing is left behind.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(
                f"{path}: exists already; go on with it by --resume, or name another --run"
            )
        staging = path.with_name(f".{path.name}.partial")
        shutil.rmtree(staging, ignore_errors=True)  # left by a start that was killed
        try:
            staging.mkdir(parents=True)
            prepared = prepare(config.data, staging, log)
            config = _with_vocabulary(config, prepared.tokenizer)
            text = yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)
            (staging / "config.yaml").write_text(text, encoding="utf-8")
            (staging / "versions.json").write_text(json.dumps(versions(), indent=2) + "\n")
            if path.exists():
                path.rmdir()
            staging.rename(path)
        except OSError as error:
            raise RunError(f"{path}: cannot make the run folder: {error}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return cls(path, config), prepare(config.data, path, lambda line: None)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open the folder of an earlier run.

        Raises:
            RunError: There is no run.
            ConfigError: Its configuration is damaged.
        """
        file = path / "config.yaml"
        if not file.is_file():
            raise RunError(f"{path}: expected a run folder with config.yaml, found none")
        try:
            values = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RunError(f"{file}: cannot be read: {error}") from error
        if not isinstance(values, dict):
            raise RunError(f"{file}: expected sections with fields, got {values!r}")
        return cls(path, from_dict(values))

    @property
    def best_weights(self) -> Path:
        """The file of the weights that translate."""
        return self.path / "best.weights.h5"

    def prepared(self, log: Callable[[str], None]) -> Prepared:
        """The data of this run, as they were prepared when it began.

        Raises:
            DataError: The corpus has changed since then.
        """
        return prepare(self.config.data, self.path, log)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of this run."""
        return Tokenizer.load(self.path / "tokenizer")

    def model(self) -> keras.Model:
        """The network with its best weights.

        Raises:
            RunError: There are no weights yet, or they belong to another architecture.
        """
        from keras_transformer.model import transformer

        if not self.best_weights.is_file():
            raise RunError(
                f"{self.path}: no {self.best_weights.name} yet; it comes with the first checkpoint"
            )
        model = transformer.build(self.config.model)
        try:
            model.load_weights(self.best_weights)
        except (ValueError, OSError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise RunError(f"{self.best_weights}: cannot be loaded: {reason}") from error
        return model

    def save_best(self, model: keras.Model) -> None:
        """Store the weights of ``model`` as the best, written aside and then renamed."""
        aside = self.path / ".writing.weights.h5"
        model.save_weights(aside)
        os.replace(aside, self.best_weights)

    def write_dev_translations(self, lines: list[str]) -> None:
        """Store what the best weights make of the dev set."""
        aside = self.path / ".writing.translations"
        aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        os.replace(aside, self.path / "dev.translations.txt")


def versions() -> dict[str, Any]:
    """Versions of Python and of the libraries that a result depends on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _LIBRARIES:
        found[name] = importlib.metadata.version(name)
    return found


def _with_vocabulary(config: Config, tokenizer: Tokenizer) -> Config:
    """The configuration with the sizes that the tokenizer has."""
    source, target = tokenizer.source.size, tokenizer.target.size
    for name, size in (("source_vocabulary", source), ("target_vocabulary", target)):
        given = getattr(config.model, name)
        if given not in (0, size):
            raise RunError(f"model.{name}: expected 0 or the tokenizer's {size}, got {given}")
    model = dataclasses.replace(config.model, source_vocabulary=source, target_vocabulary=target)
    return dataclasses.replace(config, model=model)
