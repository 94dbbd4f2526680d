"""Options of the laboratory at the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_transformer import builtin_models
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser, add_number, merged
from keras_transformer.config import Config, ConfigError, from_dict
from keras_transformer.lab.baseline import BASELINE_CONFIG
from keras_transformer.lab.experiment import Experiment
from keras_transformer.lab.experiments import TABLE
from keras_transformer.validation import MAX_STEPS, between, check_number, unknown_message

MAX_SEEDS = 1_000
STEPS_OF_MINUTES = 10_000_000
"""Steps with --minutes: more than a run makes; a variant may multiply them."""


@dataclass(frozen=True)
class LabSettings:
    """Settings of a laboratory, from the command line."""

    experiments: Sequence[Experiment]
    baseline: Config
    seeds: int
    """Runs of each configuration."""
    folder: Path
    """Has runs, prepared data and report."""
    results: Path
    """Folder of the results."""


def add_options(parser: Parser) -> None:
    """Add the options of ``lab``."""
    parser.usage = "python -m keras_transformer.lab [EXPERIMENT ...] [OPTION ...]"
    add = parser.add_argument
    add(
        "experiments",
        nargs="*",
        default=[],
        metavar="EXPERIMENT",
        help="Names from --list; none: all.",
    )
    add("--list", action="store_true", help="Describe the experiments and their variants.")
    add(
        "--to",
        metavar="FOLDER",
        default="lab",
        help="Folder of runs, prepared data, results and report.",
    )
    add(
        "--results",
        metavar="FOLDER",
        help="Folder of the results, one JSON file each; default: results in the folder of --to. "
        "A run with a result there is not repeated.",
    )
    add_number(
        parser, "seeds", between(1, MAX_SEEDS), default=3, help="Runs of each configuration."
    )
    add_number(parser, "steps", between(1, MAX_STEPS), help="Steps of each run: --train.max_steps.")
    add(
        "--minutes",
        type=float,
        metavar="M",
        help="Minutes of training of each run, instead of steps.",
    )
    # dest: "data" is the name of the section.
    add("--data", dest="pairs", metavar="SPEC", help="Training pairs: --data.train.")
    add("--dev", metavar="SPEC", help="Held-out pairs: --data.dev.")
    add("--source", metavar="CODE", help="Source language: --data.source.")
    add("--target", metavar="CODE", help="Target language: --data.target.")
    add("--report", action="store_true", help="Write the report from the results without training.")
    add(
        "--measure_again",
        action="store_true",
        help="Repeat the measurements of finished runs whose checkpoints still exist.",
    )
    add(
        "--clean",
        action="store_true",
        help="Remove the checkpoints of each run after its measurements; the best weights stay.",
    )


def lab_settings(options: Options) -> LabSettings:
    """Return the settings that the options give.

    Raises:
        UsageError: An unknown experiment, or options that exclude each other.
        ConfigError: An invalid field of the baseline.
    """
    own = options.own
    experiments = [_experiment(name) for name in dict.fromkeys(own.experiments or TABLE.by_name)]
    folder = Path(own.to)
    builtin_models.refuse_writing(folder, "--to")
    return LabSettings(
        experiments=experiments,
        baseline=_baseline(options),
        seeds=own.seeds,
        folder=folder,
        results=folder / "results" if own.results is None else Path(own.results),
    )


def _experiment(name: str) -> Experiment:
    if name not in TABLE.by_name:
        raise UsageError(unknown_message(name, "experiment", list(TABLE.by_name), "--list"))
    return TABLE.by_name[name]


def _baseline(options: Options) -> Config:
    own = options.own
    if own.steps is not None and own.minutes is not None:
        raise UsageError("expected --steps or --minutes, not both")
    shortcuts: dict[str, dict[str, Any]] = {"data": {}, "train": {}}
    for name in ("pairs", "dev", "source", "target"):
        if (value := own.get(name)) is not None:
            shortcuts["data"]["train" if name == "pairs" else name] = value
    if own.steps is not None:
        shortcuts["train"]["max_steps"] = own.steps
    if own.minutes is not None:
        check_number(own.minutes, "--minutes", between(0.01, MAX_STEPS))
        shortcuts["train"] |= {"max_minutes": own.minutes, "max_steps": STEPS_OF_MINUTES}
    for section, fields in shortcuts.items():
        for name in fields:
            if name in options.given.get(section, {}) and name != "max_steps":
                raise ConfigError(
                    f"{section}.{name}: given twice: as --{section}.{name} and by its short option"
                )
    given = merged(options.given, shortcuts)
    if options.preset is None:
        return from_dict(merged(BASELINE_CONFIG, given))
    return from_dict(given, Options(options.own, options.preset).config())


def describe_experiments() -> str:
    """Return the text of ``--list``."""
    lines = []
    for experiment in TABLE.experiments:
        lines.append(f"{experiment.name}: {experiment.title}")
        lines.append(f"    {experiment.before}  →  {experiment.after}")
        names = [variant.name for variant in experiment.variants]
        lines.append(f"    variants: {'; '.join(names)}")
    return "\n".join(lines)
