"""A corpus of a few words in two languages, and its preparation."""

from __future__ import annotations

from pathlib import Path

from keras_transformer.config import DataConfig
from keras_transformer.data.prepare import prepare
from keras_transformer.data.prepared import Prepared
from keras_transformer.data.tokenizer import Tokenizer

TRAIN = [(f"the {a} sees a {b}", f"il {a} vede un {b}") for a in "kpqrs" for b in "tuvwxyz"]
DEV = [("the k sees a z", "il k vede un z"), ("a p sees the q", "un p vede il q")]


def write_tsv(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return str(path)


def quietly(config: DataConfig, run: Path, tokenizer: Tokenizer | None = None) -> Prepared:
    return prepare(config, run, lambda line: None, tokenizer)


def texts(prepared: Prepared, side: str) -> list[str]:
    """Return the decoded contents of the training store."""
    model = prepared.tokenizer.source if side == "source" else prepared.tokenizer.target
    rows = prepared.train.batch(range(len(prepared.train)))
    array = rows["source" if side == "source" else "labels"]
    return model.decode([[token for token in row if token > 3] for row in array.tolist()])
