"""Experiments about warm-up, rates, normalization order, regularisation and batches."""

from __future__ import annotations

from typing import Any

from keras_transformer.lab.experiment import BASELINE, POST_LN, Experiment, Times, Variant

_NO_WARMUP = {"train.warmup": "none"}
# The rate is proportional to factor / sqrt(d_model): at half the width `_grid` scales the factor
# by sqrt(1/2) for the same peak rate.
_DEEP: dict[str, Any] = {
    "model.encoder_layers": 12,
    "model.decoder_layers": 12,
    "model.d_model": 64,
    "model.d_ff": 128,
}
_RATES = {"¼ rate": 0.25, "½ rate": 0.5, "rate": 1.0}


def _grid(base: dict[str, Any], scale: float, reference: str) -> tuple[Variant, ...]:
    """Return both orders × three rates × with and without warm-up.

    Args:
        base: Changes of all variants.
        scale: Multiplier of the baseline's learning rate factor.
        reference: Name of the variant with Pre-LN, the full rate and warm-up.
    """
    found = []
    for norm in ("pre", "post"):
        for rate, factor in _RATES.items():
            for warmup in ("linear", "none"):
                stable = norm == "pre" or (factor < 1 and warmup == "linear")
                name = f"{norm.title()}-LN, {rate}, {'' if warmup == 'linear' else 'no '}warm-up"
                changes = base | {
                    "model.norm": norm,
                    "train.learning_rate_factor": Times(scale * factor),
                    "train.warmup": warmup,
                }
                expected = "open" if stable else "lower"
                against = BASELINE if name == reference or not base else reference
                found.append(Variant(name, changes, expected, against))  # type: ignore[arg-type]
    return tuple(found)


def _batch(name: str, factor: float) -> Variant:
    """Return a variant with another batch size, and the same rate at each number of tokens."""
    steps = 1 / factor
    changes = {
        "train.batch_tokens": Times(factor),
        "train.max_steps": Times(steps),
        "train.warmup_steps": Times(steps),
        "train.checkpoint_every": Times(steps),
        # The peak rate is proportional to factor / sqrt(warmup_steps).
        "train.learning_rate_factor": Times(steps**0.5),
    }
    return Variant(name, changes, "open")


EXPERIMENTS = (
    Experiment(
        name="warm-up",
        title="the peak rate from step 1, then the same decay",
        variants=(
            Variant("no warm-up", _NO_WARMUP, "equal"),
            Variant("Post-LN, ½ rate", POST_LN, "equal"),
            Variant(
                "Post-LN, ½ rate, no warm-up",
                POST_LN | _NO_WARMUP,
                "lower",
                against="Post-LN, ½ rate",
            ),
        ),
        boxes=("optimizer",),
        before="rate rises for warmup_steps, then falls with 1/√step",
        after="peak rate from step 1, then the same fall",
        literature="Xiong et al. (2020), IWSLT14 De-En, Post-LN: 8.45 BLEU without warm-up, about "
        "34 with it; Pre-LN reaches about 34 without. With a warm-up of 500 steps: 31.2 at a "
        "rate of 5e-4, 2.8 at 1e-3.",
        size="Shallow networks may survive without warm-up.",
    ),
    Experiment(
        name="norm-order",
        title="Post-LN against Pre-LN: rates × warm-up",
        variants=_grid({}, 1.0, "Pre-LN, rate, warm-up"),
        boxes=("encoder add", "decoder add", "optimizer"),
        before="LayerNorm(x + Sublayer(x))",
        after="x + Sublayer(LayerNorm(x))",
        literature="Liu et al. (2020), with warm-up: IWSLT14 De-En, 6 + 6 layers, 35.6 (Post-LN) "
        "and 35.5 (Pre-LN) BLEU. Over 15 pairs of β₂ and rate Pre-LN converges in all, Post-LN "
        "diverges in 7, and wins 7 of the 8 others. Nguyen and Salazar (2019): Pre-LN needs no "
        "warm-up.",
        size="At this depth both should be within 1 BLEU where both converge.",
        plots=("grid", "curves"),
    ),
    Experiment(
        name="norm-order-deep",
        title="Post-LN against Pre-LN with 12 + 12 narrow layers: rates × warm-up",
        variants=_grid(_DEEP, 0.5**0.5, "Pre-LN, rate, warm-up"),
        boxes=("encoder add", "decoder add", "optimizer"),
        before="LayerNorm(x + Sublayer(x))",
        after="x + Sublayer(LayerNorm(x))",
        literature="Liu et al. (2020), WMT14, 18 + 18 layers: Post-LN diverges, Pre-LN has 28.4 "
        "BLEU.",
        size="The layers are 64 wide, so that a run takes minutes.",
        plots=("grid", "curves"),
    ),
    Experiment(
        name="label-smoothing",
        title="no label smoothing",
        variants=(
            Variant("ε = 0", {"train.label_smoothing": 0.0}, "lower"),
            Variant("ε = 0.2", {"train.label_smoothing": 0.2}, "equal"),
        ),
        boxes=("loss",),
        before="targets 1 − ε and ε / V, ε = 0.1",
        after="targets 1 and 0",
        literature="The paper's Table 3 (D): ε 0: 25.3 BLEU, perplexity 4.67; ε 0.1: 25.8, 4.92; "
        "ε 0.2: 25.7, 5.47. Müller et al. (2019): smoothing lowers the calibration error from "
        ".056 to .019.",
        size="0 to 0.5 BLEU, within the spread of seeds; the plain loss should be lower without.",
        plots=("curves", "reliability"),
    ),
    Experiment(
        name="dropout",
        title="no dropout",
        variants=(
            Variant("no dropout", {"model.dropout": 0.0, "model.attention_dropout": 0.0}, "lower"),
            Variant("dropout 0.3", {"model.dropout": 0.3}, "higher"),
        ),
        boxes=("encoder add", "decoder add", "source embedding", "target embedding"),
        before="dropout 0.1",
        after="dropout 0, and 0.3",
        literature="The paper's Table 3 (D): dropout 0: 24.6 BLEU; 0.1: 25.8; 0.2: 25.5. Araabi "
        "and Monz (2020): tuned against default settings up to +7.3 BLEU on small parts of "
        "IWSLT14.",
        size="Small corpora need more dropout, short runs less.",
    ),
    Experiment(
        name="beta-2",
        title="Adam's β₂ = .999 in place of .98",
        variants=(
            Variant("β₂ = .999", {"train.adam_beta_2": 0.999}, "equal"),
            Variant("Post-LN, ½ rate", POST_LN, "equal"),
            Variant(
                "Post-LN, ½ rate, β₂ = .999",
                POST_LN | {"train.adam_beta_2": 0.999},
                "open",
                against="Post-LN, ½ rate",
            ),
        ),
        boxes=("optimizer",),
        before="β₂ = .98",
        after="β₂ = .999, Keras' default",
        literature="The paper (section 5.3) chooses .98 and gives no experiment. Liu et al. "
        "(2020) varied β₂ together with the rate: Post-LN diverges in 7 of 15 pairs, Pre-LN in "
        "none.",
        size="With warm-up and Pre-LN no difference is likely.",
    ),
    Experiment(
        name="batch-size",
        title="batches of other sizes at a fixed number of tokens",
        variants=(
            _batch("¼ of the tokens", 0.25),
            _batch("½ of the tokens", 0.5),
            _batch("2 × the tokens", 2.0),
        ),
        boxes=("optimizer",),
        before="B tokens a batch, N steps",
        after="B/4 to 2 B tokens a batch, as many tokens in all",
        literature="Popel and Bojar (2018) advise batches as large as memory allows, on tens of "
        "millions of pairs. At a fixed number of tokens smaller batches make more updates.",
        size="The rate is the same at each number of tokens, but there may be too few updates.",
        notes="Compare at equal tokens, on the horizontal axis, not at equal steps.",
    ),
)
"""Experiments about optimisation and regularisation."""
