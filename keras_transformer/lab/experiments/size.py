"""Table 3 of the paper, scaled down."""

from __future__ import annotations

from typing import Any

from keras_transformer.lab.experiment import Expected, Experiment, Variant


def _layers(count: int) -> dict[str, Any]:
    return {"model.encoder_layers": count, "model.decoder_layers": count}


_ROWS: tuple[tuple[str, dict[str, Any], Expected], ...] = (
    ("(A) h = 1", {"model.heads": 1}, "lower"),
    ("(A) h = 2", {"model.heads": 2}, "equal"),
    ("(A) h = 8", {"model.heads": 8}, "equal"),
    ("(A) h = 16", {"model.heads": 16}, "equal"),
    ("(B) d_k = 8", {"model.d_key": 8}, "lower"),
    ("(B) d_k = 16", {"model.d_key": 16}, "lower"),
    ("(C) N = 1", _layers(1), "lower"),
    ("(C) N = 2", _layers(2), "lower"),
    ("(C) N = 6", _layers(6), "higher"),
    ("(C) d_model = 64", {"model.d_model": 64}, "lower"),
    ("(C) d_model = 256", {"model.d_model": 256}, "higher"),
    ("(C) d_ff = 128", {"model.d_ff": 128}, "lower"),
    ("(C) d_ff = 512", {"model.d_ff": 512}, "higher"),
    ("(C) d_ff = 1,024", {"model.d_ff": 1_024}, "higher"),
    ("(D) dropout 0", {"model.dropout": 0.0, "model.attention_dropout": 0.0}, "lower"),
    ("(D) dropout 0.3", {"model.dropout": 0.3}, "equal"),
    ("(D) ε = 0", {"train.label_smoothing": 0.0}, "lower"),
    ("(D) ε = 0.2", {"train.label_smoothing": 0.2}, "equal"),
    ("(E) learned positions", {"model.positions": "learned"}, "equal"),
)

EXPERIMENTS = (
    Experiment(
        name="table-3",
        title="Table 3 of the paper, rows A to E, scaled down",
        variants=tuple(Variant(name, changes, expected) for name, changes, expected in _ROWS),
        boxes=("encoder", "decoder", "positions", "loss"),
        before="base: N 6, D 512, d_ff 2,048, h 8, dropout 0.1, ε 0.1",
        after="each varied alone, from the baseline's smaller values",
        literature="The paper's dev BLEU on WMT14 En-De, base 25.8. (A) 1 head 24.9, 4: 25.5, 16: "
        "25.8, 32: 25.4. (B) d_k 16: 25.1, 32: 25.4. (C) N 2: 23.7, 4: 25.3, 8: 25.5; d_model "
        "256: 24.5, 1,024: 26.0; d_ff 1,024: 25.4, 4,096: 26.2. (D) dropout 0: 24.6, 0.2: 25.5; "
        "ε 0: 25.3, 0.2: 25.7. (E) learned positions 25.7.",
        size="Larger networks need more data and steps: differences in (C) may vanish or reverse.",
        plots=("scores",),
    ),
)
"""Sizes and regularisation of the paper's Table 3."""
