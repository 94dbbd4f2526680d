"""Every choice of a run, in frozen dataclasses.

The docstring under a field is its manual: ``--help`` prints it. A value that makes
no sense is refused when the object is made, with the field, what was expected and
what came.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from keras_transformer.validation import ConfigError, require, require_choice, require_positive

Norm = Literal["post", "pre"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "none"]
Embeddings = Literal["tied", "decoder", "untied"]
Algorithm = Literal["unigram", "bpe"]
Attention = Literal["plain", "blockwise"]
OnLong = Literal["cut", "refuse"]
Precision = Literal["float32", "bfloat16"]
BestBy = Literal["bleu", "loss"]

WHY_NOT = {
    "float16": "float16 would need a loss scale, which Keras takes from the gradients of one "
    "device alone",
}
"""Values that a user may well try, and why they are refused."""


@dataclass(frozen=True)
class ModelConfig:
    """The network of "Attention Is All You Need"; the defaults are its base model (Table 3)."""

    source_vocabulary_size: int = 0
    """Size of the source vocabulary; 0 means that the tokenizer decides."""
    target_vocabulary_size: int = 0
    """Size of the target vocabulary; 0 means that the tokenizer decides."""
    encoder_layers: int = 6
    """N of the encoder (section 3.1)."""
    decoder_layers: int = 6
    """N of the decoder (section 3.1)."""
    d_model: int = 512
    """Width of every sub-layer output and embedding."""
    heads: int = 8
    """Parallel attention heads, h (section 3.2.2)."""
    d_key: int = 0
    """Width of a head's queries and keys, d_k; 0 means d_model / heads."""
    d_value: int = 0
    """Width of a head's values, d_v; 0 means d_model / heads."""
    d_ff: int = 2048
    """Inner width of the feed-forward layers (section 3.3)."""
    dropout: float = 0.1
    """Share dropped from sub-layer outputs and from embeddings (section 5.4)."""
    attention_dropout: float = 0.1
    """Share dropped from attention weights."""
    feed_forward_dropout: float = 0.0
    """Share dropped between the two dense layers of the feed-forward network."""
    norm: Norm = "post"
    """post: LayerNorm(x + Sublayer(x)), the paper; pre: x + Sublayer(LayerNorm(x))."""
    positions: Positions = "sinusoidal"
    """How the model knows order: sinusoidal (the paper), learned, rotary, alibi or none."""
    max_positions: int = 1024
    """Positions that are learned, data.max_tokens or more; the other kinds have no limit."""
    embeddings: Embeddings = "tied"
    """tied: source, target and projection share one matrix (section 3.4); decoder: target
    and projection share; untied: three matrices."""
    attention: Attention = "plain"
    """How attention is computed in training, with the same result: plain keeps the weights of
    all pairs of positions, which grow with the square of the length; blockwise computes them a
    second time and grows with the length only, for sentences of several hundred tokens."""

    def __post_init__(self) -> None:
        for name in ("encoder_layers", "decoder_layers", "d_model", "heads", "d_ff"):
            require_positive(self, "model", name)
        require_positive(self, "model", "max_positions")
        for name in ("source_vocabulary_size", "target_vocabulary_size", "d_key", "d_value"):
            value = getattr(self, name)
            require(value >= 0, f"model.{name}", "0 or more", value)
        for name in ("dropout", "attention_dropout", "feed_forward_dropout"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"model.{name}", "0 <= share < 1", value)
        require_choice(self, "model", "norm", Norm)
        require_choice(self, "model", "positions", Positions)
        require_choice(self, "model", "embeddings", Embeddings)
        require_choice(self, "model", "attention", Attention)
        self._check_widths()

    def _check_widths(self) -> None:
        if not (self.d_key and self.d_value):
            require(
                self.d_model % self.heads == 0,
                "model.d_model",
                f"a multiple of model.heads ({self.heads}), or model.d_key and model.d_value set",
                self.d_model,
            )
        if self.positions == "rotary":
            require(
                self.key_width % 2 == 0,
                "model.d_key",
                "an even width for rotary positions",
                self.key_width,
            )
        if self.embeddings == "tied":
            require(
                self.source_vocabulary_size == self.target_vocabulary_size,
                "model.embeddings",
                "decoder or untied where the vocabularies differ in size "
                f"({self.source_vocabulary_size} and {self.target_vocabulary_size})",
                self.embeddings,
            )

    @classmethod
    def of(cls, values: ModelConfig | dict[str, Any]) -> ModelConfig:
        """The configuration itself, or one from its fields (as saved models hold it)."""
        return values if isinstance(values, ModelConfig) else cls(**values)

    @property
    def key_width(self) -> int:
        """d_k in use: ``d_key``, or ``d_model / heads`` where that is 0."""
        return self.d_key or self.d_model // self.heads

    @property
    def value_width(self) -> int:
        """d_v in use: ``d_value``, or ``d_model / heads`` where that is 0."""
        return self.d_value or self.d_model // self.heads


@dataclass(frozen=True)
class DataConfig:
    """The parallel text and what becomes of it before it reaches the model."""

    train: str = "builtin:phrasebook"
    """Training pairs: a prefix (DIR/train stands for DIR/train.SOURCE and DIR/train.TARGET,
    or both with .gz), a .tsv or .tsv.gz file, tfds:NAME/CONFIG[:SPLIT], builtin:phrasebook."""
    dev: str = ""
    """Held-out pairs for progress and for choosing the best weights; same forms. Empty: the
    validation split of a builtin: or tfds: corpus; other corpora must name it."""
    source: str = "en"
    """Language that is read: the suffix of prefix files, and the code in TFDS sets."""
    target: str = "zh"
    """Language that is written; it also chooses the tokenizer of BLEU."""
    algorithm: Algorithm = "unigram"
    """SentencePiece algorithm."""
    vocabulary_size: int = 10_000
    """Pieces to learn; a corpus too small for it gets as many as it can give."""
    joint: bool = True
    """One vocabulary for both languages; tied embeddings need it."""
    max_tokens: int = 256
    """Longest training sentence in tokens, end included; longer pairs are left out and
    counted in the report. Longer input at translation is treated as on_long says."""
    on_long: OnLong = "cut"
    """A longer sentence at translation: cut (with a warning naming the line) or refuse."""
    max_ratio: float = 0.0
    """Drop training pairs where one side has this many times the tokens of the other;
    0 keeps all."""
    drop_duplicates: bool = False
    """Drop repeated training pairs."""
    drop_identical: bool = False
    """Drop training pairs whose two sides are the same text."""

    def __post_init__(self) -> None:
        for name in ("train", "source", "target"):
            value = getattr(self, name)
            require(bool(value), f"data.{name}", "a non-empty text", value)
        require_choice(self, "data", "algorithm", Algorithm)
        require_choice(self, "data", "on_long", OnLong)
        # 4 special pieces, 256 bytes, and room for at least some text.
        require(
            self.vocabulary_size >= 300, "data.vocabulary_size", "300 or more", self.vocabulary_size
        )
        require(self.max_tokens >= 2, "data.max_tokens", "2 or more", self.max_tokens)
        require(
            self.max_ratio == 0.0 or self.max_ratio > 1.0,
            "data.max_ratio",
            "0 (keep all) or a number above 1",
            self.max_ratio,
        )


@dataclass(frozen=True)
class TrainConfig:
    """The optimisation (section 5). The defaults are the paper's base model."""

    max_steps: int = 100_000
    """Optimizer steps in all."""
    max_minutes: float = 0.0
    """Stop after this long even if steps are left, the time before a --resume counted in;
    0 means no limit."""
    batch_tokens: int = 25_000
    """Target tokens in a batch, of all devices and workers together, padding not counted;
    source tokens have the same limit."""
    micro_batch_tokens: int = 0
    """Target tokens, about, that a device takes at once; what is more of its share of a batch
    follows, and the gradients are added up: the update of the whole batch in less memory (only
    dropout draws other numbers). 0 takes all at once."""
    warmup_steps: int = 4_000
    """Steps of rising learning rate (section 5.3)."""
    learning_rate_factor: float = 1.0
    """Multiplies the paper's schedule; the peak rate is factor / sqrt(d_model * warmup)."""
    adam_beta_1: float = 0.9
    """Adam's decay of the first moment."""
    adam_beta_2: float = 0.98
    """Adam's decay of the second moment."""
    adam_epsilon: float = 1e-9
    """Adam's epsilon."""
    clip_norm: float = 0.0
    """Scale gradients down whose norm, of all together, is greater; 0 leaves them alone."""
    label_smoothing: float = 0.1
    """Probability mass spread evenly over the vocabulary (section 5.4)."""
    checkpoint_every: int = 1_000
    """Steps between checkpoints, each with dev loss and dev BLEU."""
    average: int = 5
    """Last checkpoints averaged at the end (section 6.1); the average becomes the model where
    it does better on the dev set."""
    ema_decay: float = 0.0
    """Decay of an exponential average of the weights over all steps, such as 0.999, which is
    tried at the end as well; 0 keeps none."""
    keep_best: int = 1
    """Weights kept of the best checkpoints: the best in best.weights.h5, and of two or more
    each in best/STEP.weights.h5."""
    best_by: BestBy = "bleu"
    """What the best has: the highest dev bleu (where dev_sentences is 0, and with loss: the
    lowest dev loss)."""
    patience: int = 0
    """Stop after so many checkpoints without a better one; 0 never does."""
    dev_sentences: int = 1_000
    """Sentences of the dev set, the first ones, translated greedily at each checkpoint;
    0 leaves BLEU out."""
    log_every: int = 50
    """Steps between two lines of progress."""
    tensorboard: bool = False
    """Write scalars, dev translations and pictures of attention for TensorBoard, into the run
    folder; tensorboard must be installed."""
    seed: int = 1
    """Seed of weights, dropout and data order."""
    precision: Precision = "float32"
    """Arithmetic of the layers; weights, loss and softmax stay in float32."""
    jit: bool = False
    """Compile the step with XLA. Batches then come in a few fixed shapes."""
    gradient_checkpointing: bool = False
    """Keep no activations inside of a layer but compute them a second time in the backward
    pass: less memory, or larger batches, for the time of a second forward pass."""

    def __post_init__(self) -> None:
        require_positive(
            self,
            "train",
            "max_steps",
            "batch_tokens",
            "warmup_steps",
            "learning_rate_factor",
            "adam_epsilon",
            "checkpoint_every",
            "average",
            "keep_best",
            "log_every",
        )
        for name in (
            "max_minutes",
            "micro_batch_tokens",
            "clip_norm",
            "patience",
            "dev_sentences",
            "seed",
        ):
            value = getattr(self, name)
            require(value >= 0, f"train.{name}", "0 or more", value)
        for name in ("adam_beta_1", "adam_beta_2", "label_smoothing", "ema_decay"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"train.{name}", "0 <= value < 1", value)
        require_choice(self, "train", "best_by", BestBy)
        require(
            str(self.precision) != "float16",
            "train.precision",
            f"float32 or bfloat16 ({WHY_NOT['float16']})",
            self.precision,
        )
        require_choice(self, "train", "precision", Precision)
        require(
            not (self.jit and self.micro_batch_tokens),
            "train.micro_batch_tokens",
            "0 with train.jit, which needs whole batches of fixed shapes",
            self.micro_batch_tokens,
        )


@dataclass(frozen=True)
class SearchConfig:
    """How a translation is chosen (section 6.1 of "Attention Is All You Need")."""

    beam: int = 4
    """Hypotheses kept for each sentence; 1 is greedy search."""
    alpha: float = 0.6
    """Length penalty of Wu et al. (2016): score = log P / ((5 + length) / 6)^alpha."""
    max_extra: int = 50
    """Longest output: source length plus this many tokens."""
    n_best: int = 1
    """Hypotheses returned for each sentence, best first."""
    batch_tokens: int = 4_096
    """Source tokens, padding counted, translated at once."""
    min_length: int = 0
    """Shortest output in tokens, its end not counted; a sentence whose longest output is
    shorter gets that."""
    no_repeat_ngram: int = 0
    """No sequence of so many tokens comes twice in an output; 0 allows repetition."""
    sample: bool = False
    """Draw each token at random instead of searching; beam has no effect then, and n_best is
    the number of samples. A sentence's samples depend on its text and the seed only."""
    temperature: float = 1.0
    """Samples: below 1 keeps closer to what is probable, above 1 less close."""
    top_k: int = 0
    """Samples: draw from so many of the most probable tokens; 0 means all."""
    top_p: float = 1.0
    """Samples: draw from the most probable tokens that have this share of the probability."""
    seed: int = 1
    """Samples: another seed gives others."""

    def __post_init__(self) -> None:
        require_positive(self, "search", "beam", "max_extra", "n_best", "batch_tokens")
        for name in ("alpha", "min_length", "no_repeat_ngram", "top_k", "seed"):
            value = getattr(self, name)
            require(value >= 0, f"search.{name}", "0 or more", value)
        heat = self.temperature
        require(0.0 < heat < math.inf, "search.temperature", "a number above 0", heat)
        require(0.0 < self.top_p <= 1.0, "search.top_p", "0 < share <= 1", self.top_p)
        require(
            self.sample or self.n_best <= self.beam,
            "search.n_best",
            f"at most search.beam ({self.beam})",
            self.n_best,
        )
        for name, neutral in (("temperature", 1.0), ("top_k", 0), ("top_p", 1.0)):
            value = getattr(self, name)
            require(
                self.sample or value == neutral,
                f"search.{name}",
                f"{neutral} where search.sample is false",
                value,
            )


@dataclass(frozen=True)
class Config:
    """A whole run: what is read, what is built, how it is trained, how it is searched."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""
    data: DataConfig = field(default_factory=DataConfig)
    """The parallel text."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """The optimisation."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The search."""

    def __post_init__(self) -> None:
        if self.model.embeddings == "tied":
            require(
                self.data.joint,
                "data.joint",
                "true for model.embeddings tied (decoder and untied work without)",
                self.data.joint,
            )
        if self.model.positions == "learned":
            require(
                self.model.max_positions >= self.data.max_tokens,
                "model.max_positions",
                f"at least data.max_tokens ({self.data.max_tokens}) for learned positions",
                self.model.max_positions,
            )


_SECTIONS = {
    "model": ModelConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "search": SearchConfig,
}


def from_dict(values: dict[str, Any], base: Config | None = None) -> Config:
    """Build a configuration from nested dictionaries.

    Args:
        values: ``{"model": {...}, "train": {...}}``; what is left out comes from ``base``.
        base: The configuration to start from; the defaults where None.

    Raises:
        ConfigError: An unknown section or field, with the valid ones, or a bad value.
    """
    base = base or Config()
    sections: dict[str, Any] = {}
    for section, fields in values.items():
        if section not in _SECTIONS:
            raise ConfigError(f"{section}: expected one of {', '.join(_SECTIONS)}")
        if not isinstance(fields, dict):
            raise ConfigError(f"{section}: expected fields and values, got {fields!r}")
        valid = [item.name for item in dataclasses.fields(_SECTIONS[section])]
        for name in fields:
            if name not in valid:
                raise ConfigError(f"{section}.{name}: expected one of {', '.join(valid)}")
        sections[section] = dataclasses.replace(getattr(base, section), **fields)
    return dataclasses.replace(base, **sections)


def to_dict(config: Config) -> dict[str, Any]:
    """The configuration as nested dictionaries of plain values, ready for YAML or JSON."""
    return dataclasses.asdict(config)
