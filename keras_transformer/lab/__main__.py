"""Laboratory: ``python -m keras_transformer.lab``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from keras_transformer.cli.main import exit_on_signals, run_main
from keras_transformer.cli.options import Options, build_parser, load_config
from keras_transformer.config import SECTIONS
from keras_transformer.lab.options import (
    LabSettings,
    add_options,
    describe_experiments,
    lab_settings,
)

MANUAL = """Reproduce the paper's choices and break them one by one, on a small corpus.

  python -m keras_transformer.lab --list
      the experiments
  python -m keras_transformer.lab no-positions heads --to lab
      two experiments with three seeds on the built-in English-Chinese corpus
  python -m keras_transformer.lab --data DIR/train --dev DIR/val --source en --target de --seeds 1
      all experiments on your own text
  python -m keras_transformer.lab --report
      the report from the results so far

Each configuration and seed is trained once, in a run folder below FOLDER/runs; its result is a
small JSON file in FOLDER/results. After an interruption the same command continues. The report is
FOLDER/report.html. Fields such as --model.d_model or --train.batch_tokens change the baseline, and
so all runs."""


@run_main("lab")
def main(argv: Sequence[str]) -> None:
    """Run experiments and write the report."""
    parser = build_parser("lab", MANUAL, list(SECTIONS))
    add_options(parser)
    options = load_config(parser, argv)
    if options.own.list:
        print(describe_experiments())
        return
    settings = lab_settings(options)
    with exit_on_signals():
        failed = [] if options.own.report else _run(settings, options)
        _report(settings, required=not failed)
    if failed:
        print(f"without a result: {', '.join(failed)}", file=sys.stderr)
        raise SystemExit(1)


def _run(settings: LabSettings, options: Options) -> list[str]:
    """Run all jobs that have no result; return the names of those that failed."""
    from keras_transformer import system
    from keras_transformer.lab import record
    from keras_transformer.lab.jobs import make_jobs, read_corpus
    from keras_transformer.lab.results import Results
    from keras_transformer.lab.runner import Laboratory
    from keras_transformer.training.reporting.run_log import print_line

    corpus = read_corpus(settings.baseline)
    jobs = make_jobs(settings.experiments, settings.baseline, settings.seeds, corpus)
    record.write(settings.results, settings.baseline, corpus)
    settings.folder.mkdir(parents=True, exist_ok=True)
    laboratory = Laboratory(
        settings.folder,
        Results(settings.results),
        corpus,
        print_line,
        clean=bool(options.own.clean),
        measure_again=bool(options.own.measure_again),
    )
    with system.lock(settings.folder):
        return laboratory.run(jobs)


def _report(settings: LabSettings, required: bool) -> None:
    """Write the report of all experiments that have results, and print its path.

    Raises:
        ResultError: There is no result, and the report is required.
    """
    from keras_transformer.lab import record
    from keras_transformer.lab.experiments import TABLE
    from keras_transformer.lab.report import Report
    from keras_transformer.lab.results import Results

    baseline, corpus = record.read(settings.results)
    results = Results(settings.results)
    if not len(results):
        if required:
            raise record.no_results(settings.results)
        return
    report = Report.of(TABLE.experiments, baseline, corpus, results)
    print(report.write(settings.folder))


if __name__ == "__main__":
    sys.exit(main())
