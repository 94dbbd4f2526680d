"""Conversion of a checkpoint to a run folder: read and checked first, then written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_transformer.config import Config, ConfigError, from_dict
from keras_transformer.convert import registry
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings import ConvertSettings
from keras_transformer.special_tokens import END

Log = Callable[[str], None]

_SAMPLED_LINES = 500
_SAMPLED_TOKENS = 12


def convert(
    source: Path,
    path: Path,
    settings: ConvertSettings,
    name: str,
    log: Log,
    start_tensorflow: Callable[[], None],
) -> None:
    """Convert a checkpoint.

    Args:
        source: File or folder of the model.
        path: The run folder to create.
        settings: Options of the conversion.
        name: The format; "": recognise it.
        log: Called with lines for the user.
        start_tensorflow: Called when all foreign files are read and checked.

    Raises:
        UserError: The source cannot be converted, or the folder cannot be written; nothing is
            left behind.
    """
    from keras_transformer.run import Run, check_free

    check_free(path)
    chosen = registry.find(source, name)
    registry.check_options(chosen, settings)
    log(f"format: {chosen.NAME} ({chosen.DESCRIPTION})")
    model = chosen.read(source, settings)
    config = configuration(model, settings, source)
    for line in describe(model, config):
        log(line)
    log("starting TensorFlow")
    start_tensorflow()
    notes = [*model.notes, tokenizer_note(model)]
    run = Run.create_trained(
        path,
        config,
        model.tokenizer,
        model.weights,
        f"{source} ({chosen.NAME})",
        notes,
        settings.dtype,
    )
    for note in notes:
        log(f"note: {note}")
    for line in _next_commands(run.path):
        log(line)


def configuration(model: ForeignModel, settings: ConvertSettings, source: Path) -> Config:
    """Return the configuration of the run.

    Raises:
        ConvertError: A value of the source is out of our range.
    """
    values: dict[str, dict[str, Any]] = {}
    languages = {"data.source": settings.source_language, "data.target": settings.target_language}
    fields = {"data.source": "src", "data.target": "tgt", **model.settings}
    for name, value in (fields | {key: each for key, each in languages.items() if each}).items():
        section, _, field = name.partition(".")
        values.setdefault(section, {})[field] = value
    try:
        return from_dict(values)
    except ConfigError as error:
        raise ConvertError(f"{source}: cannot be represented: {error}") from None


def describe(model: ForeignModel, config: Config) -> list[str]:
    """Return lines about the network, the vocabulary and the search of the source."""
    network, search = config.model, config.search
    count = sum(weight.size for weight in model.weights.values())
    source, target = model.tokenizer.source.size, model.tokenizer.target.size
    tokens = f"{source:,}" if model.tokenizer.same_ids else f"{source:,} and {target:,}"
    limit = f"{search.max_factor:g} × source + {search.max_extra}"
    facts = f" ({', '.join(model.facts)})" if model.facts else ""
    return [
        f"network: {network.encoder_layers} + {network.decoder_layers} layers, d_model "
        f"{network.d_model}, {network.heads} heads, d_ff {network.d_ff}, {network.activation}, "
        f"{network.norm}-norm, embeddings {network.embeddings}: {count:,} parameters{facts}",
        f"vocabulary: {tokens} tokens, {config.data.source} to {config.data.target}, "
        f"{config.data.algorithm}",
        f"search: beam {search.beam}, {search.length_penalty} {search.alpha:g}, at most "
        f"{limit if search.max_factor else search.max_extra} tokens",
    ]


def tokenizer_note(model: ForeignModel) -> str:
    """Return a note that compares the tokenizer in Python with the exported graph's.

    The lines compared are tokens of the vocabularies in random order.
    """
    from keras_transformer.data.agreement import agreement

    randomness = random.Random(1)
    lines = []
    for side in (model.tokenizer.source, model.tokenizer.target):
        for _ in range(_SAMPLED_LINES):
            count = randomness.randint(1, _SAMPLED_TOKENS)
            ids = [randomness.randrange(END + 1, side.size) for _ in range(count)]
            lines.extend(side.decode([ids]))
    found = agreement(model.tokenizer, lines)
    return found.note() or (
        f"tokenizer: Python and the exported graph agree in {found.lines:,} random lines"
    )


def _next_commands(path: Path) -> list[str]:
    command = "python -m keras_transformer."
    return [
        f"written: {path}",
        f"next: {command}translate --run {path} FILE",
        f"      {command}export --run {path} --to export/models/{path.name}",
    ]
