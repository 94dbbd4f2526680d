"""Training and forced scoring of a PyTorch model in the conversion proof, whatever its peer.

A peer's model is seen as a function: (source (B, S), decoder input (B, T)) -> logits (B, T, V).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

Logits = Callable[[Any, Any], Any]


def perturb(module: Any, scale: float = 0.2) -> None:
    """Move norms and biases away from 1 and 0, which would hide errors."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.dim() == 1 or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * scale)


def padded(rows: Sequence[Sequence[int]], pad: int) -> Any:
    """Return rows as one tensor (B, T)."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def train(
    logits: Logits,
    parameters: Iterable[Any],
    pairs: Sequence[tuple[list[int], list[int]]],
    start: int,
    pads: tuple[int, int],
    updates: int,
    rate: float,
    after: Callable[[], None] = lambda: None,
) -> float:
    """Train for some updates with Adam; return the last loss.

    Args:
        logits: The model, in training mode.
        parameters: Of the model.
        pairs: Ids of source and target, with the end tokens that the model reads and writes.
        start: First token of the decoder input.
        pads: Padding of source and target.
        updates: Steps.
        rate: Learning rate.
        after: Called after each step.
    """
    optimizer = torch.optim.Adam(list(parameters), lr=rate)
    dice, loss = random.Random(1), 0.0
    for _ in range(updates):
        batch = dice.sample(list(pairs), min(24, len(pairs)))
        source = padded([pair[0] for pair in batch], pads[0])
        labels = padded([pair[1] for pair in batch], pads[1])
        inputs = padded([[start, *pair[1][:-1]] for pair in batch], pads[1])
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(
            logits(source, inputs).flatten(0, 1), labels.flatten(), ignore_index=pads[1]
        )
        value.backward()
        optimizer.step()
        after()
        loss = float(value)
    return loss


def forced(
    logits: Logits, source: list[int], rows: Sequence[list[int]], start: int, pad: int
) -> list[list[float]]:
    """Score translations of one sentence.

    Args:
        logits: The model, in evaluation mode.
        source: Ids.
        rows: Ids of the translations, with END if they ended.
        start: First token of the decoder input.
        pad: Padding of the target.

    Returns:
        For each row the log-probability of each token.
    """
    inputs = padded([[start, *row[:-1]] for row in rows], pad)
    with torch.no_grad():
        found = logits(torch.tensor([source] * len(rows)), inputs).double()
    scores = torch.log_softmax(found, -1)
    return [own[range(len(row)), row].tolist() for own, row in zip(scores, rows, strict=True)]
