"""Experiments and their variants: configuration changes against the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_transformer.config import Config, ConfigError, from_dict, to_dict

BASELINE = "baseline"
"""Name of the variant without changes."""

Expected = Literal["lower", "equal", "higher", "fails", "open"]
"""BLEU that the literature suggests, relative to the variant compared with. fails: the network
diverges or does not learn; open: the literature has either result, or none."""

Plot = Literal[
    "curves", "grid", "scores", "length", "search", "reliability", "ranks", "activations"
]
"""Figures of an experiment; `plots` has their panels."""


@dataclass(frozen=True)
class Times:
    """A change that multiplies the baseline's value by a factor."""

    factor: float

    def of(self, value: float) -> float:
        """Return the product; for an integer it is rounded to an integer of at least 1."""
        product = value * self.factor
        return max(round(product), 1) if isinstance(value, int) else product


class Default:
    """A change to the package's default, from which the baseline may differ."""


POST_LN: dict[str, Any] = {"model.norm": "post", "train.learning_rate_factor": Times(0.5)}
"""The paper's order of normalization at half the baseline's rate: Post-LN learns badly at the whole
one (experiment norm-order)."""


@dataclass(frozen=True)
class Variant:
    """One network, training or search of an experiment."""

    name: str
    """Short name, unique within the experiment."""
    changes: Mapping[str, Any]
    """Fields that differ from the baseline, by dotted name; a value, `Times` or `Default`."""
    expected: Expected = "open"
    """BLEU that the literature suggests."""
    against: str = BASELINE
    """Variant of the same experiment with which it is compared."""

    def config(self, baseline: Config) -> Config:
        """Return the configuration of this variant.

        Raises:
            ConfigError: A field is unknown, or a value invalid for this baseline.
        """
        before, defaults = to_dict(baseline), to_dict(Config())
        values: dict[str, dict[str, Any]] = {}
        for dotted, value in self.changes.items():
            section, _, name = dotted.partition(".")
            if isinstance(value, Times):
                value = value.of(before[section][name])
            elif isinstance(value, Default):
                value = defaults[section][name]
            values.setdefault(section, {})[name] = value
        return from_dict(values, baseline)


@dataclass(frozen=True)
class Experiment:
    """A question about one choice of the paper."""

    name: str
    """Name at the command line."""
    title: str
    """The changed choice, in one line, lower case."""
    variants: Sequence[Variant]
    boxes: Sequence[str]
    """Boxes of the model diagram that change; names of `diagrams.BOXES`."""
    before: str
    """The paper's formula or choice."""
    after: str
    """The changed formula or choice."""
    literature: str
    """Results of the paper and of later work, with references and numbers."""
    size: str
    """Reasons why a small network on a small corpus may differ."""
    plots: Sequence[Plot] = ("curves",)
    per_character: bool = False
    """Whether to compare losses per character, because vocabularies differ."""
    notes: str = ""
    """Remarks on the figures."""

    def __post_init__(self) -> None:
        names = [BASELINE, *(variant.name for variant in self.variants)]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: expected different names of variants, got {names}")
        for variant in self.variants:
            if variant.against not in names:
                raise ValueError(f"{self.name}: no variant {variant.against!r} to compare with")

    @property
    def heading(self) -> str:
        """Title with a capital letter."""
        return self.title[:1].upper() + self.title[1:]

    def variants_of(self, baseline: Config) -> dict[str, tuple[Variant, Config]]:
        """Return each variant and its configuration by name, the baseline first.

        Variants equal to the baseline are left out.

        Raises:
            ConfigError: A variant is invalid with this baseline; the message names it.
        """
        found = {BASELINE: (Variant(BASELINE, {}), baseline)}
        for variant in self.variants:
            try:
                config = variant.config(baseline)
            except ConfigError as error:
                raise ConfigError(f"{self.name}, variant {variant.name}: {error}") from None
            if config != baseline:
                found[variant.name] = variant, config
        return found


@dataclass(frozen=True)
class Table:
    """The experiments of the laboratory."""

    experiments: Sequence[Experiment]
    by_name: dict[str, Experiment] = field(init=False)

    def __post_init__(self) -> None:
        names = {experiment.name: experiment for experiment in self.experiments}
        if len(names) < len(self.experiments):
            raise ValueError("expected experiments of different names")
        object.__setattr__(self, "by_name", names)
