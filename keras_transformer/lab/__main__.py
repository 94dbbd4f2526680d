"""Laboratory: ``python -m keras_transformer.lab``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from keras_transformer.cli.main import exit_on_signals, run_main
from keras_transformer.cli.options import Options, build_parser, load_config
from keras_transformer.config import SECTIONS
from keras_transformer.lab.options import Request, add_options, describe, request

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
small JSON file in FOLDER/results. Call the command again to continue after an interruption. The
report is FOLDER/report.html. Fields such as --model.d_model or --train.batch_tokens change the
baseline, and so all runs."""


@run_main("lab")
def main(argv: Sequence[str]) -> None:
    """Run experiments and make the report."""
    parser = build_parser("lab", MANUAL, list(SECTIONS))
    add_options(parser)
    options = load_config(parser, argv)
    if options.own.list:
        print(describe())
        return
    wanted = request(options)
    with exit_on_signals():
        failed = [] if options.own.report else _run(wanted, options)
        _report(wanted)
    if failed:
        print(f"without a result: {', '.join(failed)}", file=sys.stderr)
        raise SystemExit(1)


def _run(wanted: Request, options: Options) -> list[str]:
    """Finish all runs; return the names of those that failed."""
    from keras_transformer import system
    from keras_transformer.lab import record
    from keras_transformer.lab.jobs import corpus, jobs
    from keras_transformer.lab.results import Results
    from keras_transformer.lab.runner import Laboratory
    from keras_transformer.training.reporting.run_log import print_line

    found = corpus(wanted.baseline)
    all_jobs = jobs(wanted.experiments, wanted.baseline, wanted.seeds, found)
    record.write(wanted.results, wanted.baseline, found)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    laboratory = Laboratory(
        wanted.folder,
        Results(wanted.results),
        found,
        print_line,
        clean=bool(options.own.clean),
        measure_again=bool(options.own.measure_again),
    )
    with system.lock(wanted.folder):
        return laboratory.run(all_jobs)


def _report(wanted: Request) -> None:
    """Make the report of all experiments with results in the folder."""
    from keras_transformer.lab import record
    from keras_transformer.lab.experiments import TABLE
    from keras_transformer.lab.report import Report
    from keras_transformer.lab.results import Results

    baseline, corpus = record.read(wanted.results)
    report = Report.of(TABLE.experiments, baseline, corpus, Results(wanted.results))
    print(report.write(wanted.folder))


if __name__ == "__main__":
    sys.exit(main())
