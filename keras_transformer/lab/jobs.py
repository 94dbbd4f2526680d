"""Jobs of a laboratory: each distinct configuration and seed once, with a hash as its key."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keras_transformer.config import SECTIONS, Config, to_dict
from keras_transformer.data.fingerprint import add_hashes, fingerprint
from keras_transformer.data.prepare import dev_spec
from keras_transformer.lab.baseline import RUN_OPTIONS
from keras_transformer.lab.experiment import BASELINE, Experiment

# Fields that do not change a result. data.train and data.dev enter a key by the files' content.
_NOT_IN_KEY = {
    ("data", "train"),
    ("data", "dev"),
    ("data", "on_long"),
    ("model", "source_vocabulary_size"),
    ("model", "target_vocabulary_size"),
    ("train", "tensorboard"),
    ("train", "micro_batch_tokens"),
    ("train", "gradient_checkpointing"),
    ("train", "deterministic"),
    ("train", "seed"),
    *(("train", name) for name in RUN_OPTIONS),
}

KEY_LENGTH = 10
"""Hexadecimal digits of a key."""


@dataclass(frozen=True)
class Corpus:
    """The corpus of a laboratory."""

    name: str
    """The end of its path, for reports."""
    identity: str
    """Hash of the files' content, or of the name of a built-in or TFDS corpus."""


@dataclass(frozen=True)
class Job:
    """One training run, or one search with the weights of a run that other jobs share."""

    name: str
    """Readable name, such as "one-head-seed1"."""
    config: Config
    """Configuration with seed and measurements."""
    seed: int
    variant_key: str
    """Key of the configuration without its seed."""
    training_key: str
    """Key of the training; jobs that differ only in the search share it."""
    key: str
    """Key of the job; the name of its result."""
    overrides: dict[str, Any]
    """Fields that differ from the baseline, by dotted name."""

    @property
    def searches_only(self) -> bool:
        """Whether only the search differs from the baseline, whose result has the curves."""
        return bool(self.overrides) and all(name.startswith("search.") for name in self.overrides)


def read_corpus(config: Config) -> Corpus:
    """Read the corpus of a configuration.

    Raises:
        UserError: There is no dev set, or a file cannot be read.
    """
    specs = (config.data.train, dev_spec(config.data))
    values = fingerprint(config.data, specs[1])
    add_hashes(values)
    hashes = [state["sha256"] for state in values["files"].values()] or list(specs)
    identity = _digest([config.data.source, config.data.target, *hashes])
    return Corpus(
        " ".join(dict.fromkeys("/".join(spec.split("/")[-2:]) for spec in specs)), identity
    )


def make_jobs(
    experiments: Sequence[Experiment], baseline: Config, seeds: int, corpus: Corpus
) -> list[Job]:
    """Return the distinct jobs of the experiments, those of the first seed first.

    Args:
        experiments: The experiments; each has the baseline among its variants.
        baseline: The configuration that the variants change.
        seeds: Number of seeds, counted up from ``train.seed`` of the baseline.
        corpus: The corpus of all jobs.

    Raises:
        ConfigError: A variant is invalid; the message names it.
    """
    found: dict[str, Job] = {}
    for seed in range(baseline.train.seed, baseline.train.seed + seeds):
        for experiment in experiments:
            for name, (_, config) in experiment.variants_of(baseline).items():
                made = make_job(name, config, baseline, seed, corpus)
                found.setdefault(made.key, made)
    return list(found.values())


def make_job(name: str, config: Config, baseline: Config, seed: int, corpus: Corpus) -> Job:
    """Return the job of one variant and seed.

    Args:
        name: Name of the variant.
        config: Its configuration.
        baseline: The configuration of the baseline.
        seed: Seed of weights, dropout and data order.
        corpus: The corpus.
    """
    train = dataclasses.replace(config.train, seed=seed, **RUN_OPTIONS)
    with_seed = dataclasses.replace(config, train=train)
    key = variant_key(config, corpus)
    trained = dataclasses.replace(config, search=baseline.search)
    return Job(
        name=f"{slug(name)}-seed{seed}",
        config=with_seed,
        seed=seed,
        variant_key=key,
        training_key=_digest([variant_key(trained, corpus), seed]),
        key=_digest([key, seed]),
        overrides=differences(baseline, config),
    )


def variant_key(config: Config, corpus: Corpus) -> str:
    """Return the key of a configuration and a corpus, without the seed.

    Only fields that differ from the package's defaults enter, so that a new option keeps all keys.
    """
    return _digest([corpus.identity, _fields(config)])


def _fields(config: Config) -> dict[str, Any]:
    """Return the fields that enter a key, by dotted name."""
    fields = differences(Config(), config)
    return {
        name: value for name, value in fields.items() if tuple(name.split(".")) not in _NOT_IN_KEY
    }


def data_key(config: Config, corpus: Corpus) -> str:
    """Return the key of a configuration's prepared data."""
    fields = _fields(config)
    return _digest(
        [corpus.identity, {name: fields[name] for name in fields if name.startswith("data.")}]
    )


def differences(before: Config, after: Config) -> dict[str, Any]:
    """Return the fields of ``after`` that differ, by dotted name."""
    old, new = to_dict(before), to_dict(after)
    return {
        f"{section}.{name}": value
        for section in SECTIONS
        for name, value in new[section].items()
        if value != old[section][name]
    }


def by_training(jobs: Iterable[Job]) -> list[list[Job]]:
    """Group the jobs that use the weights of one training."""
    found: dict[str, list[Job]] = {}
    for each in jobs:
        found.setdefault(each.training_key, []).append(each)
    return list(found.values())


def slug(name: str) -> str:
    """Return a name for files: lower-case letters, digits and hyphens."""
    words = name.casefold().replace("√", "sqrt-").replace("ε", "epsilon").replace("β₂", "beta2")
    words = words.replace("α", "alpha").replace("¼", "quarter").replace("½", "half")
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") or BASELINE


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
