"""Make a run ready to be served: ``python -m keras_transformer.export``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli.main import add_run, ended_by_sigterm, import_tensorflow, run_main
from keras_transformer.cli.options import UsageError, build_parser, load_config

MANUAL = """Make a SavedModel of a run that TensorFlow Serving (2.20 or newer) takes as it is: text
in, text out, with tokenizer, search and detokenizer inside.

  python -m keras_transformer.export --run runs/en-de --to export/models/en-de
      the next version: export/models/en-de/1, then 2, ...
  python -m keras_transformer.export --run runs/en-de --to export/models/en-de --version 7 \\
      --search.beam 4 --search.alpha 0.6 --search.n_best 4 --dtype bfloat16

Chosen here for good, and written into the model card export.json beside the SavedModel: beam
width, length penalty (search.alpha), translations of the signature nbest (search.n_best; left
at 1, it is the beam width), longest translation (search.max_extra more tokens than its source),
search.min_length, search.no_repeat_ngram, longest source (--max_tokens; longer text is cut, and
the answer says so), weights (--dtype). Of these, the signature options takes alpha and
max_extra anew with each sentence, moved into 0 to 10 and into 0 to the exported one where they
are outside. Samples (search.sample) cannot be exported.

Signatures, each input and output with the batch as its first dimension:
  serving_default, translate   text -> translation, score, truncated
  nbest                        text -> translations, scores
  options                      text, alpha, max_extra -> translation, score, truncated
  score                        source, target -> score, log_probability, tokens
  align                        text -> translation, score, truncated, source_pieces,
                               target_pieces, attention

The version appears whole or not at all, after a check for what TensorFlow Serving would refuse.
It translates the first sentences of the run's dev set, and its BLEU goes into the card; with
weights of fewer bits it must keep what the run has, or nothing is written.

  python -m keras_transformer.export --run runs/en-de --to models/en-de --format ctranslate2
      for CTranslate2's engine instead, which is to be installed: pip install ctranslate2

That version holds the network (model.bin), the SentencePiece models to cut text with, and the
card, whose translate_batch are the arguments to translate with, made of the same choices. Two
mean something else there: the length penalty is length^alpha, and max_extra counts from the
longest source allowed. The engine has no ALiBi, and no values wider or narrower than keys.

A line tells of each step; the last one is the version's folder. Ctrl-C or SIGTERM leaves nothing
behind; what a killed export left, the next one into the same folder removes."""


@run_main("export")
def main(argv: Sequence[str]) -> None:
    """Export a run."""
    parser = build_parser("export", MANUAL, ["search"])
    add_run(parser)
    add = parser.add_argument
    add("--to", metavar="DIR", help="Folder of the versions; its last name is the model's name.")
    add(
        "--format",
        metavar="NAME",
        help="saved_model, for TensorFlow Serving; or ctranslate2, for CTranslate2's engine.",
    )
    add("--version", type=int, metavar="N", help="Number of the version; else the next one.")
    add(
        "--dtype",
        metavar="NAME",
        help="Weights: float32; bfloat16, half as large, computes in bfloat16 (fast on processors "
        "that have it, slow on others); int8, a quarter as large, computes in float32.",
    )
    add("--max_tokens", type=int, metavar="N", help="Longest source; else the run's max_tokens.")
    add("--dev_sentences", type=int, metavar="N", help="To measure BLEU; 0: none, else 1000.")
    add("--max_bleu_loss", type=float, metavar="X", help="Most that --dtype may lose; else 0.2.")
    options = load_config(parser, argv)
    own = options.own
    if own.run is None:
        raise UsageError("--run DIR is missing: the run folder of a trained model")
    if own.to is None:
        raise UsageError("--to DIR is missing: the folder in which versions are put")
    from keras_transformer.serving.settings import ExportSettings

    chosen = {
        name: value
        for name in ("format", "version", "dtype", "max_tokens", "dev_sentences", "max_bleu_loss")
        if (value := own.get(name)) is not None
    }
    settings = ExportSettings(**chosen)
    from keras_transformer.run import Run
    from keras_transformer.serving.version_folder import next_version

    run = Run.open(Path(own.run))
    run.check_weights()
    search = options.config(run.config).search
    next_version(Path(own.to), settings.version)
    _log("starting TensorFlow")
    import_tensorflow()
    from keras_transformer.serving.export import export

    with ended_by_sigterm():
        print(export(run, search, Path(own.to), settings, _log))


def _log(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
