"""Recipes and the config.yaml of runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from keras_transformer.config import Config, ConfigError, from_dict, to_dict
from keras_transformer.config.yaml_file import MAX_BYTES, read_config_file, write_config_text

KEYS = ["preset"]


def read(folder: Path, content: bytes | str) -> dict[str, object]:
    path = folder / "some.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_config_file(path, KEYS)


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("search: {alpha: 6e-1}", {"search": {"alpha": 0.6}}),
        ("search: {alpha: '0.6'}", {"search": {"alpha": 0.6}}),
        ("search: {sample: 'false'}", {"search": {"sample": False}}),
        ("search: {sample: yes}", {"search": {"sample": True}}),
        ("train: {max_steps: 1_000, seed: 1e3}", {"train": {"max_steps": 1000, "seed": 1000}}),
        ("data: {target: no, source: 1e3}", {"data": {"target": "no", "source": "1e3"}}),
        ("data: {dev: ''}", {"data": {"dev": ""}}),
        ("search: {suppress: ['>>deu<<', no, 1e3]}",
         {"search": {"suppress": (">>deu<<", "no", "1e3")}}),
        ("search:\n  suppress:\n  - \">>a<<\"\n  - ▁b", {"search": {"suppress": (">>a<<", "▁b")}}),
        ("search: {suppress: '[\"a\"]'}", {"search": {"suppress": ("a",)}}),
        ("search: {suppress: []}", {"search": {"suppress": ()}}),
        ("preset: tiny", {"preset": "tiny"}),
        ("\ufefftrain: {seed: 5}", {"train": {"seed": 5}}),
        ("train:\r\n  seed: 5\r\n", {"train": {"seed": 5}}),
        ("train: {max_steps: &n 7, seed: *n}", {"train": {"max_steps": 7, "seed": 7}}),
        ("train: {seed: !!int 5}", {"train": {"seed": 5}}),
        ("%YAML 1.1\n---\ntrain: {seed: 5}\n...\n", {"train": {"seed": 5}}),
    ],
)  # fmt: skip
def test_values_are_read_by_the_type_of_their_field(
    tmp_path: Path, content: str, values: dict[str, object]
) -> None:
    assert read(tmp_path, content) == values


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "train: {seed: 1}\nmodel: {heads: 1}\ntrain: {seed: 2}\n",
            "line 3: train is given twice, in lines 1 and 3; keep one",
        ),
        (
            "train:\n  seed: 1\n  max_steps: 2\n  seed: 3\n",
            r"line 4: train\.seed is given twice, in lines 2 and 4",
        ),
        ("preset: a\n'preset': b", "preset is given twice, in lines 1 and 2"),
        ("search: {suppress: a}", r"line 1: search\.suppress: expected a list of texts such as"),
        ("search: {suppress: [a, [b]]}", r"suppress: expected a text in the list, got a list$"),
        ("search: {suppress: [a, ~]}", r"suppress: expected a value, got null"),
        ("search: {suppress: {a: b}}", r"suppress: expected a list of .*, got fields and values$"),
        ("train: {seed: 012}", r"line 1: train\.seed: expected a whole number, got '012'$"),
        ("train: {max_minutes: 1:30}", r"train\.max_minutes: expected a number, got '1:30'$"),
        ("train: {seed: null}", r"train\.seed: expected a value, got null; leave the line out"),
        ("data:\n  source:\n", r"line 2: data\.source: expected a value, got null"),
        ("preset:", "preset: expected a value, got null"),
        ("preset: [tiny]", "preset: expected a text, got a list"),
        ("model: {heads: [1]}", r"model\.heads: expected a whole number, got a list$"),
        ("data: {source: {a: b}}", r"data\.source: expected a text, got fields and values$"),
        ("model: 5", "line 1: model: expected fields and values, got '5'$"),
        ("model:\ntrain: {seed: 1}", "line 1: model: expected fields and values, got nothing$"),
        ("model: [d_model, 3]", "model: expected fields and values, got a list$"),
        ("model: {d_modl: 3}", r"unknown field model\.d_modl; did you mean model\.d_model"),
        ("modle: {d_model: 3}", r"unknown field modle\.d_model; did you mean model\.d_model\?"),
        ("run: here", "unknown field run"),
        ("modle: {}", "unknown field modle; did you mean model"),
        ("modle: 3", "unknown field modle; did you mean model"),
        ("train: {<<: {seed: 1}}", "unknown field train.<<"),
        ("? [train]\n: 5", "expected the name of a field, got a list"),
        ("train: {seed: !!python/name:os.system 5}", "got the tag .*python/name:os.system"),
        ("train: {seed: !mine 5}", "got the tag !mine"),
        ("", "expected fields such as .*, found nothing$"),
        ("{}", "expected fields such as .*, found fields and values$"),
        ("# comments only\n", "found nothing"),
        ("- 1", "expected fields such as .*, found a list"),
        ("text", "expected fields such as .*, found 'text'"),
        ("model: {", "line 1: not YAML: while parsing a flow node: expected"),
        ("train:\n\tseed: 5", "line 2: not YAML: .*indent with spaces, not with tabs"),
        ("train: {seed: 1}\n---\ntrain: {seed: 2}", "line 2: not YAML: expected a single document"),
        ("train: *nowhere", "line 1: not YAML: found undefined alias"),
        ("train: {seed: '\0'}", "not YAML: unacceptable character #x0000"),
        ("[" * 5000, "line 1: not YAML: nested too deeply"),
        ("a:\n" + "".join(f"{' ' * n}- \n" for n in range(1, 40)), "nested too deeply"),
        (b"\xff\xfe", "cannot read .*: expected UTF-8, got byte 0xff in line 1$"),
        (b"data:\n  source: caf\xe9\n", "expected UTF-8, got byte 0xe9 in line 2$"),
        ("#" * (MAX_BYTES + 1), f"expected at most {MAX_BYTES} bytes"),
    ],
)
def test_a_bad_file_is_named_and_explained(
    tmp_path: Path, content: bytes | str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(tmp_path, content)
    assert "some.yaml" in str(caught.value)


def test_aliases_cannot_multiply(tmp_path: Path) -> None:
    """Nine levels of nine references: 387 million entries, if they were copied."""
    lines = ["l0: &l0 [x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 10)]
    start = time.perf_counter()
    with pytest.raises(ConfigError, match="unknown field l0"):
        read(tmp_path, "\n".join(lines))
    with pytest.raises(ConfigError, match="train.seed: expected a whole number, got fields"):
        read(tmp_path, "train: &own {seed: *own}")
    assert time.perf_counter() - start < 2


def test_a_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    if os.path.exists("/dev/zero"):
        with pytest.raises(ConfigError, match="/dev/zero: expected at most"):
            read_config_file(Path("/dev/zero"))
    with pytest.raises(ConfigError, match="there is no file"):
        read_config_file(tmp_path / "none.yaml")


def test_what_a_run_writes_is_read_back(tmp_path: Path) -> None:
    values = {"data": {"target": "no", "source": "012", "train": "1e3"}, "search": {"alpha": 1e-9}}
    config = from_dict(values)
    text = yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)
    assert from_dict(read(tmp_path, text)) == config
    assert from_dict(read(tmp_path, yaml.safe_dump(to_dict(Config())))) == Config()


def test_line_separators_in_names_of_files_are_read_back(tmp_path: Path) -> None:
    config = from_dict({"data": {"train": "a\x85b\u2028c  d\u2029", "dev": "caf\udce9\n x "}})
    text = write_config_text(to_dict(config))
    assert from_dict(read(tmp_path, text)) == config
    assert text.endswith("\n...\n")


def test_names_in_messages_are_short_and_on_one_line(tmp_path: Path) -> None:
    keys = ("'" + "k" * 5000 + "'", '"a\\nb"', "? [a]\n")
    for content in (
        "{key}: 1",
        "modle: {{{key}: 1}}",
        "train: {{{key}: 1}}",
        "train: {{seed: !%0A 1}}",
    ):
        for key in keys:
            with pytest.raises(ConfigError) as caught:
                read(tmp_path, content.format(key=key))
            message = str(caught.value)
            assert len(message) < 600
            assert message.isprintable()
