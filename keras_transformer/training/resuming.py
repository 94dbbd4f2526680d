"""Opening and resuming of a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.config import RESUMABLE, Config, to_dict
from keras_transformer.data.errors import ChangedDataError, DataError
from keras_transformer.data.prepared import Prepared
from keras_transformer.data.store import StoreError
from keras_transformer.errors import RunError
from keras_transformer.run import Run
from keras_transformer.training.distribution import Distribution, DistributionError
from keras_transformer.training.parts import TrainingParts
from keras_transformer.training.scores import is_checkpoint

# Fields that may never change: the encoded text and the embeddings depend on them.
_TOKENIZER_FIELDS = ("source", "target", "algorithm", "vocabulary_size", "joint")


@contextlib.contextmanager
def open_run(
    config: Config,
    path: Path,
    resume: bool,
    accept_changes: bool,
    distribution: Distribution,
    log: Callable[[str], None],
    init_from: Path | str | None = None,
) -> Iterator[tuple[Run, Prepared]]:
    """Open the run folder on every worker; the chief creates or locks it and prepares the data.

    Args:
        config: As for `trainer.train`.
        path: As for `trainer.train`.
        resume: As for `trainer.train`.
        accept_changes: As for `trainer.train`.
        distribution: The workers; all of them call this.
        log: Called on the chief with lines about the data.
        init_from: As for `trainer.train`.

    Yields:
        The run with its complete configuration, and its data.

    Raises:
        UserError: The folder, the data or the configuration cannot be used.
        DistributionError: Raised on the other workers if the chief has failed.
    """
    with contextlib.ExitStack() as stack:
        if distribution.chief:
            # The chief broadcasts 1 once the folder can be opened, or 0 after a failure.
            try:
                opened = _open_as_chief(config, path, resume, accept_changes, log, stack, init_from)
            except BaseException:
                with contextlib.suppress(tf.errors.OpError):  # the original error matters more
                    distribution.broadcast_from_chief([0.0])
                raise
            distribution.broadcast_from_chief([1.0])
        else:
            opened = _open_as_worker(config, path, resume, distribution)
        yield opened


def _open_as_chief(
    config: Config,
    path: Path,
    resume: bool,
    accept_changes: bool,
    log: Callable[[str], None],
    stack: contextlib.ExitStack,
    init_from: Path | str | None,
) -> tuple[Run, Prepared]:
    if not resume:
        source = None if init_from is None else Run.open(init_from)
        run, prepared = Run.create(path, config, log, init_from=source)
        stack.enter_context(run.locked())
        return run, prepared
    run = Run.open(path)
    if not run.config.data.train:
        raise RunError(
            f"{path}: expected a run with training to resume, got one that was converted from "
            f"another system; train a new run from its weights with --init_from {path}"
        )
    config = with_vocabulary_of(run.config, config)
    check_resumable(run.config, config, accept_changes)
    run = dataclasses.replace(run, config=config)
    stack.enter_context(run.locked())
    if accept_changes:
        return run, run.prepare_again(log)
    try:
        return run, run.prepared(log)
    except ChangedDataError as error:
        raise ChangedDataError(
            f"{error}. Restore the files as they were, or accept the change with --resume "
            "--accept_changes: the corpus is then encoded again with the vocabulary of the run"
        ) from error
    except (DataError, StoreError) as error:
        raise type(error)(
            f"{error}. Copy the run folder again, or encode the corpus again with --resume "
            "--accept_changes"
        ) from error


def _open_as_worker(
    config: Config, path: Path, resume: bool, distribution: Distribution
) -> tuple[Run, Prepared]:
    if not all(distribution.broadcast_from_chief([0.0])):
        raise DistributionError("the chief could not start; see its own message")
    run = Run.open(path)
    if resume:
        run = dataclasses.replace(run, config=with_vocabulary_of(run.config, config))
    return run, run.prepared(lambda line: None)


def with_vocabulary_of(old: Config, new: Config) -> Config:
    """Return ``new``, its vocabulary sizes of 0 replaced by those of ``old``."""
    sizes = {
        name: getattr(new.model, name) or getattr(old.model, name)
        for name in ("source_vocabulary_size", "target_vocabulary_size")
    }
    return dataclasses.replace(new, model=dataclasses.replace(new.model, **sizes))


def check_resumable(old: Config, new: Config, accept_changes: bool = False) -> None:
    """Refuse changes of the configuration that would make it another run.

    Args:
        old: The configuration of the run.
        new: The configuration with which it is resumed.
        accept_changes: Accept all changes but those of the vocabulary. Restoring the checkpoint
            fails if the network no longer fits.

    Raises:
        RunError: Names each field that differs, with both values.
    """
    differences = []
    before, after = to_dict(old), to_dict(new)
    for section in ("model", "data", "train"):
        for name, value in before[section].items():
            resumable = section == "train" and name in RESUMABLE
            accepted = accept_changes and not (section == "data" and name in _TOKENIZER_FIELDS)
            if after[section][name] != value and not resumable and not accepted:
                differences.append(f"{section}.{name}: {value!r}, now {after[section][name]!r}")
    if not differences:
        return
    if accept_changes:
        way_out = "Its vocabulary cannot change: train a new run for another one"
    else:
        allowed = ", ".join(f"train.{name}" for name in RESUMABLE)
        way_out = (
            f"Only {allowed} and search.* may change; --accept_changes accepts other changes too, "
            "at your own risk"
        )
    raise RunError(f"the run was started with other values: {'; '.join(differences)}. {way_out}")


def restore(parts: TrainingParts) -> list[dict[str, Any]]:
    """Restore the last checkpoint, if any, and remove the records of later steps.

    Every worker calls this.

    Returns:
        The records of metrics.jsonl up to the restored step.

    Raises:
        CheckpointError: No checkpoint is readable, or the network does not fit.
        RunError: The run has best weights, but no checkpoint is left.
        DistributionError: The workers see different checkpoints.
    """
    run, run_log, state = parts.run, parts.run_log, parts.state
    if parts.distribution.chief:
        parts.checkpoints.remove_incomplete()
    # A run with a single record may have been killed while it wrote its first checkpoint.
    scored = [record for record in run_log.records() if is_checkpoint(record)]
    restored = parts.checkpoints.restore_latest(run_log.line, allow_restart=len(scored) < 2)
    parts.distribution.wait()  # the chief must not write before all have read
    _check_same_step(parts)
    if not restored and run.best_weights.exists() and len(scored) > 1:
        raise RunError(
            f"{run.path / 'checkpoints'}: no checkpoint is left to resume from; "
            f"{run.best_weights.name} still translates. Remove it to start from the beginning"
        )
    if parts.distribution.chief:
        run.write_config()  # only once the checkpoint is known to fit
        parts.checkpoints.remove_surplus()
    records = run_log.truncate(state.step)
    parts.reporter.truncate(state.step)
    parts.best.restore(records)
    parts.best.remove_unranked(records)
    if restored:
        run_log.line(f"resuming after step {state.step}")
    return records


def _check_same_step(parts: TrainingParts) -> None:
    step = parts.state.step
    [chief_step] = parts.distribution.broadcast_from_chief([step])
    if chief_step != step:
        raise DistributionError(
            f"{parts.run.path}: expected the chief's checkpoint of step {chief_step:.0f}, found "
            f"that of step {step}; all workers must see the same run folder"
        )
