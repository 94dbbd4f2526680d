"""Runs of a laboratory: each different configuration and seed once, with a key of its content."""

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

# Fields on which no result depends. data.train and data.dev count by the content of the files.
_LEFT_OUT = {
    ("data", "train"),
    ("data", "dev"),
    ("data", "on_long"),
    ("model", "source_vocabulary_size"),
    ("model", "target_vocabulary_size"),
    ("train", "tensorboard"),
    ("train", "micro_batch_tokens"),
    ("train", "gradient_checkpointing"),
    ("train", "seed"),
    *(("train", name) for name in RUN_OPTIONS),
}

KEY_LENGTH = 10
"""Hexadecimal digits of a key."""


@dataclass(frozen=True)
class Corpus:
    """The corpus of a laboratory."""

    name: str
    """The end of its path, for people."""
    identity: str
    """Content of the files, or the name of a built-in or TFDS corpus."""


@dataclass(frozen=True)
class Job:
    """A training with one seed, or another search with its weights."""

    name: str
    """For people, such as "one-head-seed1"."""
    config: Config
    """Configuration with seed and measurements."""
    seed: int
    variant: str
    """Key of the configuration without its seed."""
    training: str
    """Key of the training, the same for jobs that differ in the search alone."""
    key: str
    """Key of the job; the name of its result."""
    overrides: dict[str, Any]
    """Fields that differ from the baseline, by dotted name."""

    @property
    def searches_only(self) -> bool:
        """Whether only the search differs from the baseline, which has the curves."""
        return bool(self.overrides) and all(name.startswith("search.") for name in self.overrides)


def corpus(config: Config) -> Corpus:
    """Return the corpus of a configuration; its files are read.

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


def jobs(
    experiments: Sequence[Experiment], baseline: Config, seeds: int, corpus: Corpus
) -> list[Job]:
    """Return the different jobs of the experiments, all of the first seed first.

    Args:
        experiments: The experiments; each has the baseline among its variants.
        baseline: The configuration that the variants change.
        seeds: Number of seeds, from ``train.seed`` of the baseline on.
        corpus: The corpus of all jobs.

    Raises:
        ConfigError: A variant is invalid; the message names it.
    """
    found: dict[str, Job] = {}
    for seed in range(baseline.train.seed, baseline.train.seed + seeds):
        for experiment in experiments:
            for name, (_, config) in experiment.variants_of(baseline).items():
                made = job(name, config, baseline, seed, corpus)
                found.setdefault(made.key, made)
    return list(found.values())


def job(name: str, config: Config, baseline: Config, seed: int, corpus: Corpus) -> Job:
    """Return the job of one variant and seed.

    Args:
        name: Name of the variant.
        config: Its configuration.
        baseline: The configuration of the baseline.
        seed: Seed of weights, dropout and data order.
        corpus: The corpus.
    """
    train = dataclasses.replace(config.train, seed=seed, **RUN_OPTIONS)
    whole = dataclasses.replace(config, train=train)
    variant = variant_key(config, corpus)
    trained = dataclasses.replace(config, search=baseline.search)
    return Job(
        name=f"{slug(name)}-seed{seed}",
        config=whole,
        seed=seed,
        variant=variant,
        training=_digest([variant_key(trained, corpus), seed]),
        key=_digest([variant, seed]),
        overrides=differences(baseline, config),
    )


def variant_key(config: Config, corpus: Corpus) -> str:
    """Return a key of a configuration and a corpus, without the seed.

    Only fields that differ from the package's defaults count, so that a new option changes no key.
    """
    return _digest([corpus.identity, _fields(config)])


def _fields(config: Config) -> dict[str, Any]:
    """Return the fields that count for a key."""
    fields = differences(Config(), config)
    return {
        name: value for name, value in fields.items() if tuple(name.split(".")) not in _LEFT_OUT
    }


def data_key(config: Config, corpus: Corpus) -> str:
    """Return a key of the prepared data of a configuration."""
    fields = _fields(config)
    return _digest(
        [corpus.identity, {name: fields[name] for name in fields if name[:5] == "data."}]
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
    """Group jobs of one training, whose weights serve all of them."""
    found: dict[str, list[Job]] = {}
    for each in jobs:
        found.setdefault(each.training, []).append(each)
    return list(found.values())


def slug(name: str) -> str:
    """Return a name of letters, digits and hyphens for files."""
    words = name.casefold().replace("√", "sqrt-").replace("ε", "epsilon").replace("β₂", "beta2")
    words = words.replace("α", "alpha").replace("¼", "quarter").replace("½", "half")
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") or BASELINE


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]
