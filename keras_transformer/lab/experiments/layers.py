"""Experiments about the parts of a layer, the embeddings and the architecture."""

from __future__ import annotations

from keras_transformer.lab.experiment import POST_LN, Default, Experiment, Times, Variant

_ABLATION = "model.ablation"

# Options that the recurrent model refuses.
_NOT_RECURRENT = (
    *("norm", "heads", "d_key", "d_value", "d_ff", "attention_dropout", "feed_forward_dropout"),
    *("positions", "max_positions", "attention", "ablation", "decoder_heads", "decoder_d_ff"),
    *("activation", "attention_bias", "decoder_norm", "final_norm", "layer_norm_epsilon"),
    *("position_layout", "position_rates", "first_position", "embedding_norm"),
)
# As in the preset rnn: about as many parameters as the baseline.
_LSTM = dict.fromkeys((f"model.{name}" for name in _NOT_RECURRENT), Default()) | {
    "model.architecture": "recurrent",
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.d_model": 160,
}

EXPERIMENTS = (
    Experiment(
        name="no-residual",
        title="no residual connections",
        variants=(
            Variant("Post-LN, ½ rate", POST_LN),
            Variant(
                "no residual", POST_LN | {_ABLATION: "no_residual"}, "fails", "Post-LN, ½ rate"
            ),
            Variant(
                "1 + 1 layers, no residual",
                POST_LN
                | {
                    _ABLATION: "no_residual",
                    "model.encoder_layers": 1,
                    "model.decoder_layers": 1,
                },
                "open",
                against="Post-LN, ½ rate",
            ),
        ),
        boxes=("encoder add", "decoder add"),
        before="LayerNorm(x + Sublayer(x))",
        after="LayerNorm(Sublayer(x))",
        literature="Dong et al. (2021): without skip connections and feed-forward networks the "
        "output of self-attention tends to rank 1, doubly exponentially in depth.",
        size="A network of 1 + 1 layers may still learn.",
        plots=("curves", "ranks"),
    ),
    Experiment(
        name="no-layer-norm",
        title="no layer normalization",
        variants=(
            Variant("Post-LN, ½ rate", POST_LN),
            Variant(
                "no LayerNorm",
                POST_LN | {_ABLATION: "no_normalization"},
                "fails",
                "Post-LN, ½ rate",
            ),
            Variant(
                "no LayerNorm, a tenth of the rate",
                POST_LN
                | {_ABLATION: "no_normalization", "train.learning_rate_factor": Times(0.05)},
                "lower",
                against="Post-LN, ½ rate",
            ),
        ),
        boxes=("encoder add", "decoder add"),
        before="LayerNorm(x + Sublayer(x))",
        after="x + Sublayer(x)",
        literature="Removing it alone is unstable. Huang et al. (2020, T-Fixup): with their "
        "initial weights 35.7 BLEU on IWSLT14 De-En without LayerNorm and warm-up.",
        size="A shallow network may survive at a low rate.",
        plots=("curves", "activations"),
    ),
    Experiment(
        name="batch-norm",
        title="batch normalization in place of layer normalization",
        variants=(
            Variant("Post-LN, ½ rate", POST_LN),
            Variant(
                "BatchNorm",
                POST_LN | {_ABLATION: "batch_normalization"},
                "lower",
                against="Post-LN, ½ rate",
            ),
        ),
        boxes=("encoder add", "decoder add"),
        before="statistics of one position over its features",
        after="statistics of one feature over the batch",
        literature="Shen et al. (2020): batch statistics of text fluctuate, and BLEU is below "
        "that of LayerNorm on IWSLT14 and WMT14. In the decoder, statistics over positions also "
        "show the future during training.",
        size="The sign to look for: a good training loss, but worse translations.",
        plots=("curves", "activations"),
    ),
    Experiment(
        name="no-feed-forward",
        title="no feed-forward networks in encoder, decoder or both",
        variants=(
            Variant("none in encoder", {_ABLATION: "no_encoder_feed_forward"}, "lower"),
            Variant("none in decoder", {_ABLATION: "no_decoder_feed_forward"}, "lower"),
            Variant("none", {_ABLATION: "no_feed_forward"}, "lower"),
            Variant(
                "none, 4 + 4 layers",
                {
                    _ABLATION: "no_feed_forward",
                    "model.encoder_layers": 4,
                    "model.decoder_layers": 4,
                },
                "lower",
            ),
        ),
        boxes=("encoder feed-forward", "decoder feed-forward"),
        before="max(0, x W₁ + b₁) W₂ + b₂",
        after="nothing: attention only",
        literature="Pires et al. (2023), WMT22 En-De, big: 35.6 BLEU; none in the encoder 34.7, "
        "none in the decoder 35.2, none at all 33.5 with 56 % of the parameters.",
        size="1 to 3 BLEU less is likely; four layers have nearly as many parameters.",
    ),
    Experiment(
        name="untied-embeddings",
        title="separate embeddings and output projection",
        variants=(
            Variant("decoder tied", {"model.embeddings": "decoder"}, "equal"),
            Variant("untied", {"model.embeddings": "untied"}, "equal"),
        ),
        boxes=("source embedding", "target embedding", "projection"),
        before="one matrix (section 3.4)",
        after="two or three matrices",
        literature="Press and Wolf (2017): tying halves translation models without harm. The "
        "paper's base model with 37,000 subwords has 63 million parameters tied, 101 million with "
        "three matrices.",
        size="On little data tied embeddings may even be better.",
    ),
    Experiment(
        name="unscaled-embeddings",
        title="embeddings without the factor √d_model",
        variants=(Variant("no √d_model", {"model.scale_embeddings": False}, "open"),),
        boxes=("source embedding", "target embedding"),
        before="√d_model · E[token] + PE",
        after="E[token] + PE",
        literature="The paper (section 3.4) gives the factor and no experiment. Without it the "
        "sinusoids, of norm √(d_model / 2), outweigh embeddings of norm about 1.",
        size="Adam may grow the embeddings within the run.",
    ),
    Experiment(
        name="recurrent",
        title="a recurrent network with additive attention in place of the Transformer",
        variants=(Variant("LSTM", _LSTM, "open"),),
        boxes=("encoder", "decoder"),
        before="self-attention: every position at once",
        after="LSTM: one position after the other",
        literature="The paper, test set: base 27.3 BLEU. Domhan (2018): recurrent networks come "
        "close once given the Transformer's other parts. In one study a BiLSTM is ahead at "
        "50,000 pairs; the Transformer has 29.4 against 27.3 BLEU at 200,000.",
        size="The recurrent network may win on a small corpus.",
        plots=("curves", "length"),
    ),
)
"""Experiments about layers, embeddings and architecture."""
