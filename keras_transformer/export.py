"""Export of a run for serving: ``python -m keras_transformer.export``."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.main import exit_on_signals, import_tensorflow, run_main
from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import add_fields, build_parser, load_config
from keras_transformer.cli.trained_model import add_run, run_path
from keras_transformer.optional_dependencies import require_installed
from keras_transformer.serving.settings import ExportSettings

MANUAL = """Export a run as a SavedModel for TensorFlow Serving (2.20 or newer): text in, text out,
with tokenizer, search and detokenizer inside.

  python -m keras_transformer.export --run runs/en-de --to export/models/en-de
      the next version: export/models/en-de/1, then 2, ...
  python -m keras_transformer.export --run runs/en-de --to export/models/en-de --version 7 \\
      --search.beam 4 --search.alpha 0.6 --search.n_best 4 --dtype bfloat16

Fixed in the export, and written to its model card export.json, are:
  search.beam              beam width
  search.alpha, search.length_penalty
  search.n_best            translations of the signature nbest; 1 stands for the beam width
  search.max_extra         longest translation: this many tokens more than its source
  search.max_factor, search.max_length, search.min_length, search.no_repeat_ngram
  search.suppress, search.allow_unknown
  --max_tokens             longest source; longer text is cut, and the reply says so
  --dtype                  type of the weights
The signature options takes alpha (0 to 10) and max_extra (0 to the exported value) with each
sentence; other values are clipped. Sampling (search.sample) cannot be exported.

Signatures; the batch is the first dimension of each input and output:
  serving_default, translate   text -> translation, score, truncated
  nbest                        text -> translations, scores
  options                      text, alpha, max_extra -> translation, score, truncated
  score                        source, target -> score, log_probability, tokens
  align                        text -> translation, score, truncated, source_pieces,
                               target_pieces, attention

The version appears complete or not at all, after a check for everything that TensorFlow Serving
refuses. It translates the first sentences of the run's dev set, and its BLEU is written to the
card; if smaller weights lose more than --max_bleu_loss, nothing is written.

  python -m keras_transformer.export --run runs/en-de --to models/en-de --format ctranslate2
      for the engine CTranslate2, with the package ctranslate2 installed

This version holds the network (model.bin), the SentencePiece models and the card. The card's
translate_batch holds the same options as arguments of the engine's method of that name. The engine
knows the length penalty power alone; for gnmt with an alpha above 0, the card's warnings say that
hypotheses may be ranked in another order. max_extra and max_factor count from the longest source
allowed. The engine has no ALiBi, and needs values as wide as keys.

  python -m keras_transformer.export --run runs/en-de --to models/en-de --format marian-hf
      for Hugging Face's MarianMT, in float32 or float16

This version is a folder for MarianMTModel.from_pretrained and MarianTokenizer.from_pretrained. It
computes the same as the run, which must be post-norm with sinusoidal, learned or no positions,
SentencePiece tokenizers and sources that end with the end token; others are refused by the name of
the option. Where MarianMT computes other positions, the folder holds a table: from_pretrained reads
it, but save_pretrained leaves it out. BLEU on the dev set is that of the run's own search with the
stored type of weights; the warnings about the search are those for ctranslate2.

Each step prints a line; the last line is the version's folder. Ctrl-C and SIGTERM leave nothing
behind; the leftovers of a killed export are removed by the next one into the same folder."""


@run_main("export")
def main(argv: Sequence[str]) -> None:
    """Export a run."""
    parser = build_parser("export", MANUAL, ["search"])
    add_run(parser)
    parser.add_argument(
        "--to", metavar="DIR", help="Folder of the versions; its name is the model's."
    )
    add_fields(parser, ExportSettings)
    options = load_config(parser, argv)
    path = run_path(options)
    if not options.own.to:  # "": a variable of the shell that is not set
        raise UsageError("--to DIR is missing: the folder of the versions")
    folder = Path(options.own.to)
    names = [field.name for field in dataclasses.fields(ExportSettings)]
    settings = ExportSettings(**{name: options.own[name] for name in names})
    from keras_transformer.run import Run
    from keras_transformer.serving.version_folder import model_name, next_version

    if settings.format == "saved_model":
        model_name(folder)
    run = Run.open(path)
    run.check_weights()
    search = options.config(run.config).search
    next_version(folder, settings.version)
    if settings.format == "saved_model":
        require_installed("the warm-up file of an export", ["tensorflow_serving"])
    _log("starting TensorFlow")
    import_tensorflow()
    from keras_transformer.serving.export import export

    with exit_on_signals():
        print(export(run, search, folder, settings, _log))


def _log(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
