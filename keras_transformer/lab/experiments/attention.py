"""Experiments about attention and positions."""

from __future__ import annotations

from keras_transformer.lab.experiment import Experiment, Variant

_SHORT = {"data.max_tokens": 15}

EXPERIMENTS = (
    Experiment(
        name="unscaled-attention",
        title="attention without the division by √d_k",
        variants=(
            Variant("no √d_k", {"model.ablation": "unscaled_attention"}, "lower"),
            Variant("one head", {"model.heads": 1}, "lower"),
            Variant(
                "one head, no √d_k",
                {"model.heads": 1, "model.ablation": "unscaled_attention"},
                "lower",
                against="one head",
            ),
        ),
        boxes=("encoder attention", "decoder attention", "cross-attention"),
        before="softmax(Q Kᵀ / √d_k) V",
        after="softmax(Q Kᵀ) V",
        literature="The paper (section 3.2.1) scales because the variance of q·k is d_k. "
        "Britz et al. (2017) trained recurrent networks with unscaled dot attention: 22.3 BLEU at "
        "width 256, 21.8 at 512, 18.2 at 1,024, against 22.5 of additive attention at 512. "
        "T5 does without the division, with a smaller initial W_Q.",
        size="d_k is 32 with four heads, 128 with one. The learning rate is high, for a short "
        "run: large scores grow further.",
    ),
    Experiment(
        name="no-positions",
        title="no information about positions",
        variants=(Variant("no positions", {"model.positions": "none"}, "lower"),),
        boxes=("positions",),
        before="embedding + PE(pos)",
        after="embedding",
        literature="Shaw et al. (2018), WMT14 En-De: 12.5 BLEU without positions, 25.8 with "
        "relative ones. The causal mask still orders the decoder, so BLEU is not 0.",
        size="5 to 15 BLEU less is likely; the effect is smaller if sentences have one pattern.",
    ),
    Experiment(
        name="positions",
        title="learned, rotary and ALiBi positions in place of sinusoids",
        variants=(
            Variant("learned", {"model.positions": "learned"}, "equal"),
            Variant("rotary", {"model.positions": "rotary"}, "equal"),
            Variant("ALiBi", {"model.positions": "alibi"}, "equal"),
        ),
        boxes=("positions", "encoder attention", "decoder attention"),
        before="sinusoids added to the embeddings",
        after="learned vectors; rotated q and k; a bias by distance",
        literature="The paper's Table 3 (E): learned 25.7 BLEU, sinusoids 25.8. Shaw et al. "
        "(2018): relative positions +0.3 (base) and +1.3 (big) on the test set.",
        size="Within the trained lengths no difference is likely.",
    ),
    Experiment(
        name="length-extrapolation",
        title="trained on sentences up to 15 tokens, tested on longer ones",
        variants=(
            Variant("sinusoids", _SHORT, "lower"),
            Variant("learned", _SHORT | {"model.positions": "learned"}, "lower", "sinusoids"),
            Variant("rotary", _SHORT | {"model.positions": "rotary"}, "higher", "sinusoids"),
            Variant("ALiBi", _SHORT | {"model.positions": "alibi"}, "higher", "sinusoids"),
        ),
        boxes=("positions", "data"),
        before="trained on all lengths",
        after="trained on pairs of at most 15 tokens a side",
        literature="Rosendahl et al. (2019): relative positions 4.4 to 11.9 % better BLEU on "
        "sentences longer than any in training. Neishi and Yoshinaga (2019): absolute ones "
        "overfit to length. Varis and Bojar (2021): outputs keep the trained lengths. Press et "
        "al. (2022): ALiBi trained at 1,024 tokens equals sinusoids trained at 2,048.",
        size="Fewer and shorter pairs remain, so BLEU falls for that reason too.",
        plots=("length", "curves"),
        notes="The curves use the dev set cut to 15 tokens, as training does; the table and the "
        "BLEU by length use whole sentences.",
    ),
    Experiment(
        name="heads",
        title="1, 2, 4 and 8 heads of the same total width",
        variants=(
            Variant("1 head", {"model.heads": 1}, "lower"),
            Variant("2 heads", {"model.heads": 2}, "equal"),
            Variant("4 heads", {"model.heads": 4}, "equal"),
            Variant("8 heads", {"model.heads": 8}, "equal"),
        ),
        boxes=("encoder attention", "decoder attention", "cross-attention"),
        before="h heads of width D/h",
        after="fewer wide heads, or more narrow ones",
        literature="The paper's Table 3 (A), 1, 4, 8, 16 and 32 heads: 24.9, 25.5, 25.8, 25.8 and "
        "25.4 BLEU. Michel et al. (2019): after training, few heads matter one by one. Voita et "
        "al. (2019): 38 of 48 encoder heads pruned cost 0.15 BLEU.",
        size="One head may cost 0.5 to 1 BLEU, within the spread of seeds.",
    ),
    Experiment(
        name="key-width",
        title="d_k halved",
        variants=(Variant("d_k 16", {"model.d_key": 16}, "lower"),),
        boxes=("encoder attention", "decoder attention", "cross-attention"),
        before="d_k = D/h = 32",
        after="d_k = 16, d_v = 32",
        literature="The paper's Table 3 (B): d_k 16: 25.1 BLEU, d_k 32: 25.4, d_k 64: 25.8.",
        size="The paper's difference of 0.4 BLEU a halving is below the spread of seeds here.",
    ),
)
"""Experiments about attention and positions."""
