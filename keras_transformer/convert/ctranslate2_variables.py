"""Variables of a CTranslate2 model: settings among them, and weights stored as integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from keras_transformer.convert.errors import ConvertError

_SCALE = "_scale"
_LARGEST = 2.0**31
_NEUTRAL_IF_ABSENT = {"pre_norm": 1, "activation": 0, "scale_embeddings": 1}
_READ = {
    *("num_heads", "pre_norm", "activation", "scale_embeddings", "start_from_zero_embedding"),
    *("head_dim", "multiply_by_sqrt_depth"),
    *("with_source_bos", "with_source_eos"),
}
# They say which attention is returned as the alignment, and how several sources would be merged.
_WITHOUT_EFFECT = {"alignment_layer", "alignment_heads", "embeddings_merge"}
_REFUSED = ("rotary", "alibi", "relative", "layer_scalar", "sliding_window", "num_heads_kv")


class CTranslate2Variables(Mapping[str, np.ndarray]):
    """The weights of a model by name, in floating point, without the settings among them.

    Args:
        values: The variables of the file.
        file: The file, for messages.
        dequantize: Whether to convert weights that are stored as integers.

    Raises:
        ConvertError: Weights are integers and ``dequantize`` is false, or a setting has no
            counterpart.
    """

    def __init__(self, values: Mapping[str, np.ndarray], file: object, dequantize: bool) -> None:
        self._values = values
        self.file = file
        self._settings: dict[str, float] = {}
        self._weights: list[str] = []
        self.quantized = [name for name in values if f"{name}{_SCALE}" in values]
        """Names of the weights that are stored as integers."""
        if self.quantized and not dequantize:
            kind = values[self.quantized[0]].dtype
            raise ConvertError(
                f"{file}: {len(self.quantized)} matrices are stored as {kind}, rounded from the "
                "trained ones: convert the model in float32 or float16, or accept the loss with "
                "--dequantize true"
            )
        scales = {f"{name}{_SCALE}" for name in self.quantized}
        for name in values:
            if name in scales:
                continue
            if _is_setting(name, values):
                number = float(values[name].reshape(()))
                if number != number or abs(number) > _LARGEST:
                    raise ConvertError(f"{file}: {name}: expected a setting, got {number:g}")
                self._settings[name] = number
            else:
                self._weights.append(name)
        self._check()

    def _check(self) -> None:
        for name, value in self._settings.items():
            last = name.rpartition("/")[2]
            if last in _READ | _WITHOUT_EFFECT:
                continue
            named = any(part in last for part in _REFUSED)
            if value or (named and "alibi" not in last):
                raise ConvertError(
                    f"{self.file}: {name} {value:g}: the model has a part that cannot be converted"
                )
        for name in self._weights:
            if any(part in name for part in ("relative_position", "linear_0_noact", "q_norm")):
                raise ConvertError(
                    f"{self.file}: {name}: the model has a part that cannot be converted"
                )

    def setting(self, side: str, name: str, default: float | None = None) -> float:
        """Return a setting of the encoder or decoder, or of the model in older files."""
        if default is None:
            default = _NEUTRAL_IF_ABSENT.get(name, 0)
        found = self._settings.get(f"{side}/{name}", self._settings.get(name))
        return default if found is None else found

    def __getitem__(self, name: str) -> np.ndarray:
        value = self._values[name]
        scale = self._values.get(f"{name}{_SCALE}")
        if scale is None:
            return value
        if value.dtype not in (np.int8, np.int16):
            raise ConvertError(f"{self.file}: {name}: expected int8 or int16, got {value.dtype}")
        rows = scale.reshape(-1, *[1] * (value.ndim - 1)) if scale.ndim else scale
        return (value / rows).astype(np.float32)

    def __contains__(self, name: object) -> bool:
        return name in self._values and name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def _is_setting(name: str, values: Mapping[str, np.ndarray]) -> bool:
    return values[name].ndim == 0 or (
        values[name].size == 1 and name.rpartition("/")[2] in _READ | _WITHOUT_EFFECT
    )
