"""Warnings about search settings that another engine does not have."""

from __future__ import annotations

from keras_transformer.config import SearchConfig


def search_warnings(search: SearchConfig, longest: int, engine: str, option: str) -> list[str]:
    """Return lines for the user and the model card.

    Args:
        search: The search of the run.
        longest: The engine's longest output in tokens, END counted, whatever the source.
        engine: Its name. It divides log P by n^alpha.
        option: Its option for the longest output.
    """
    return [*_penalty_warning(search, engine), *_limit_warning(search, longest, engine, option)]


def _penalty_warning(search: SearchConfig, engine: str) -> list[str]:
    # With alpha 0 there is no penalty; a beam of 1 has nothing to rank.
    if search.length_penalty == "power" or search.alpha == 0 or search.beam == 1:
        return []
    return [
        "length penalty: the search of the run divides log P by "
        f"((5 + n) / 6)^{search.alpha:g}, {engine} by n^{search.alpha:g}, which may rank "
        "hypotheses in another order; export with --search.length_penalty power and an alpha "
        "chosen for it, or with --search.alpha 0"
    ]


def _limit_warning(search: SearchConfig, longest: int, engine: str, option: str) -> list[str]:
    """Warn of limits by a factor, which the engine has not."""
    if search.max_factor == 1 or search.length_limit(1) == longest:
        return []
    return [
        f"longest output: the search of the run allows {search.max_factor:g} times the source "
        f"length plus {search.max_extra} tokens, {engine} {longest} for every source "
        f"({option}); a hypothesis that does not end by itself becomes longer"
    ]
