"""Measure translations against references: ``python -m keras_transformer.evaluate``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from keras_transformer.cli.main import (
    add_run,
    add_speed,
    load_translator,
    output,
    progress,
    run_main,
)
from keras_transformer.cli.options import Options, Parser, UsageError, build_parser, load_config

MANUAL = """Translate held-out sentences with a run and score the result: BLEU, chrF2 and TER by
sacreBLEU, each with its signature.

  python -m keras_transformer.evaluate --run runs/en-de --source F.en --reference F.de [--json]
      line by line; several files after --reference are several references
  python -m keras_transformer.evaluate --run runs/phrasebook --data builtin:phrasebook:test
      a corpus; a sentence with several rows is translated once and has them all as references
  python -m keras_transformer.evaluate --run runs/en-de --source F.en --lowercase --moses \\
      --reference F.lc.norm.tok.de
      against published references that are lower-cased and tokenised
  python -m keras_transformer.evaluate --hypotheses A.de --against B.de --reference F.de \\
      --target_language de
      finished translations, no run needed; is A better than B?

Two outputs are compared by paired bootstrap resampling with 1,000 resamples.
--json prints one object: bleu, bleu_signature, chrf, chrf_signature, ter, ter_signature,
sentences, brevity_penalty, length_ratio, seconds (of translation, loading left out) and
tokens_per_second (tokens written), both null with --hypotheses; with --against, against: a
comparison for each of the three scores."""


@run_main("evaluate")
def main(argv: Sequence[str]) -> None:
    """Evaluate a run, or finished translations."""
    parser = build_parser("evaluate", MANUAL, ["search"])
    _add_options(parser)
    options = load_config(parser, argv)
    own = options.own
    _check(own)
    source_language, target_language = _languages(own)
    from keras_transformer.data.lines import read_lines
    from keras_transformer.evaluation import metrics
    from keras_transformer.evaluation.assessment import assess
    from keras_transformer.evaluation.held_out import HeldOut

    if own.data is not None:
        held_out = HeldOut.from_corpus(own.data, source_language, target_language)
    else:
        source = Path(own.source) if own.source is not None else None
        held_out = HeldOut.from_files(source, [Path(path) for path in own.reference])
    others = list(read_lines(Path(own.against))) if own.against else None
    # What cannot be compared is refused before the translation, not after it.
    tokenize = "none" if own.moses else own.tokenize
    metrics.metrics(target_language, bool(own.lowercase), tokenize)
    if others is not None:
        metrics.check_counts(others, held_out.references)
    speed: dict[str, float | None] = {"seconds": None, "tokens_per_second": None}
    if own.hypotheses is not None:
        hypotheses = list(read_lines(Path(own.hypotheses)))
    else:
        hypotheses, speed = _translate(options, held_out.sources or [])
    result = assess(
        hypotheses,
        held_out.references,
        target_language,
        lowercase=bool(own.lowercase),
        tokenize=tokenize,
        moses=bool(own.moses),
        others=others,
    )
    print(json.dumps(result | speed) if own.json else report(result | speed))


def _add_options(parser: Parser) -> None:
    add_run(parser)
    add_speed(parser)
    add = parser.add_argument
    add("--source", metavar="FILE", help="Sentences to translate, UTF-8, .gz too.")
    add("--reference", metavar="FILE", nargs="+", help="Their translations; one file or more.")
    add("--data", metavar="SPEC", help="A corpus instead of the two, written as data.train is.")
    add("--hypotheses", metavar="FILE", help="Finished translations to evaluate, without a run.")
    add("--against", metavar="FILE", help="Another system's translations, to compare with.")
    add("--output", metavar="FILE", help="Save the translations, detokenised.")
    add("--json", action="store_true", help="Print one JSON object.")
    add("--lowercase", action="store_true", help="Compare without regard to case.")
    add("--tokenize", metavar="NAME", help="sacreBLEU's tokenizer; else by target language.")
    add(
        "--moses",
        action="store_true",
        help="Normalise and tokenise the translations as Moses does, for references that are "
        "tokenised already; BLEU then splits at spaces only (--tokenize none).",
    )
    add(
        "--source_language", metavar="CODE", help="Code of the sentences' language; else the run's."
    )
    add(
        "--target_language",
        metavar="CODE",
        help="Code of the translations' language; else the run's.",
    )


def _check(own: Namespace) -> None:
    """Refuse options that contradict each other or leave out what is needed."""
    if (own.run is None) == (own.hypotheses is None):
        raise UsageError("expected --run DIR or --hypotheses FILE, one of the two")
    if own.data is not None and (own.source is not None or own.reference is not None):
        raise UsageError("expected --data SPEC, or --source and --reference, not both")
    if own.data is None and own.reference is None:
        raise UsageError("--reference FILE is missing (or --data SPEC)")
    if own.data is None and own.hypotheses is None and own.source is None:
        raise UsageError("--source FILE is missing (or --data SPEC)")
    if own.moses and own.tokenize is not None:
        raise UsageError("expected --moses or --tokenize, not both")
    if own.hypotheses is not None and own.output is not None:
        raise UsageError("--output saves translations of --run; --hypotheses are saved already")


def _languages(own: Namespace) -> tuple[str, str]:
    """Source and target language: as the user says, else as the run has them."""
    source, target = own.source_language, own.target_language
    if own.run is not None:
        from keras_transformer.run import Run

        data = Run.open(Path(own.run)).config.data
        return source or data.source, target or data.target
    if target is None:
        raise UsageError("--target_language CODE is missing: it chooses the tokenizer of BLEU")
    if own.data is not None and source is None:
        raise UsageError("--source_language CODE is missing")
    return source or "", target


def _translate(
    options: Options, sources: Sequence[str]
) -> tuple[list[str], dict[str, float | None]]:
    """The translations, saved where the user wants them, and how fast they came."""
    translator = load_translator(options)
    with output(options.own.output) as stream, progress(len(sources), elsewhere=True) as bar:
        start = time.perf_counter()
        hypotheses = [found.text for found in translator.translate(sources, bar)]
        seconds = time.perf_counter() - start
        if options.own.output is not None:
            stream.writelines(f"{line}\n" for line in hypotheses)
    tokens = sum(len(ids) + 1 for ids in translator.tokenizer.target.encode(hypotheses))
    return hypotheses, {"seconds": seconds, "tokens_per_second": tokens / seconds}


def report(result: dict[str, Any]) -> str:
    """The result for people."""
    lines = [
        f"{name:5}{result[key]:7.2f}  {result[f'{key}_signature']}"
        for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("TER", "ter"))
    ]
    speed = ""
    if result["seconds"] is not None:
        speed = f", {result['seconds']:.1f} s, {result['tokens_per_second']:.0f} tokens/s"
    lines.append(f"{result['sentences']} sentences{speed}")
    for other in result.get("against", []):
        lines.append(
            f"against {other['metric']} {other['other']:.2f} ± {other['other_confidence']:.2f}: "
            f"{other['delta']:+.2f}, p = {other['p_value']:.4f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
