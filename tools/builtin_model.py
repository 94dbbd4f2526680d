"""Generator of a built-in model: a trained run in float16, with its model card.

The run was trained on a built-in corpus, whose name becomes the model's. The files are a function
of the run folder, apart from rounding of the scores on other processors.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer import builtin_models, system
from keras_transformer.cli.main import import_tensorflow, run_main
from keras_transformer.data.prepared import DEV_TEXT
from keras_transformer.errors import UserError
from keras_transformer.formats import read_versions
from keras_transformer.presets import PRESETS
from keras_transformer.run import VERSIONS, Run
from keras_transformer.weights_file import parameters_and_fingerprint, write_float16

FOLDER = Path(builtin_models.__file__).parent
MAX_BYTES = 3_000_000
"""Greatest size of the folder, which each installation of the package has."""
DESCRIPTION = (
    "English to Chinese, for first translations without training. It knows the vocabulary and the "
    "sentence patterns of the built-in corpus, and translates other text badly."
)


@run_main("builtin_model")
def main(argv: Sequence[str]) -> None:
    """Write the built-in model of a run."""
    parser = argparse.ArgumentParser(prog="python -m tools.builtin_model", description=__doc__)
    parser.add_argument("run", metavar="RUN", type=Path, help="Run folder of the trained model.")
    parser.add_argument(
        "--to", metavar="FOLDER", type=Path, default=FOLDER, help="Folder of the built-in models."
    )
    options = parser.parse_args(argv)
    run = Run.open(options.run)
    run.check_weights()
    import_tensorflow()
    folder = write(run, options.to)
    print((folder / builtin_models.CARD).read_text("utf-8"), end="")


def write(run: Run, to: Path) -> Path:
    """Write the built-in model of a run, or replace it; return its folder.

    Args:
        run: A run that was trained on a built-in corpus.
        to: Folder of the built-in models.

    Raises:
        UserError: The run was trained on another corpus, or is too large.
    """
    corpus = run.config.data.train
    kind, _, name = corpus.partition(":")
    if kind != "builtin" or not name.isalpha():
        raise UserError(f"{run.path}: expected a run on builtin:phrasebook, got one on {corpus}")
    folder = to / name
    with system.atomic_folder(folder, replace=True) as new:
        model = Run(new, run.config)
        model.write_config()
        versions = read_versions(run.path / VERSIONS)
        del versions["last session"]
        system.write_json(new / VERSIONS, versions)
        shutil.copytree(run.path / "tokenizer", new / "tokenizer", copy_function=shutil.copyfile)
        (new / "data").mkdir()
        shutil.copyfile(run.path / "data" / DEV_TEXT, new / "data" / DEV_TEXT)  # for exports
        write_float16(run.best_weights, model.best_weights)
        system.write_json(new / builtin_models.CARD, card(run, model, versions))
        size = sum(path.stat().st_size for path in new.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise UserError(f"{run.path}: expected at most {MAX_BYTES} bytes, got {size}")
    return folder


def card(run: Run, model: Run, versions: dict[str, Any]) -> dict[str, Any]:
    """Return the model card, with scores of both on the test set.

    Args:
        run: The run as it was trained, in float32.
        model: The same in float16.
        versions: The versions of the libraries in training.
    """
    config = run.config
    parameters, fingerprint = parameters_and_fingerprint(model.best_weights)
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").open(encoding="utf-8")]
    float32, float16 = _test_scores(run), _test_scores(model)
    return {
        "name": config.data.train,
        "description": DESCRIPTION,
        "license": "Apache-2.0",
        "languages": {"source": config.data.source, "target": config.data.target},
        "command": "python -m keras_transformer.train",
        "preset": next((name for name in PRESETS if _is_preset(name, run)), None),
        "corpus": config.data.train,
        "steps": records[-1]["step"],
        "parameters": parameters,
        "dtype": "float16",
        "tokenizer": fingerprint,
        "test": {
            "corpus": f"{config.data.train}:test",
            "sentences": float16["sentences"],
            "bleu": round(float16["bleu"], 2),
            "bleu_signature": float16["bleu_signature"],
            "chrf": round(float16["chrf"], 2),
            "chrf_signature": float16["chrf_signature"],
            "float32_bleu": round(float32["bleu"], 2),
            "float32_chrf": round(float32["chrf"], 2),
        },
        "versions": versions,
    }


def _is_preset(name: str, run: Run) -> bool:
    values = {"model": vars(run.config.model), "data": vars(run.config.data)}
    values["train"] = vars(run.config.train)
    return all(
        values[section][field] == value
        for section, fields in PRESETS[name].items()
        for field, value in fields.items()
    )


def _test_scores(run: Run) -> dict[str, Any]:
    """Return the scores on the test split, as ``evaluate`` computes them."""
    from keras_transformer.evaluation.evaluation_set import EvaluationSet
    from keras_transformer.evaluation.results import evaluation_results
    from keras_transformer.inference.translator import Translator

    data = run.config.data
    texts = EvaluationSet.from_corpus(f"{data.train}:test", data.source, data.target)
    found = Translator.from_run(run.path).translate(texts.sources or [])
    translations = [translation.text for translation in found]
    return evaluation_results(
        texts.select(translations),
        texts.references,
        data.target,
        tokenize=run.config.train.bleu_tokenizer,
    )


if __name__ == "__main__":
    sys.exit(main())
