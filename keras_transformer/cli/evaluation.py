"""Evaluation at the command line: options, held-out text, translation and report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from keras_transformer.cli.messages import UsageError
from keras_transformer.cli.options import Options, Parser
from keras_transformer.cli.standard_streams import require_output
from keras_transformer.cli.streams import check_outputs, output, progress
from keras_transformer.cli.trained_model import add_translator, files_read

if TYPE_CHECKING:
    from keras_transformer.evaluation.evaluation_set import EvaluationSet
    from keras_transformer.inference.translator import Translator

LoadTranslator = Callable[[Options], "Translator"]


def add_options(parser: Parser) -> None:
    """Add the options of ``evaluate``."""
    add_translator(parser)
    add = parser.add_argument
    add("--source", metavar="FILE", help="Sentences to translate, UTF-8, .gz too.")
    add("--reference", metavar="FILE", nargs="+", help="Reference translations; one file or more.")
    add(
        "--data",
        metavar="SPEC",
        help="Corpus, as for data.train, instead of --source and --reference.",
    )
    add("--hypotheses", metavar="FILE", help="Finished translations to evaluate, without a run.")
    add("--against", metavar="FILE", help="Another system's translations to compare with.")
    add("--output", metavar="FILE", help="Save the translations, detokenised.")
    add("--json", action="store_true", help="Print one JSON object.")
    add("--lowercase", action="store_true", help="Ignore case.")
    add(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU's tokenizer of BLEU; left out: the run's train.bleu_tokenizer, or auto, "
        "by the target language and the text.",
    )
    add(
        "--moses",
        action="store_true",
        help="Normalise and tokenise the translations as Moses does, for tokenised references; "
        "BLEU then splits at spaces only (--tokenize none).",
    )
    add("--source_language", metavar="CODE", help="Source language; left out: the run's.")
    add("--target_language", metavar="CODE", help="Target language; left out: the run's.")


def check_options(options: Options) -> None:
    """Refuse contradictory and incomplete options.

    Raises:
        UsageError: Names the options.
    """
    own = options.own
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
    require_output()
    check_outputs({"--output": own.output}, _files_read(options))


def _files_read(options: Options) -> list[str | None]:
    from keras_transformer.data.pairs import corpus_files

    own = options.own
    texts = [own.source, own.hypotheses, own.against, *(own.reference or [])]
    if own.data is not None:
        texts += map(str, corpus_files(own.data, *_languages(own)[:2]))
    return [*filter(None, texts), *files_read(options)]


def evaluate(options: Options, load_translator: LoadTranslator) -> dict[str, Any]:
    """Translate held-out text, or read finished translations, and score them.

    Args:
        options: With the own options of `add_options`.
        load_translator: Loads the run's translator if there is one.

    Returns:
        The fields of ``--json``.

    Raises:
        UserError: An option or a file cannot be used.
    """
    own = options.own
    source_language, target_language, tokenize = _languages(own)
    from keras_transformer.data.lines import read_lines
    from keras_transformer.evaluation import significance
    from keras_transformer.evaluation.metrics import reference_texts
    from keras_transformer.evaluation.results import evaluation_results
    from keras_transformer.evaluation.tokenization import choose_tokenization

    evaluation_set = _evaluation_set(own, source_language, target_language)
    for line in evaluation_set.report.dropped_lines():
        print(line, file=sys.stderr)
    # Refuse incomparable texts before the translation, not after it.
    baseline = list(read_lines(Path(own.against))) if own.against else None
    if baseline is not None:
        significance.check_seed()
        baseline = evaluation_set.select(baseline)
    references = evaluation_set.references
    chosen = choose_tokenization(target_language, reference_texts(references), tokenize)
    if chosen.note:
        print(f"{chosen.note}; --tokenize NAME chooses another", file=sys.stderr)
    speed: dict[str, float | None] = {"seconds": None, "tokens_per_second": None}
    if own.hypotheses is not None:
        hypotheses = list(read_lines(Path(own.hypotheses)))
    else:
        translator = load_translator(options)
        hypotheses, speed = _translate(translator, evaluation_set.sources or [], own.output)
    scores = evaluation_results(
        evaluation_set.select(hypotheses),
        references,
        target_language,
        lowercase=bool(own.lowercase),
        tokenize=tokenize,
        moses=bool(own.moses),
        baseline=baseline,
    )
    return scores | speed | {"dropped": evaluation_set.report.dropped}


def _languages(own: Namespace) -> tuple[str, str, str]:
    """Return both languages and the tokenizer of BLEU, from the options or else from the run."""
    source, target = own.source_language, own.target_language
    tokenize = "none" if own.moses else own.tokenize
    if own.run is not None:
        from keras_transformer.run import Run

        config = Run.open(own.run).config
        return (
            source or config.data.source,
            target or config.data.target,
            tokenize or config.train.bleu_tokenizer,
        )
    if not target:
        raise UsageError("--target_language CODE is missing: it chooses the tokenizer of BLEU")
    if own.data is not None and source is None:
        raise UsageError("--source_language CODE is missing")
    return source or "", target, tokenize or "auto"


def _evaluation_set(own: Namespace, source_language: str, target_language: str) -> EvaluationSet:
    from keras_transformer.evaluation.evaluation_set import EvaluationSet

    if own.data is not None:
        return EvaluationSet.from_corpus(own.data, source_language, target_language)
    source = Path(own.source) if own.source is not None else None
    return EvaluationSet.from_files(source, [Path(path) for path in own.reference])


def _translate(
    translator: Translator, sources: Sequence[str], path: str | None
) -> tuple[list[str], dict[str, float | None]]:
    """Translate and measure the speed; save the translations if a path is given."""
    with output(path) as stream, progress(len(sources), to_file=True) as report:
        start = time.perf_counter()
        hypotheses = [translation.text for translation in translator.translate(sources, report)]
        seconds = time.perf_counter() - start
        if path is not None:
            stream.writelines(f"{line}\n" for line in hypotheses)
    tokens = sum(len(ids) + 1 for ids in translator.tokenizer.target.encode(hypotheses))
    return hypotheses, {"seconds": seconds, "tokens_per_second": tokens / seconds}


def report(result: dict[str, Any]) -> str:
    """Format the result of `evaluate` for people."""
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
