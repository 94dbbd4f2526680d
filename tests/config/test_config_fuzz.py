"""Configuration files and options of any content: read as meant, or refused in one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from hypothesis import example
from hypothesis import strategies as st

from keras_transformer import field_types as field_kinds
from keras_transformer import system
from keras_transformer.cli.options import build_parser, load_config
from keras_transformer.config import SECTIONS, Config, from_dict, to_dict
from keras_transformer.config.yaml_file import read_config_file, write_config_text
from keras_transformer.field_types import field_types
from keras_transformer.run import Run
from keras_transformer.server.settings import Settings
from keras_transformer.serving.settings import ExportSettings
from keras_transformer.validation import read_field
from tests.support.fuzzing import attempt, fuzz, sizes

LONGEST_MESSAGE = 1_000
FIELDS = [(section, name) for section, fields in SECTIONS.items() for name in field_types(fields)]
NAMES = [f"{section}.{name}" for section, name in FIELDS]

# Scalars as people, programs and attackers write them; none has a line of its own.
SCALARS = st.sampled_from(
    ["0", "1", "-1", "3", "100", "1e3", "1e-3", "0.5", ".5", "5.", "1_000", "012", "0x10", "0o7",
     "1:30", "+1", "-0", "1e400", "1e-400", "1e9999999999999999999", "1e-9999999999999999999",
     "9" * 20, "9" * 400, "9" * 5000, "1" + "_000" * 2000, "0." + "0" * 5000 + "1", ".inf", "-.INF",
     ".nan", "inf", "nan", "true", "False", "yes", "no", "on", "off", "y", "null", "~", "tied",
     "gnmt", "float32", "bfloat16", "adam", "2001-01-01", "a b", "en", "C:\\x", "gs://a/b", "~/a",
     "''", '""', '"1"', "'true'", '"\\0"', '"\\ud800"', '"a\\nb"', '"\\e[2J"',
     "'" + "x" * 9000 + "'",
     "!!int 1", "!!python/object:os.system 1", "!%0A 1", "! 1", "!!binary aGk=", "!!null x",
     "!!set {a}", "&a 1", "*a", "*none", "<<", "=", "٣", "１", "1 # c", "|\n  1", "- 1", "[1]",
     "[]", "[a, b]", '["a"]', "[~]", "{}", "{a: 1}", "{? [1] : 2}", "[[[[]]]]", "\x07", "\u2028",
     "@", "`", "%", "?", "- - -"]
)  # fmt: skip
KEYS = st.sampled_from(
    [*SECTIONS, "preset", "modle", "run", "seed", "'a\\nb'", '"a\\nb"', '"\\e"',
    "'" + "k" * 5000 + "'",
     "<<", "? [a]", "? {a: b}", "*a", "*l9", "? *l9", "? *self", "&a model", "!x model",
     "!!str model",
     "null", "1", "''"]
)  # fmt: skip
FIELD_KEYS = st.sampled_from([name for _, name in FIELDS]) | KEYS
BOMB = "l0: &l0 [x]\n" + "".join(
    f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
HEADS = st.sampled_from(["", "\ufeff", "%YAML 1.2\n---\n", "--- \n", BOMB, "&self ", "a: &a [x]\n"])


def refused_or(path: Path, read: Callable[[], Any]) -> Any:
    """Return the result, or None for an error that names the file and stays short."""
    result, error = attempt(read)
    if error:
        assert str(path) in error
        assert len(error) < LONGEST_MESSAGE
        assert error.isprintable(), error
    return result


def read_all(path: Path) -> Config | None:
    """Read a file as a recipe and as the configuration of a run; build the configuration."""
    values = refused_or(path, lambda: read_config_file(path, ["preset"]))
    run = refused_or(path.parent, lambda: Run.open(path.parent))
    assert values is not None or run is None
    if values is None or "preset" in values:
        return None
    built, error = attempt(lambda: from_dict(values))
    assert (run is None) == bool(error)
    if error:
        assert any(name in error for name in NAMES), error
        assert len(error) < LONGEST_MESSAGE
        return None
    assert run.config == built
    return built


def check_round_trip(config: Config, path: Path) -> None:
    """Check that what a run writes is read back."""
    for section in SECTIONS:
        values = getattr(config, section)
        for name, kind in field_types(SECTIONS[section]).items():
            value = getattr(values, name)
            assert type(value) in (int, float, bool, str, tuple, type(None)), (name, kind)
            assert not isinstance(value, float) or math.isfinite(value)
    system.write_text(path, write_config_text(to_dict(config)))
    assert from_dict(read_config_file(path)) == config


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


@sizes(25)
def test_any_bytes(path: Path, count: int) -> None:
    bytes_like_yaml = st.lists(
        st.sampled_from(
            [b"train", b":", b" ", b"\n", b"- ", b"{", b"}", b"[", b"]", b",", b"seed", b"1", b"'",
            b'"',
             b"\\x", b"&a ", b"*a", b"!!", b"%", b"#", b"|", b">", b"?", b"\t", b"---", b"...",
             b"\0",
             b"\xff", b"\xef\xbb\xbf", b"\r", b"\xc2\x85", b"\xe2\x80\xa8", b"\xed\xa0\x80",
             b"1" * 5000]
        ),
        max_size=14,
    ).map(b"".join)  # fmt: skip

    @fuzz(count, content=bytes_like_yaml | st.binary(max_size=30))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        read_all(path)


@sizes(60, 1_000)
def test_any_value_in_any_field(path: Path, count: int) -> None:
    @fuzz(count, field=st.sampled_from(FIELDS), value=SCALARS)
    @example(field=("train", "seed"), value="1e9999999999999999999")
    @example(field=("train", "learning_rate_factor"), value="1e9999999999999999999")
    @example(field=("train", "seed"), value="!%0A 1")
    @example(field=("data", "train"), value="gs://a/b")
    def check(field: tuple[str, str], value: str) -> None:
        path.write_text(f"{field[0]}:\n  {field[1]}: {value}\n", "utf-8")
        config = read_all(path)
        if config is not None:
            check_round_trip(config, path)


@sizes(40, 1_000)
def test_wrong_nesting_and_names(path: Path, count: int) -> None:
    entry = st.tuples(KEYS, SCALARS | st.lists(st.tuples(FIELD_KEYS, SCALARS), max_size=3))

    def text(entries: list[tuple[str, Any]]) -> str:
        lines = []
        for key, value in entries:
            lines.append(f"{key}: {value}" if isinstance(value, str) else f"{key}:")
            if not isinstance(value, str):
                lines += [f"  {name}: {scalar}" for name, scalar in value]
        return "\n".join(lines)

    @fuzz(count, head=HEADS, entries=st.lists(entry, max_size=4))
    @example(head=BOMB, entries=[("modle", [("? *l9 ", "1")])])
    @example(head=BOMB, entries=[("model", [("? *l9 ", "1")])])
    @example(head="", entries=[("'" + "k" * 5000 + "'", "1")])
    @example(head="", entries=[('"a\\nb"', "1")])
    @example(head="", entries=[("model", [('"a\\nb"', "1")])])
    @example(head="", entries=[("preset", "1"), ("preset", "2")])
    def check(head: str, entries: list[tuple[str, Any]]) -> None:
        path.write_text(head + text(entries), "utf-8")
        read_all(path)


@pytest.mark.parametrize(
    "content",
    [
        BOMB,
        BOMB + "modle: {? *l9 : 1}",
        BOMB + "model: {? *l9 : 1}",
        BOMB + "model: *l9",
        BOMB + "model: {layers: *l9}",
        "&self {modle: {? *self : 1}}",
        "&self [*self]",
        "- " * 3_000 + "1",
        "? " * 3_000 + "1",
        "{a: " * 3_000,
        "!!x " * 3_000 + "1",
        "'" + "x" * 60_000 + "': 1",
        "train: {seed: " + "9" * 60_000 + "}",
        pytest.param("a: 1\n" * 26_000, marks=pytest.mark.slow),
        pytest.param("train: {" + "seed: 1, " * 14_000 + "}", marks=pytest.mark.slow),
        pytest.param("? k\n" * 32_000, marks=pytest.mark.slow),
        pytest.param("train:\n  seed: |\n" + "    1\n" * 20_000, marks=pytest.mark.slow),
    ],
    ids=lambda content: content[:12].strip() + content[-12:].strip(),
)
def test_files_made_to_take_long(path: Path, content: str) -> None:
    path.write_text(content, "utf-8")
    assert read_all(path) is None


# Values of the fields' types, near and beyond their limits, and of other types.
NUMBERS = (
    st.integers() | st.floats() | st.integers(-(10**400), 10**400) | st.sampled_from([0, 1, 2])
)
TEXTS = st.text(max_size=5) | st.sampled_from(
    ["\ud800", "a\nb", " a ", "\x85", "no", "012", "~", "a: b"]
)
ANY = st.none() | st.booleans() | NUMBERS | TEXTS | st.binary(max_size=2) | st.lists(st.none())


def of_kind(kind: Any) -> st.SearchStrategy[Any]:
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind)) | ANY
    kinds = {
        bool: st.booleans(),
        int: st.integers(0, 2000),
        float: st.floats(0, 3),
        str: TEXTS,
        field_kinds.TEXTS: st.lists(TEXTS, max_size=3) | st.lists(TEXTS, max_size=3).map(tuple),
    }
    return kinds.get(kind, ANY) | ANY


VALUES = st.sampled_from(FIELDS).flatmap(
    lambda field: st.tuples(st.just(field), of_kind(field_types(SECTIONS[field[0]])[field[1]]))
)


@sizes(40, 1_000)
def test_values_from_python_are_refused_or_read_back_from_the_run(path: Path, count: int) -> None:
    @fuzz(count, changes=st.lists(VALUES, min_size=1, max_size=3))
    @example(changes=[(("data", "train"), "\ud800")])
    @example(changes=[(("data", "train"), "a\x85b\u2028c")])
    @example(changes=[(("data", "train"), 10**5000)])
    def check(changes: list[tuple[tuple[str, str], Any]]) -> None:
        values: dict[str, dict[str, Any]] = {}
        for (section, name), value in changes:
            values.setdefault(section, {})[name] = value
        config, error = attempt(lambda: from_dict(values))
        if error:
            assert any(name in error for name in NAMES), error
            assert len(error) < LONGEST_MESSAGE
        else:
            check_round_trip(config, path)


@sizes(40)
def test_options_of_the_command_line_read_as_a_recipe_does(path: Path, count: int) -> None:
    parser = build_parser("train", "", list(SECTIONS))
    words = SCALARS.filter(lambda text: "\n" not in text) | st.text(max_size=6).filter(
        lambda text: "\0" not in text
    )

    @fuzz(count, field=st.sampled_from(FIELDS), word=words, joined=st.booleans())
    @example(field=("train", "seed"), word="1e9999999999999999999", joined=True)
    @example(field=("train", "seed"), word="", joined=False)
    @example(field=("train", "seed"), word="a\nb", joined=True)
    def check(field: tuple[str, str], word: str, joined: bool) -> None:
        name = ".".join(field)
        argv = [f"--{name}={word}"] if joined else [f"--{name}", word]
        options, error = attempt(lambda: load_config(parser, argv))
        if error:
            assert name in error or word.split("=")[0][:60] in error
            assert len(error) < LONGEST_MESSAGE
            return
        quoted = yaml.safe_dump({field[0]: {field[1]: word}})
        path.write_text(quoted, "utf-8")
        from_file, error = attempt(lambda: read_config_file(path))
        assert not error
        assert str(from_file) == str(options.given)  # equal, and of the same types
        built, error = attempt(lambda: options.config(Config()))
        assert isinstance(built, Config) or any(each in error for each in NAMES)


@sizes(40)
def test_unknown_options_are_named(count: int) -> None:
    parser = build_parser("train", "", list(SECTIONS))
    option = st.sampled_from(["--train", "--model", "--train.sed", "-x", "--", "---", "--=", "-",
    "x",
                              "--train.seed", "--data", "--data.", "--.", "--preset", "--config",
                              "--config=", "--preset=x\ny", "--print_config", "--train.seed+=1"]
                             ) | st.text(max_size=6)  # fmt: skip

    @fuzz(count, argv=st.lists(option.filter(lambda word: "\0" not in word), max_size=3))
    @example(argv=["\r0"])
    @example(argv=[""])
    @example(argv=["\n--train.seed", "1"])
    def check(argv: list[str]) -> None:
        attempt(lambda: load_config(parser, argv).config())


SETTINGS = [(kind, name) for kind in (Settings, ExportSettings) for name in field_types(kind)]


@sizes(60)
def test_options_of_server_and_export_name_the_field(count: int) -> None:
    @fuzz(count, field=st.sampled_from(SETTINGS), word=SCALARS | st.text(max_size=6), value=ANY)
    @example(field=(Settings, "port"), word="1e9999999999999999999", value=None)
    @example(field=(Settings, "versions"), word="9" * 5000, value="9" * 5000)
    @example(field=(Settings, "name"), word="x" * 9000 + "/", value="x" * 9000 + "/")
    def check(field: tuple[type, str], word: str, value: Any) -> None:
        kind, name = field
        read, error = attempt(lambda: read_field(kind, name, word, name))
        values = [value] if error else [read, value]
        for each in values:
            _, refused = attempt(lambda each=each: kind(**{name: each}))
            for message in filter(None, (error, refused)):
                assert name in message
                assert len(message) < LONGEST_MESSAGE
