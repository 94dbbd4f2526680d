"""Evaluation at the command line, with finished or scripted translations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from keras_transformer import evaluate
from keras_transformer.config import to_dict
from keras_transformer.evaluation.errors import EvaluationError
from keras_transformer.evaluation.evaluation_set import EvaluationSet
from keras_transformer.evaluation.metrics import moses_tokenizer
from keras_transformer.inference.translator import Translation
from keras_transformer.presets import preset


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_lines(name: str, *lines: str) -> str:
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    return write_lines


def run(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert evaluate.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


LINES = ("Der Hund läuft über die Wiese.", "Zwei Männer sitzen im Park.")


def test_finished_translations(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hypotheses", write("h", *LINES), "--reference", write("r", *LINES)]
    result = run([*words, "--target_language", "de"], capsys)

    assert result["bleu"] == pytest.approx(100)
    assert (result["chrf"], result["ter"], result["sentences"]) == (100, 0, 2)
    assert "case:mixed" in result["bleu_signature"]
    assert result["seconds"] is result["tokens_per_second"] is None
    assert "against" not in result
    assert result["dropped"] == {}


def test_report_for_people(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hypotheses", write("h", *LINES), "--reference", write("r", *LINES)]
    words += ["--against", write("o", LINES[0], "Zwei Frauen."), "--target_language", "de"]
    assert evaluate.main(words) == 0

    text = capsys.readouterr().out
    assert text.startswith("BLEU  100.00  nrefs:1|")
    assert "2 sentences\n" in text
    assert "against bleu " in text
    assert "p = " in text


def test_several_references(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--hypotheses", write("h", *LINES), "--target_language", "de", "--reference"]
    result = run([*words, write("r1", LINES[0], "x"), write("r2", "y", LINES[1])], capsys)

    assert result["bleu"] == pytest.approx(100)
    assert "nrefs:2" in result["bleu_signature"]


def test_against_compares_both_outputs(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lines = LINES * 20
    words = ["--hypotheses", write("h", *lines), "--reference", write("r", *lines)]
    words += ["--target_language", "de", "--against"]
    worse = run([*words, write("o", *(line.replace("ei", "ie") for line in lines))], capsys)

    metrics = {comparison["metric"]: comparison for comparison in worse["against"]}
    assert list(metrics) == ["bleu", "chrf", "ter"]
    assert metrics["bleu"]["delta"] > 0 > metrics["ter"]["delta"]
    assert metrics["bleu"]["p_value"] < 0.01
    same = run([*words, write("o", *lines)], capsys)
    assert [comparison["p_value"] for comparison in same["against"]] == [1, 1, 1]


def test_blank_references_are_not_scored(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Perfect translations of rows with a reference, and any text for the others."""
    spec = write("few.tsv", f"A.\t{LINES[0]}", "no tab", "C.\t", f"D.\t{LINES[1]}")
    words = ["--hypotheses", write("h", LINES[0], "x", "y z", LINES[1]), "--data", spec]
    words += ["--source_language", "en", "--target_language", "de"]
    words += ["--against", write("o", LINES[0], LINES[1])]
    assert evaluate.main([*words, "--json"]) == 0

    output = capsys.readouterr()
    result = json.loads(output.out)
    assert (result["bleu"], result["ter"], result["sentences"]) == (pytest.approx(100), 0, 2)
    assert [comparison["delta"] for comparison in result["against"]] == [0, 0, 0]
    assert result["dropped"] == {"with fewer than two columns": 1, "blank on one side": 1}
    assert output.err.splitlines() == [
        "dropped 1 with fewer than two columns (line 2)",
        "dropped 1 blank on one side (line 3)",
    ]


def test_tokenizer_follows_the_text_where_the_code_says_nothing(
    write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ("我爱你们。", "你好世界。")
    words = ["--hypotheses", write("h", *lines), "--reference", write("r", *lines)]
    words += ["--target_language", "cn"]
    assert evaluate.main([*words, "--against", write("o", "我爱我们。", lines[1])]) == 0
    output = capsys.readouterr()
    assert "|tok:zh|" in output.out.splitlines()[0]
    assert output.err == (
        "BLEU tokenizer: zh, chosen by the text (Chinese characters); the language code 'cn' "
        "has none; --tokenize NAME chooses another\n"
    )
    assert "|tok:char|" in run([*words, "--tokenize", "char"], capsys)["bleu_signature"]


def test_moses_compares_with_tokenised_references(
    write: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenized = ("der hund läuft über die wiese .", "zwei männer sitzen im park .")
    words = ["--hypotheses", write("h", *LINES), "--reference", write("r", *tokenized)]
    words += ["--target_language", "de", "--lowercase"]
    result = run([*words, "--moses"], capsys)

    assert result["bleu"] == pytest.approx(100)
    assert result["bleu_signature"].startswith("nrefs:1|case:lc|eff:no|tok:none|")
    assert run([*words, "--tokenize", "none"], capsys)["bleu"] < 80


def test_moses_tokenizer_keeps_case_unless_lowercase() -> None:
    assert (
        moses_tokenizer("de", lowercase=False)("„Ja“, sagt er.") == "&quot; Ja &quot; , sagt er ."
    )


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--reference", "three"], "have 2 lines, the reference has 3"),
        (["--reference", "two", "--against", "three"], "have 3 lines"),
        (["--reference", "two", "--tokenize", "x"], "tokenize: expected one of"),
        (["--reference", "absent"], "absent"),
    ],
)
def test_incomparable_outputs_are_refused(
    write: Any,
    extra: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write("two", *LINES)
    write("three", *LINES, "x")

    assert evaluate.main(["--hypotheses", "two", "--target_language", "de", *extra]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert output.out == ""


def test_sources_and_references_that_differ_in_number_name_both_counts(write: Any) -> None:
    source, reference = Path(write("a.en", "a", "b")), Path(write("a.de", "a", "b", "c"))

    with pytest.raises(EvaluationError, match=r"a\.en has 2 lines, .*a\.de has 3"):
        EvaluationSet.from_files(source, [reference])


def test_a_sentence_with_several_rows_is_taken_once(write: Any) -> None:
    """Further columns do not count."""
    spec = write("test.tsv", "Hi.\t你好。\tx", "Bye.\t再见。\ty", "Hi.\t嗨。\tz")

    held_out = EvaluationSet.from_corpus(spec, "en", "zh")

    assert held_out.sources == ["Hi.", "Bye."]
    assert held_out.references == [["你好。", "再见。"], ["嗨。", None]]


class Copying:
    """Translates by copying; a token is a character."""

    def __init__(self) -> None:
        self.tokenizer = SimpleNamespace(target=SimpleNamespace(encode=lambda texts: texts))

    def translate(self, lines: Sequence[str], progress: object) -> list[Translation]:
        return [Translation(line, -1.0) for line in lines]


def test_a_run_is_translated_saved_and_measured(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Languages come from the run: zh is scored by character."""
    text = yaml.safe_dump(to_dict(preset("demo")))
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(evaluate, "load_translator", lambda options: Copying())
    spec = write("test.tsv", "你好。\t你好。", "再见。\t再见。", "你好。\t嗨。")
    out = tmp_path / "out.zh"
    words = ["--run", str(tmp_path), "--data", spec, "--output", str(out)]
    result = run(words, capsys)

    assert result["sentences"] == 2
    assert "tok:zh" in result["bleu_signature"]
    assert result["ter"] == 0
    assert result["seconds"] > 0
    assert result["tokens_per_second"] == pytest.approx(8 / result["seconds"])
    assert out.read_text(encoding="utf-8") == "你好。\n再见。\n"


def test_tokenizer_of_the_run_is_the_default(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A blank line is translated, so that the saved lines fit the source, but not scored."""
    values = to_dict(preset("demo"))
    values["train"]["bleu_tokenizer"] = "char"
    text = yaml.safe_dump(values)
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(evaluate, "load_translator", lambda options: Copying())
    words = ["--run", str(tmp_path), "--source", write("s", "你好。", "", "嗨。")]
    words += ["--reference", write("r", "你好。", "再见。", "嗨。"), "--output"]
    result = run([*words, str(tmp_path / "out")], capsys)

    assert "|tok:char|" in result["bleu_signature"]
    assert (result["ter"], result["sentences"]) == (0, 2)
    assert result["dropped"] == {"blank on one side": 1}
    assert (tmp_path / "out").read_text(encoding="utf-8") == "你好。\n\n嗨。\n"
    again = run([*words, str(tmp_path / "out"), "--tokenize", "auto"], capsys)
    assert "|tok:zh|" in again["bleu_signature"]
