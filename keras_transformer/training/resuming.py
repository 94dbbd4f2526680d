"""What a run that goes on must have in common with its beginning."""

from __future__ import annotations

import dataclasses

from keras_transformer.config import RESUMABLE, Config, to_dict
from keras_transformer.run import RunError

# What no option makes acceptable: the encoded text and the embeddings are made for it.
_TOKENIZER = ("source", "target", "algorithm", "vocabulary_size", "joint")


def with_vocabulary_of(old: Config, new: Config) -> Config:
    """``new``, with the sizes of ``old`` where it leaves them to the tokenizer."""
    sizes = {
        name: getattr(new.model, name) or getattr(old.model, name)
        for name in ("source_vocabulary_size", "target_vocabulary_size")
    }
    return dataclasses.replace(new, model=dataclasses.replace(new.model, **sizes))


def check_resumable(old: Config, new: Config, accept_changes: bool = False) -> None:
    """Refuse changes that would make another run of it.

    Args:
        old: The configuration of the run.
        new: The configuration that it is to go on with.
        accept_changes: Let all pass but those of the vocabulary. (Whether the network still
            fits, its checkpoint tells.)

    Raises:
        RunError: Names each field that differs, with both values.
    """
    differences = []
    before, after = to_dict(old), to_dict(new)
    for section in ("model", "data", "train"):
        for name, value in before[section].items():
            known = section == "train" and name in RESUMABLE
            accepted = accept_changes and not (section == "data" and name in _TOKENIZER)
            if after[section][name] != value and not known and not accepted:
                differences.append(f"{section}.{name}: {value!r}, now {after[section][name]!r}")
    if differences:
        raise RunError(
            "the run was begun with other values: "
            + "; ".join(differences)
            + (
                ". Its vocabulary cannot change"
                if accept_changes
                else f". Only {', '.join('train.' + name for name in RESUMABLE)} and search.* may "
                "change; with --accept_changes others too, at your own judgement"
            )
        )
