"""Options of a fairseq checkpoint: ``args`` of older versions, ``cfg`` of later ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_transformer.convert import checks
from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers.pickle_data import Record

_CLASSES = ("omegaconf.", "fairseq.", "typing.", "enum.")
_MAX_DEPTH = 20

_BIG = {
    "encoder_embed_dim": 1024,
    "encoder_ffn_embed_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_embed_dim": 1024,
    "decoder_ffn_embed_dim": 4096,
    "decoder_attention_heads": 16,
}
_PRE = {"encoder_normalize_before": True, "decoder_normalize_before": True}
_ARCHITECTURES: dict[str, dict[str, Any]] = {
    "transformer": {},
    "transformer_wmt_en_de": {},
    "transformer_align": {},
    "transformer_tiny": {
        "encoder_embed_dim": 64,
        "decoder_embed_dim": 64,
        "encoder_ffn_embed_dim": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    },
    "transformer_iwslt_de_en": {
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_embed_dim": 1024,
        "decoder_ffn_embed_dim": 1024,
    },
    "transformer_vaswani_wmt_en_de_big": _BIG,
    "transformer_vaswani_wmt_en_fr_big": _BIG,
    "transformer_wmt_en_de_big": _BIG,
    "transformer_wmt_en_de_big_align": _BIG,
    "transformer_wmt_en_de_big_t2t": {**_BIG, **_PRE},
}
"""Options that an architecture of fairseq sets where the checkpoint has none."""
_BASE = {
    "encoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "activation_fn": "relu",
    "dropout": 0.1,
}
_SIZES = ("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_layers", "encoder_attention_heads")

# Options that add or change parts of the network which have no counterpart.
_REFUSED = (
    *("adaptive_input", "adaptive_softmax_cutoff", "base_layers", "char_inputs"),
    *("no_cross_attention", "cross_self_attention", "encoder_layers_to_keep"),
    *("decoder_layers_to_keep", "scale_attn", "scale_heads", "scale_fc", "scale_resids"),
    *("scale_attn_pre_residual", "decoder_langtok", "encoder_langtok"),
    *("lang_tok_replacing_bos_eos", "quant_noise_pq", "quant_noise_scalar", "xformers_att_config"),
    *("moe_freq", "rotary_embed", "alibi"),
)


def is_record(name: str) -> bool:
    """Return whether a class may stand in a fairseq checkpoint as plain data."""
    return name.startswith(_CLASSES)


def plain(value: Any, depth: int = 0) -> Any:
    """Return a configuration of omegaconf, a namespace or an enumeration as plain values.

    Raises:
        ConvertError: It is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise ConvertError("configuration: expected plain options, got deeply nested ones")
    if isinstance(value, Record):
        state = value.state
        if isinstance(state, Mapping) and "_content" in state:
            return plain(state["_content"], depth + 1)
        if isinstance(state, Mapping) and "_val" in state:
            return plain(state["_val"], depth + 1)
        if isinstance(state, Mapping):
            return plain(state, depth + 1)
        return plain(value.arguments[0], depth + 1) if value.arguments else None
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    return value


class FairseqOptions:
    """The options of a checkpoint, with the defaults of its architecture.

    Args:
        checkpoint: The contents of the file.
        file: The file, for messages.

    Raises:
        ConvertError: There are none, or the model is not a Transformer that can be converted.
    """

    def __init__(self, checkpoint: Mapping[str, Any], file: object) -> None:
        self._file = file
        self._values = self._given(checkpoint)
        arch = str(self._values.get("arch") or self._values.get("_name") or "transformer")
        self.arch = arch
        """Name of the architecture."""
        if arch not in _ARCHITECTURES and not (
            arch.startswith("transformer") and "_lm" not in arch
        ):
            raise ConvertError(f"{file}: expected an arch transformer..., got {arch}")
        missing = [name for name in _SIZES if self._values.get(name) is None]
        if arch not in _ARCHITECTURES and missing:
            raise ConvertError(
                f"{file}: expected a known arch ({', '.join(_ARCHITECTURES)}) or the option "
                f"{missing[0]}, got arch {arch} without it"
            )
        self._defaults = {**_BASE, **_ARCHITECTURES.get(arch, {})}
        for name in _REFUSED:
            if self._values.get(name):
                raise ConvertError(
                    f"{file}: {name} {self._values[name]!r}: the model has a part that cannot be "
                    "converted"
                )

    def _given(self, checkpoint: Mapping[str, Any]) -> dict[str, Any]:
        args = plain(checkpoint.get("args"))
        if isinstance(args, dict):
            return args
        cfg = plain(checkpoint.get("cfg"))
        if not isinstance(cfg, dict) or not isinstance(cfg.get("model"), dict):
            raise ConvertError(
                f"{self._file}: expected a checkpoint of fairseq with args or cfg, found neither"
            )
        values: dict[str, Any] = {}
        for section in ("task", "model"):
            found = cfg.get(section)
            if isinstance(found, dict):
                # Newer versions have sections encoder, decoder and quant_noise.
                for name, value in found.items():
                    inner = value if isinstance(value, dict) else {}
                    values |= {f"{name}_{key}": item for key, item in inner.items()}
                    values |= {} if inner else {name: value}
        return values

    def __call__(self, name: str, default: Any = None) -> Any:
        """Return an option, or its default."""
        value = self._values.get(name)
        return self._defaults.get(name, default) if value is None else value

    def number(self, name: str, default: Any = None) -> int:
        """Return an option that is a whole number above 0.

        Raises:
            ConvertError: It is another value.
        """
        return checks.whole_number(self._file, name, self(name, default))
