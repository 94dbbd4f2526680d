"""The run folder, from which later commands read everything about a run.

config.yaml            resolved configuration
versions.json          format of the folder, versions of the libraries, devices of the last session,
                       the run that the initial weights come from, the model that a converted run
                       comes from
tokenizer/  data/      tokenizers and encoded corpora; a converted run has no corpus
log.txt                run log for people
metrics.jsonl          metrics for programs: a record for each checkpoint and average
steps.jsonl            a record every train.log_every steps
curves.png             learning curves of both
tensorboard/           event files, if train.tensorboard is true
checkpoints/           latest checkpoints, with optimizer and dropout state, for --resume
initial.weights.h5     initial weights, if they come from another run
best.weights.h5        best weights, which translate
best/                  weights of the best checkpoints, if several are kept
dev.translations.txt   translations of the dev set by the best weights
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from keras_transformer import builtin_models, system, weights_file
from keras_transformer.config import Config, ConfigError, from_dict, to_dict
from keras_transformer.config.fine_tuning import fine_tuning_config
from keras_transformer.config.yaml_file import read_config_file, write_config_text
from keras_transformer.data.errors import DataError
from keras_transformer.data.pairs import Pair
from keras_transformer.data.prepare import prepare, prepare_again
from keras_transformer.data.prepared import Prepared, load_dev_pairs
from keras_transformer.data.store import StoreError
from keras_transformer.data.suppressed_tokens import suppressed_tokens
from keras_transformer.data.tokenizer import Tokenizer, TokenizerError
from keras_transformer.errors import RunError
from keras_transformer.formats import (
    FORMAT_NUMBER,
    RUN_FORMAT,
    check_format,
    read_versions,
    versions,
)
from keras_transformer.named_weights import assign_weights
from keras_transformer.system import FileError

if TYPE_CHECKING:
    import keras
    import numpy as np

CONFIG = "config.yaml"
"""Name of the file without which a folder is no run; it is written last."""
VERSIONS = "versions.json"

# The last line of config.yaml. A file that was cut may still be valid YAML.
_END = "...\n"
# Keys in versions.json.
_SESSION = "last session"
_ORIGIN = "initial weights"
_CONVERTED = "converted from"


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder.

    Args:
        path: The folder.
        config: The configuration in its `config.yaml`.
    """

    path: Path
    config: Config

    @classmethod
    def create(
        cls,
        path: Path,
        config: Config,
        log: Callable[[str], None],
        *,
        tokenizer: Tokenizer | None = None,
        prepared_in: Path | None = None,
        init_from: Run | None = None,
    ) -> tuple[Run, Prepared]:
        """Prepare the data and create the run folder atomically.

        ``train --resume`` starts a run that was created here.

        Args:
            path: The folder to create.
            config: The configuration; vocabulary sizes of 0 are filled in.
            log: Called with progress lines about the data.
            tokenizer: Tokenizer to use; None learns one.
            prepared_in: Another run folder with the same section ``data`` (``on_long`` may
                differ) and the same tokenizer. Its prepared data are shared by hard links, or
                copied between file systems; they stay when either folder is removed.
            init_from: A trained run, whose tokenizer and best weights are copied into the folder.
                Training starts from them.

        Returns:
            The run and its prepared data.

        Raises:
            RunError: ``path`` exists already, and is not an empty folder; or the weights of
                ``init_from`` are missing, damaged, or of another architecture or tokenizer.
            FileError: Another process is creating the run, or the disk cannot be written.
            ChangedDataError: The data in ``prepared_in`` were prepared from something else.
            ConfigError: ``config`` describes another architecture or vocabulary than
                ``init_from``.
            UserError: The data or the configuration cannot be used; no run is left behind.
        """
        origin = ""
        if init_from is not None:
            init_from.check_initializes(path)
            origin = builtin_models.display_name(init_from.path)
            config = fine_tuning_config(init_from.config, config, origin)
            tokenizer = init_from.tokenizer()
            log(f"tokenizer: that of {origin}, vocabulary size {tokenizer.source.size}")
        if tokenizer is None:
            config.check_learnable()
        check_free(path)
        if init_from is not None:
            init_from.model()  # a run with a copy of damaged weights could never be trained
        with system.atomic_folder(path, last=CONFIG) as partial:
            prepared = prepare(config.data, partial, log, tokenizer, prepared_in)
            run = cls(partial, _with_vocabulary(config, prepared.tokenizer))
            if init_from is not None:
                shutil.copyfile(init_from.best_weights, run.initial_weights)
            run.write_config()
            run.write_versions({}, origin)
        return dataclasses.replace(run, path=path), prepared

    @classmethod
    def create_trained(
        cls,
        path: Path,
        config: Config,
        tokenizer: Tokenizer,
        weights: Mapping[str, np.ndarray],
        origin: str,
        notes: Sequence[str] = (),
        dtype: Literal["float32", "float16"] = "float32",
    ) -> Run:
        """Create the run folder of a trained model without its corpus, atomically.

        The run translates, and ``train --init_from`` trains a new one from it. It has no dev set.

        Args:
            path: The folder to create.
            config: The configuration; vocabulary sizes of 0 are filled in, and the corpora are
                left out.
            tokenizer: The tokenizer of the model.
            weights: The weights by attribute path; see `named_weights.assign_weights`.
            origin: The model that the weights come from, for versions.json.
            notes: Lines for the run log, such as differences from the system that trained it.
            dtype: Type of the weights in the file.

        Raises:
            RunError: ``path`` exists already, and is not an empty folder; or the tokenizer does
                not fit the configuration.
            NamedWeightsError: The weights are not those of the model.
            FileError: Another process is creating the run, or the disk cannot be written.
        """
        from keras_transformer.model import transformer

        check_free(path)
        config = dataclasses.replace(
            config, data=dataclasses.replace(config.data, train="", dev="")
        )
        config = _with_vocabulary(config, tokenizer)
        model = transformer.build(config.model)
        assign_weights(model, weights)
        with system.atomic_folder(path, last=CONFIG) as partial:
            run = cls(partial, config)
            tokenizer.save(partial / "tokenizer")
            run.save_best(model)
            if dtype == "float16":
                weights_file.round_to_float16(run.best_weights)
            system.write_text(partial / "log.txt", "".join(f"{line}\n" for line in notes))
            run.write_config()
            run.write_versions({}, converted_from=origin)
        return dataclasses.replace(run, path=path)

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open an existing run folder.

        Args:
            path: The folder, or the name of a built-in model such as ``builtin:phrasebook``.

        Raises:
            BuiltinModelError: There is no built-in model of this name.
            RunError: There is no run folder, or its configuration is invalid.
            FormatError: A later version of the package wrote it, or versions.json is damaged.
        """
        path = builtin_models.run_folder(path)
        system.check_local(path)
        file = path / CONFIG
        if not file.is_file():
            raise RunError(f"{path}: expected a run folder with config.yaml, found none")
        stored = read_versions(path / VERSIONS)
        check_format(path / VERSIONS, stored, stored, RUN_FORMAT)
        try:
            system.check_regular(file)
            values = read_config_file(file)
            complete = system.read_text(file).endswith(_END)
        except ConfigError as error:  # it names the file and the line
            raise RunError(str(error)) from error
        except OSError as error:
            raise RunError(f"{file}: cannot be read: {error}") from error
        if FORMAT_NUMBER in stored and not complete:
            raise RunError(f"{file}: expected '...' as its last line; it has been cut short")
        try:
            return cls(path, from_dict(values))
        except (ConfigError, FileError) as error:  # FileError: an address such as gs://bucket
            raise RunError(f"{file}: {error}") from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock this folder, so that no other process trains in it.

        Raises:
            BuiltinModelError: It is that of a built-in model.
            FileError: Another process holds the lock.
        """
        builtin_models.refuse_writing(self.path)
        with system.lock(self.path):
            yield

    @property
    def best_weights(self) -> Path:
        """File of the best weights."""
        return self.path / "best.weights.h5"

    def check_weights(self) -> None:
        """Check that the best weights exist, without reading them.

        Raises:
            RunError: There are none yet.
        """
        weights = self.best_weights
        try:
            system.check_regular(weights)
        except OSError as error:
            if not weights.exists() and not weights.is_symlink():
                raise RunError(
                    f"{self.path}: no {weights.name} yet; it comes with the first checkpoint"
                ) from None
            raise RunError(f"{weights}: cannot be read: {error.strerror}") from None

    @property
    def initial_weights(self) -> Path:
        """File of the weights that training starts from, if they come from another run."""
        return self.path / "initial.weights.h5"

    def check_initializes(self, path: Path) -> None:
        """Check that a new run at ``path`` can start from the best weights of this one.

        Raises:
            RunError: ``path`` is this run, or there are no weights yet.
        """
        if path.resolve() == self.path.resolve():
            raise RunError(f"init_from: expected another run than the new one, got {path} for both")
        self.check_weights()

    def prepared(self, log: Callable[[str], None]) -> Prepared:
        """Load the prepared data of this run.

        Raises:
            DataError: The corpus has changed since it was prepared, or the data are damaged.
            StoreError: The encoded pairs are damaged.
        """
        return prepare(self.config.data, self.path, log, self.tokenizer())

    def prepare_again(self, log: Callable[[str], None]) -> Prepared:
        """Load the prepared data, or prepare them again with the tokenizer of the run.

        A corpus that has changed and data that are damaged are prepared again.

        Raises:
            UserError: The corpus cannot be used; the earlier data stay.
        """
        try:
            return self.prepared(log)
        except (DataError, StoreError) as error:
            log(f"{error}; preparing again")
        return prepare_again(self.config.data, self.path, log, self.tokenizer())

    def dev_pairs(self) -> list[Pair]:
        """Load the text of the dev set from the run folder, without the corpus.

        Returns:
            Its pairs; none in a converted run.

        Raises:
            DataError: The file is missing or damaged.
        """
        return load_dev_pairs(self.path) if self.config.data.train else []

    def tokenizer(self) -> Tokenizer:
        """Load the tokenizer of this run."""
        return Tokenizer.load(self.path / "tokenizer")

    def model(self, dtype: str = "float32") -> keras.Model:
        """Build the model and load its best weights.

        Args:
            dtype: Precision of weights and computation: "float32" or "bfloat16".

        Raises:
            RunError: There are no weights yet, or they belong to another architecture.
        """
        from keras_transformer.model import transformer

        self.check_weights()
        # Blockwise attention saves memory only in the backward pass.
        model = transformer.build(dataclasses.replace(self.config.model, attention="plain"), dtype)
        self.load_weights(model, self.best_weights)
        return model

    def load_weights(self, model: keras.Model, path: Path) -> None:
        """Load weights of this run into a model of its architecture.

        Args:
            model: The model; its optimizer, if any, stays as it is.
            path: A weights file, in float32 or float16.

        Raises:
            RunError: The file cannot be read, or belongs to another architecture or tokenizer.
        """
        weights_file.load(model, path, self.tokenizer().fingerprint)

    def save_best(self, model: keras.Model) -> None:
        """Save the weights of ``model``, without its optimizer, as the best weights.

        Raises:
            FileError: The file cannot be written; the earlier weights stay.
        """
        self._save(model, self.best_weights)

    def save_checkpoint_weights(self, model: keras.Model, step: int) -> None:
        """Save the weights of ``model`` as ``best/STEP.weights.h5``.

        Raises:
            FileError: The file cannot be written.
        """
        try:
            (self.path / "best").mkdir(exist_ok=True)
        except OSError as error:
            raise FileError(f"{self.path / 'best'}: cannot be created: {error}") from error
        self._save(model, self.path / "best" / f"{step}.weights.h5")

    def delete_checkpoint_weights_except(self, steps: set[int]) -> None:
        """Delete the weights in ``best/`` except those of ``steps``."""
        for path in (self.path / "best").glob("*.weights.h5"):
            if path.name not in {f"{step}.weights.h5" for step in steps}:
                system.remove(path)

    def _save(self, model: keras.Model, path: Path) -> None:
        import keras

        without_optimizer = keras.Model(model.input, model.output)
        system.check_space(self.path, 4 * model.count_params())
        with system.atomic_file(path) as partial:
            without_optimizer.save_weights(partial)
            with contextlib.suppress(TokenizerError):  # a damaged one costs no weights
                weights_file.write_fingerprint(partial, self.tokenizer().fingerprint)

    def write_config(self) -> None:
        """Write the configuration to the folder.

        Raises:
            FileError: The file cannot be written; the earlier one stays.
        """
        system.write_text(self.path / CONFIG, write_config_text(to_dict(self.config)))

    def write_versions(
        self, session: Mapping[str, Any], origin: str = "", converted_from: str = ""
    ) -> None:
        """Write the format, the versions of the libraries, and the devices of a session.

        Args:
            session: Devices and variables of the session.
            origin: The run that the initial weights come from; "" keeps the stored one.
            converted_from: The model of another system that the best weights come from; "": none.

        Raises:
            FormatError: The earlier file cannot be read.
            FileError: The file cannot be written; the earlier one stays.
        """
        origin = origin or self.origin()
        values = {FORMAT_NUMBER: RUN_FORMAT, **versions(), _SESSION: dict(session)}
        if origin:
            values[_ORIGIN] = origin
        if converted_from:
            values[_CONVERTED] = converted_from
        system.write_json(self.path / VERSIONS, values)

    def origin(self) -> str:
        """Return the run that the initial weights come from; "" if they are random.

        Raises:
            FormatError: The file cannot be read.
        """
        return str(read_versions(self.path / VERSIONS).get(_ORIGIN, ""))

    def last_session(self) -> dict[str, Any]:
        """Return the devices of the last session of training; empty if they are unknown.

        Raises:
            FormatError: The file cannot be read.
        """
        session = read_versions(self.path / VERSIONS).get(_SESSION)
        return session if isinstance(session, dict) else {}

    def write_dev_translations(self, lines: list[str]) -> None:
        """Write the translations of the dev set by the best weights.

        Raises:
            FileError: The file cannot be written; the earlier one stays.
        """
        text = "".join(f"{line}\n" for line in lines)
        system.write_text(self.path / "dev.translations.txt", text)


def check_free(path: Path) -> None:
    """Check that a run folder can be created at ``path``."""
    builtin_models.refuse_writing(path)
    if path.name in ("", ".."):  # "." has no name either
        raise RunError(f"{path}: expected the name of a new folder")
    if path.is_dir():
        found = system.user_entries(path)
        if (path / CONFIG).exists():
            raise RunError(
                f"{path}: exists already; continue it with --resume, or choose another --run"
            )
        if found:
            names = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
            raise RunError(
                f"{path}: expected a new or an empty folder, found {names}; choose another --run"
            )
    elif path.exists() or path.is_symlink():
        raise RunError(f"{path}: expected a new folder, found a file or link there")


def _with_vocabulary(config: Config, tokenizer: Tokenizer) -> Config:
    """Return the configuration with the vocabulary sizes of the tokenizer."""
    source, target = tokenizer.source.size, tokenizer.target.size
    for name, size in (("source_vocabulary_size", source), ("target_vocabulary_size", target)):
        given = getattr(config.model, name)
        if given not in (0, size):
            raise RunError(f"model.{name}: expected 0 or the tokenizer's {size}, got {given}")
    if config.model.embeddings == "tied" and not tokenizer.same_ids:
        raise RunError(
            "model.embeddings: expected decoder or untied for two tokenizers in which an id means "
            "different tokens, got 'tied'"
        )
    suppressed_tokens(config.search, tokenizer.target)  # refuses unknown pieces
    model = dataclasses.replace(
        config.model, source_vocabulary_size=source, target_vocabulary_size=target
    )
    return dataclasses.replace(config, model=model)
