"""The run folder: it describes itself, and later commands read everything from it.

config.yaml            the resolved configuration
versions.json          of Python, TensorFlow and the other libraries
tokenizer/  data/      the SentencePiece models and the encoded corpora
log.txt                progress for people
metrics.jsonl          progress for programs: a record for each checkpoint and average
steps.jsonl            one for every train.log_every steps
curves.png             both as a picture
tensorboard/           event files, where train.tensorboard is true
checkpoints/           the last ones, with optimizer and dropout state, for --resume
best.weights.h5        the weights that translate
best/                  those of the best checkpoints, where several are kept
dev.translations.txt   what they make of the dev set
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from keras_transformer import system
from keras_transformer.config import Config, ConfigError, from_dict, to_dict
from keras_transformer.data.corpus import DataError, Pair
from keras_transformer.data.prepare import Prepared, dev_text, prepare
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.system import FileError

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
            RunError: Something is there already, or is being made by another process.
            UserError: The data or the configuration cannot be used; no run is left behind.
        """
        _check_free(path)
        staging = path.with_name(f".{path.name}.partial")
        try:
            staging.mkdir(parents=True, exist_ok=True)
            with system.lock(staging):
                run = cls._stage(staging, config, log)
                staging.rename(path)
        except OSError as error:
            raise RunError(f"{path}: cannot make the run folder: {error}") from error
        run = dataclasses.replace(run, path=path)
        return run, run.prepared(lambda line: None)

    @classmethod
    def _stage(cls, staging: Path, config: Config, log: Callable[[str], None]) -> Run:
        """Make the run in a folder of which nothing stays if that fails."""
        try:
            for name in os.listdir(staging):  # left by a start that was killed
                system.remove(staging / name)
            prepared = prepare(config.data, staging, log)
            run = cls(staging, _with_vocabulary(config, prepared.tokenizer))
            run.write_config()
            text = json.dumps(versions(), indent=2) + "\n"
            (staging / "versions.json").write_text(text, encoding="utf-8")
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        return run

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open the folder of an earlier run.

        Raises:
            RunError: There is no run, or its configuration is damaged.
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
        try:
            return cls(path, from_dict(values))
        except (ConfigError, TypeError) as error:  # TypeError: text where a number belongs
            raise RunError(f"{file}: {error}") from error

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from training in this folder.

        Raises:
            FileError: Another process does so now.
        """
        with system.lock(self.path):
            yield

    @property
    def best_weights(self) -> Path:
        """The file of the weights that translate."""
        return self.path / "best.weights.h5"

    def check_weights(self) -> None:
        """See that there are weights to translate with, without reading them.

        Raises:
            RunError: There are none yet.
        """
        if not self.best_weights.is_file():
            raise RunError(
                f"{self.path}: no {self.best_weights.name} yet; it comes with the first checkpoint"
            )

    def prepared(self, log: Callable[[str], None]) -> Prepared:
        """The data of this run, as they were prepared when it began.

        Raises:
            DataError: The corpus has changed since then.
        """
        return prepare(self.config.data, self.path, log, self.tokenizer())

    def prepared_anew(self, log: Callable[[str], None]) -> Prepared:
        """The data of this run, prepared anew with its tokenizer where the corpus has changed.

        Raises:
            UserError: The corpus cannot be used; the data of before stay.
        """
        try:
            return self.prepared(log)
        except DataError as error:
            log(f"{error}; preparing anew")
        staging = self.path / ".preparing"
        try:
            if staging.exists():  # left by a start that was killed
                system.remove(staging)
            staging.mkdir()
            prepare(self.config.data, staging, log, self.tokenizer())
            system.remove(self.path / "data")
            (staging / "data").rename(self.path / "data")
        except OSError as error:
            raise RunError(f"{self.path}: cannot prepare the data: {error}") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return self.prepared(log)

    def dev_pairs(self) -> list[Pair]:
        """The text of the dev set; the corpus itself is not needed any more.

        Raises:
            DataError: It is not there.
        """
        return dev_text(self.path)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of this run."""
        return Tokenizer.load(self.path / "tokenizer")

    def model(self, dtype: str = "float32") -> keras.Model:
        """The network with its best weights.

        Args:
            dtype: What the weights are kept and computed in: "float32" or "bfloat16".

        Raises:
            RunError: There are no weights yet, or they belong to another architecture.
        """
        from keras_transformer.model import transformer

        self.check_weights()
        # Without a backward pass there is little memory to save by blocks.
        model = transformer.build(dataclasses.replace(self.config.model, attention="plain"), dtype)
        try:
            model.load_weights(self.best_weights)
            found = _parameters(self.best_weights)
        except (ValueError, OSError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise RunError(f"{self.best_weights}: cannot be loaded: {reason}") from error
        if found != model.count_params():  # Keras passes over what has no place in the model
            raise RunError(
                f"{self.best_weights}: expected the {model.count_params():,} parameters of the "
                f"model in config.yaml, got {found:,}"
            )
        return model

    def save_best(self, model: keras.Model) -> None:
        """Store the weights of ``model`` as the best, without its optimizer.

        Raises:
            FileError: The file cannot be written; what was there before stays.
        """
        self._save(model, self.best_weights)

    def save_one_of_the_best(self, model: keras.Model, step: int) -> None:
        """Store the weights of ``model`` in ``best/STEP.weights.h5``.

        Raises:
            FileError: The file cannot be written.
        """
        try:
            (self.path / "best").mkdir(exist_ok=True)
        except OSError as error:
            raise FileError(f"{self.path / 'best'}: cannot be made: {error}") from error
        self._save(model, self.path / "best" / f"{step}.weights.h5")

    def keep_only(self, steps: set[int]) -> None:
        """Delete what is in ``best/`` of other steps."""
        for path in (self.path / "best").glob("*.weights.h5"):
            if path.name not in {f"{step}.weights.h5" for step in steps}:
                path.unlink()

    def _save(self, model: keras.Model, path: Path) -> None:
        import keras

        bare = keras.Model(model.input, model.output)
        system.check_space(self.path, 4 * model.count_params())
        with system.atomic_file(path) as place:
            bare.save_weights(place)

    def write_config(self) -> None:
        """Store the configuration in the folder.

        Raises:
            FileError: The file cannot be written; what was there before stays.
        """
        text = yaml.safe_dump(to_dict(self.config), sort_keys=False, allow_unicode=True)
        with system.atomic_file(self.path / "config.yaml") as place:
            place.write_text(text, encoding="utf-8")

    def write_dev_translations(self, lines: list[str]) -> None:
        """Store what the best weights make of the dev set.

        Raises:
            FileError: The file cannot be written; what was there before stays.
        """
        with system.atomic_file(self.path / "dev.translations.txt") as place:
            place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def versions() -> dict[str, Any]:
    """Versions of Python and of the libraries that a result depends on."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # as with TensorFlow's other builds
            found[name] = "not installed under this name"
    return found


def _check_free(path: Path) -> None:
    """Refuse a place where no run folder can be made."""
    if path.name in ("", ".."):  # "." has no name either
        raise RunError(f"{path}: expected the name of a folder to make")
    if path.is_dir():
        if any(path.iterdir()):
            raise RunError(
                f"{path}: exists already; go on with it by --resume, or name another --run"
            )
    elif path.exists() or path.is_symlink():
        raise RunError(f"{path}: expected a folder to make, found something else there")


def _parameters(weights: Path) -> int:
    """Numbers in a file of weights; states of dropout are whole numbers and do not count."""
    import h5py

    sizes: list[int] = []

    def count(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            sizes.append(item.size)

    with h5py.File(weights) as file:
        file["layers"].visititems(count)
    return sum(sizes)


def _with_vocabulary(config: Config, tokenizer: Tokenizer) -> Config:
    """The configuration with the sizes that the tokenizer has."""
    source, target = tokenizer.source.size, tokenizer.target.size
    for name, size in (("source_vocabulary_size", source), ("target_vocabulary_size", target)):
        given = getattr(config.model, name)
        if given not in (0, size):
            raise RunError(f"model.{name}: expected 0 or the tokenizer's {size}, got {given}")
    model = dataclasses.replace(
        config.model, source_vocabulary_size=source, target_vocabulary_size=target
    )
    return dataclasses.replace(config, model=model)
