"""Section ``train``: optimisation, checkpoints and their selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keras_transformer.validation import (
    MAX_BATCH_TOKENS,
    MAX_STEPS,
    RATE,
    SEED,
    between,
    check_fields,
    option,
    require,
    zero_or,
)

Precision = Literal["float32", "bfloat16"]
TrainingPrecision = Literal["float32", "bfloat16", "float16", "auto"]
Warmup = Literal["linear", "none"]
BestBy = Literal["bleu", "loss"]
BleuTokenizer = Literal[
    "auto",
    "none",
    "zh",
    "13a",
    "intl",
    "char",
    "ja-mecab",
    "ko-mecab",
    "spm",
    "flores101",
    "flores200",
    "spBLEU-1K",
]

# micro_batch_tokens changes only the order of summation and the dropout masks, as other devices
# would. dev_sentences is missing, because BLEU of different sentences cannot be compared.
RESUMABLE = (
    "max_steps",
    "max_minutes",
    "log_every",
    "tensorboard",
    "micro_batch_tokens",
    "deterministic",
    "gradient_checkpointing",
    "patience",
    "keep_best",
)
"""Fields that may change when a run is resumed: neither weights nor data depend on them."""


@dataclass(frozen=True)
class TrainConfig:
    """The optimisation (section 5). The defaults are the paper's base model."""

    max_steps: int = option(100_000, between(1, MAX_STEPS))
    """Total optimizer steps, with those that float16 skips."""
    max_minutes: float = option(0.0, between(0, MAX_STEPS))
    """Stop after this many minutes of training, including those before --resume; 0: no limit."""
    batch_tokens: int = option(25_000, between(1, MAX_BATCH_TOKENS))
    """Target tokens per batch over all devices and workers, padding not counted; source
    tokens have the same limit."""
    micro_batch_tokens: int = option(0, between(0, MAX_BATCH_TOKENS))
    """Approximate target tokens per micro-batch on each device; gradients are accumulated. The
    update equals that of the whole batch except for dropout masks, in less memory. 0: one
    micro-batch."""
    warmup: Warmup = "linear"
    """Learning rate of the first warmup_steps: linear, rising to the peak (section 5.3), or none,
    the peak from step 1."""
    warmup_steps: int = option(4_000, between(1, MAX_STEPS))
    """Steps before the learning rate decays, with the inverse square root of the step."""
    learning_rate_factor: float = option(1.0, between(1e-30, 10_000))
    """Factor of the paper's learning rate; the peak is factor / sqrt(d_model * warmup)."""
    adam_beta_1: float = option(0.9, RATE)
    """Adam's decay of the first moment."""
    adam_beta_2: float = option(0.98, RATE)
    """Adam's decay of the second moment."""
    adam_epsilon: float = option(1e-9, between(1e-30, 1))
    """Adam's epsilon."""
    clip_norm: float = option(0.0, zero_or(1e-9, 1e9, "no clipping"))
    """Clip gradients to this global norm; 0 does not clip."""
    label_smoothing: float = option(0.1, RATE)
    """Probability mass spread evenly over the vocabulary (section 5.4)."""
    checkpoint_every: int = option(1_000, between(1, MAX_STEPS))
    """Steps between checkpoints; each measures dev loss and dev BLEU."""
    average: int = option(5, between(1, MAX_STEPS))
    """Number of latest checkpoints averaged at the end (section 6.1); the average is kept if it
    is better on the dev set."""
    ema_decay: float = option(0.0, RATE)
    """Decay of an exponential moving average of the weights, such as 0.999; also tried at the
    end. 0: none."""
    keep_best: int = option(1, between(1, MAX_STEPS))
    """Number of best checkpoints whose weights are kept: the best in best.weights.h5; with 2
    or more, each in best/STEP.weights.h5 too."""
    best_by: BestBy = "bleu"
    """Selection of the best weights: highest dev bleu, or lowest dev loss. The loss also decides
    between equal BLEU (two decimals), below BLEU 1, and if dev_sentences is 0."""
    patience: int = option(0, between(0, MAX_STEPS))
    """Stop after this many checkpoints without improvement; 0 never stops early."""
    dev_sentences: int = option(1_000, between(0, MAX_STEPS))
    """Translate this many dev sentences greedily at each checkpoint, for dev BLEU; 0: no BLEU."""
    bleu_tokenizer: BleuTokenizer = "auto"
    """sacreBLEU's tokenizer for dev BLEU, also the default of evaluate and export. auto: by the
    language code data.target, or by the text if the code has no tokenizer."""
    log_every: int = option(50, between(1, MAX_STEPS))
    """Steps between two progress lines."""
    tensorboard: bool = False
    """Write scalars, dev translations and attention maps for TensorBoard into the run folder;
    needs the extra tensorboard."""
    seed: int = option(1, SEED)
    """Seed of weights, dropout and data order."""
    precision: TrainingPrecision = "float32"
    """Arithmetic of the layers; weights, loss and softmax stay in float32. float16, for GPUs
    without bfloat16, scales the loss, and skips updates whose gradients overflow. auto: bfloat16,
    float16 or float32 by device; the run folder has the choice."""
    deterministic: bool = False
    """Use only operations that add in a fixed order, so that on a GPU, too, a resumed run equals
    an uninterrupted one to the last bit; slower there. A CPU needs no such choice."""
    jit: bool = False
    """Compile the training step with XLA; batches then come in a few fixed shapes."""
    gradient_checkpointing: bool = False
    """Compute the activations inside each layer again in the backward pass instead of keeping
    them: less memory, or larger batches, for the time of a second forward pass."""

    def __post_init__(self) -> None:
        check_fields(self, "train")
        require(
            not (self.jit and self.micro_batch_tokens),
            "train.micro_batch_tokens",
            "0 with train.jit, which needs whole batches of fixed shapes",
            self.micro_batch_tokens,
        )
