"""YAML vocabularies: each key is a text, and ids are complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.yaml_file import parse_settings, read_vocabulary


def vocabulary(tmp_path: Path, text: str) -> dict[str, int]:
    path = tmp_path / "vocab.yml"
    path.write_text(text, encoding="utf-8", newline="")
    return read_vocabulary(path)


def test_every_spelling_of_a_key_is_its_text(tmp_path: Path) -> None:
    text = "\n".join(
        [
            "</s>: 0",
            '"<unk>": 1',
            "null: 2",
            "~: 3",
            "Null: 4",
            "true: 5",
            "yes: 6",
            "'1_000': 7",
            "1_000.0: 8",
            "1000: 9",
            "? ' '",
            ": 10",
            r'"\x84": 11',
            r'"\"": 12',
            "''''': 13".replace("'''''", "''''"),
            "<<: 14",
            "=: 15",
            '"": 16',
            "▁über: 17",
            '"#": 18',
            r'"\\": 19',
            '"\x85": 20',
            '"\u2028": 21',
            "0x1F: 22",
            "2024-01-02: 23",
            '"😀": 24',
            "? |-\n  :",
            ": 25",
        ]
    )
    assert list(vocabulary(tmp_path, text)) == [
        *("</s>", "<unk>", "null", "~", "Null", "true", "yes", "1_000", "1_000.0", "1000", " "),
        *("\x84", '"', "'", "<<", "=", "", "▁über", "#", "\\", "\x85", "\u2028", "0x1F"),
        *("2024-01-02", "😀", ":"),
    ]


def test_ids_need_not_be_in_order(tmp_path: Path) -> None:
    assert vocabulary(tmp_path, "b: 1\na: 0\n") == {"a": 0, "b": 1}
    assert list(vocabulary(tmp_path, "b: 1\na: 0\n")) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 0\nb: 2\n", "'b': expected an id from 0 to 1"),
        ("a: 0\nb: 0\n", "expected one token of id 0, got 'a' and 'b'"),
        ("a: 0\na: 1\n", "expected each token once, got 'a' twice"),
        ("a: x\n", "expected whole numbers as ids, got 'x'"),
        ("a: -1\n", "expected whole numbers"),
        ("a: ٣\n", "expected whole numbers"),
        ("a: [0]\n", "got a nested value"),
        ("- a\n", "expected a YAML mapping of tokens"),
        ("a: 0\n b: 1\n", "expected YAML"),
        ("{}", "expected 1 to"),
        ("[" * 100_000, "expected YAML"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConvertError, match=message):
        vocabulary(tmp_path, text)


def test_settings_are_plain_values_only() -> None:
    assert parse_settings(b"dim-emb: 512\ntied: true\nlist: [1, 2]\n", "m.npz") == {
        "dim-emb": 512,
        "tied": True,
        "list": [1, 2],
    }
    for text in (b"!!python/object/apply:os.system ['true']", b"- 1", b"a: b: c", b"\xff\xfe\xfd"):
        with pytest.raises(ConvertError, match="m.npz: expected"):
            parse_settings(text, "m.npz")
