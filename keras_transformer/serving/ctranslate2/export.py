"""A run for CTranslate2: its own format, with what is needed to translate beside it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ctranslate2

from keras_transformer import system
from keras_transformer.config import SearchConfig
from keras_transformer.data.tokenizer import PAD, START, Tokenizer
from keras_transformer.inference.plain_text import plain
from keras_transformer.run import Run
from keras_transformer.serving import card
from keras_transformer.serving.ctranslate2 import spec
from keras_transformer.serving.dev_bleu import Log, dev_bleu
from keras_transformer.serving.settings import BYTES, ExportSettings, Precision, refuse_samples
from keras_transformer.serving.version_folder import new_version

# Positions at the least: as many tokens as CTranslate2 reads if not told otherwise.
_POSITIONS = 1_024


def export(
    run: Run, search: SearchConfig, directory: Path, settings: ExportSettings, log: Log
) -> Path:
    """Make the next version of a model for CTranslate2 from a run.

    Args:
        run: A trained run.
        search: What the card's ``translate_batch`` says, the arguments to translate with.
        directory: Folder of the versions; made if missing.
        settings: The other choices.
        log: Called with each line of progress.

    Returns:
        The folder of the new version.

    Raises:
        ExportError: CTranslate2 has no such network, the version is there already, sources
            cannot be so long, samples are wanted, or the weights in fewer bits lose too much.
            Nothing is written then.
        FileError: No place on the disk, or another export is at work in ``directory``.
        RunError: The run has no weights yet.
    """
    spec.check(run.config.model)
    refuse_samples(search)
    max_tokens = settings.longest_source(run.config)
    log(f"reading {run.path}")
    model, tokenizer = run.model(), run.tokenizer()
    options = _options(search, max_tokens, tokenizer)
    positions = max(_POSITIONS, max_tokens + search.max_extra)

    def save(dtype: Precision, place: Path) -> None:
        model_spec = spec.build_spec(model, run.config.model, tokenizer, positions, dtype)
        model_spec.save(str(place))

    with new_version(directory, settings.version) as (staging, version):
        # To compare with, weights in float32 are written too.
        width = BYTES[settings.dtype] + BYTES["float32"] * (settings.dtype != "float32")
        system.check_space(directory, width * model.count_params() + 2**22)
        log(f"writing version {version} of {directory.resolve().name}")
        save(settings.dtype, staging)
        tokenizer.save(staging)

        def translate(lines: list[str]) -> list[str]:
            return _translated(staging, tokenizer, lines, options, search.batch_tokens)

        def whole(lines: list[str]) -> list[str]:
            with tempfile.TemporaryDirectory(dir=staging) as place:
                save("float32", Path(place))
                return _translated(Path(place), tokenizer, lines, options, search.batch_tokens)

        description = card.card(
            name=directory.resolve().name,
            version=version,
            config=run.config,
            interface={"format": "ctranslate2", "translate_batch": options},
            dtype=settings.dtype,
            parameters=model.count_params(),
            tokenizer=tokenizer,
            dev=dev_bleu(run, translate, whole, settings, log),
        )
        description["versions"]["ctranslate2"] = ctranslate2.__version__
        card.write(staging, description)
    return directory / str(version)


def _options(search: SearchConfig, max_tokens: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """The search as arguments of ``ctranslate2.Translator.translate_batch``."""
    return {
        "beam_size": search.beam,
        "length_penalty": search.alpha,
        "num_hypotheses": search.n_best,
        "max_input_length": max_tokens,
        "max_decoding_length": max_tokens - 1 + search.max_extra,  # the END of a source is none
        "min_decoding_length": search.min_length,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "disable_unk": True,
        "suppress_sequences": [[piece] for piece in tokenizer.target.pieces([PAD, START])],
    }


def _translated(
    directory: Path, tokenizer: Tokenizer, lines: list[str], options: dict[str, Any], tokens: int
) -> list[str]:
    """The translations of an export, found as its user would find them."""
    translator = ctranslate2.Translator(str(directory))
    pieces = [tokenizer.source.pieces(ids) for ids in tokenizer.source.encode(lines)]
    found = translator.translate_batch(
        pieces, max_batch_size=tokens, batch_type="tokens", **options
    )
    return [plain(tokenizer.target.join(result.hypotheses[0])) for result in found]
