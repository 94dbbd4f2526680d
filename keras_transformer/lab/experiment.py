"""Experiments and their variants: configuration changes against the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_transformer.config import Config, ConfigError, from_dict, to_dict

BASELINE = "baseline"
"""Name of the variant without changes."""

Expected = Literal["lower", "equal", "higher", "fails", "open"]
"""BLEU that the literature lets expect, against the variant that is compared with; fails: the
network diverges or does not learn; open: either result is known."""

Plot = Literal[
    "curves", "grid", "scores", "length", "search", "reliability", "ranks", "activations"
]
"""Figures of an experiment. curves: loss, BLEU, gradient norm and attention entropy."""


@dataclass(frozen=True)
class Times:
    """A change that multiplies the value of the baseline."""

    factor: float

    def of(self, value: float) -> float:
        """Return the product, a whole number of at least 1 where ``value`` is one."""
        product = value * self.factor
        return max(round(product), 1) if isinstance(value, int) else product


class Default:
    """A change back to the package's default, where the baseline may have another value."""


@dataclass(frozen=True)
class Variant:
    """One network, training or search of an experiment."""

    name: str
    """Short name, unique in the experiment."""
    changes: Mapping[str, Any]
    """Fields that differ from the baseline, by dotted name; a value, `Times` or `Default`."""
    expected: Expected = "open"
    """BLEU that the literature lets expect."""
    against: str = BASELINE
    """Variant of the experiment that it is compared with."""

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
    """The choice, in one line."""
    variants: Sequence[Variant]
    boxes: Sequence[str]
    """Boxes of the model diagram that change; names of `diagrams.BOXES`."""
    before: str
    """The paper's formula or choice."""
    after: str
    """The changed one."""
    literature: str
    """Results of the paper and of later work, with references and figures."""
    size: str
    """Reasons why a small network on a small corpus may differ."""
    plots: Sequence[Plot] = ("curves",)
    per_character: bool = False
    """Compare the loss per character: the vocabularies differ."""
    notes: str = ""
    """Remarks on the figures."""

    def __post_init__(self) -> None:
        names = [BASELINE, *(variant.name for variant in self.variants)]
        if len(set(names)) < len(names):
            raise ValueError(f"{self.name}: expected different names of variants, got {names}")
        for variant in self.variants:
            if variant.against not in names:
                raise ValueError(f"{self.name}: no variant {variant.against!r} to compare with")

    def variants_of(self, baseline: Config) -> dict[str, tuple[Variant, Config]]:
        """Return the variants with their configurations by name, the baseline first.

        Variants that equal the baseline are left out.

        Raises:
            ConfigError: A variant is not possible with this baseline; the message names it.
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
    """The experiments of the laboratory, by name."""

    experiments: Sequence[Experiment]
    by_name: dict[str, Experiment] = field(init=False)

    def __post_init__(self) -> None:
        names = {experiment.name: experiment for experiment in self.experiments}
        if len(names) < len(self.experiments):
            raise ValueError("expected experiments of different names")
        object.__setattr__(self, "by_name", names)
