"""Search and forced scores of a Hugging Face model in the conversion proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import answers
import torch
import torch_model


class Found(NamedTuple):
    """A generated sequence."""

    ids: list[int]
    """With END if it ended."""
    ended: bool
    """False where the length limit forced the end."""
    score: float


def generate(model: Any, source: list[int], most: int, beam: int) -> list[Found]:
    """Return the hypotheses of one sentence, best first.

    Args:
        model: The model.
        source: Ids with END.
        most: Tokens at most, END counted.
        beam: Its width, and the number of hypotheses.
    """
    reply = model.generate(
        torch.tensor([source]),
        max_length=most + 1,  # the start token counts
        num_beams=beam,
        num_return_sequences=beam,
        do_sample=False,
        length_penalty=1.0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    scores = reply.sequences_scores.tolist() if beam > 1 else [0.0]
    found = []
    for row, score in zip(reply.sequences.tolist(), scores, strict=True):
        end = row.index(model.config.eos_token_id, 1)
        ended = end < most
        found.append(Found(row[1 : end + ended], ended, score))
    return found


def ask(
    settings: dict[str, Any],
    model: Any,
    call: torch_model.Logits,
    sources: list[str],
    tokenizer: Any,
    tokens: Callable[[list[int]], list[str]],
) -> answers.Answers:
    """Return the numbers of a model that do not depend on its architecture."""
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    most, beam = settings["most"], settings["beam"]
    found: answers.Answers = {"source_tokens": [], "n_best": [], "greedy": []}
    for number, line in enumerate(sources):
        source = tokenizer(line).input_ids
        # Ids would be named by the target vocabulary.
        found["source_tokens"].append(tokenizer.tokenize(line))
        (best,) = generate(model, source, most, 1)
        text = tokenizer.decode(best.ids, skip_special_tokens=True)
        words = tokens(best.ids)[: len(best.ids) - best.ended]
        found["greedy"].append(answers.greedy(words, text, best.ended))
        if number >= settings["n_best_sentences"]:
            continue
        row = generate(model, source, most, beam)
        forced = torch_model.forced(call, source, [one.ids for one in row], start, pad)
        found["n_best"].append(
            [
                answers.hypothesis(
                    tokens(one.ids)[: len(one.ids) - one.ended], numbers, one.score, one.ended
                )
                for one, numbers in zip(row, forced, strict=True)
            ]
        )
    return {
        "variant": settings["variant"],
        "versions": answers.versions(["transformers", "torch", "sentencepiece"]),
        "search": {"beam": beam, "alpha": 1.0, "length_penalty": "power", "most": most},
        "sources": sources,
        **found,
    }
