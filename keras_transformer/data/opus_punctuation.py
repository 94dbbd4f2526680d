"""Punctuation as OPUS-MT's ``preprocess.sh`` writes it, as rules of a SentencePiece model.

OPUS-MT models were trained on text in which Chinese, Japanese and typographic punctuation is ASCII.
The rules are compiled into the model file, before its own ones, so Python and the exported graph
apply both alike.
"""

from __future__ import annotations

import functools
import sys
import unicodedata

import sentencepiece
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from keras_transformer.data.errors import TokenizerError

QUOTES = "“”《》「」"
"""Characters that become ``"``."""
REPLACEMENTS = {
    **dict.fromkeys(QUOTES, '"'),
    "’": "'",
    "…": "...",
    "━": "-",
    "∶": ":",
    "，": ",",
    "、": ",",
    "。": ". ",
    "．": ". ",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    # Full-width forms that NFKC would replace in the same way.
    **{chr(ord(ascii) + 0xFEE0): ascii for ascii in ":?)!(;~%023456789"},
    # A slip of the script, but the models are trained with it.
    "１": '"',
}
"""What the script writes for a character; it joins spaces afterwards."""
_SPACED = frozenset(("Cc", "Cf"))
"""Categories of characters that become spaces: control and format characters. The script has
private and unassigned characters too, which no vocabulary knows."""


def with_opus_punctuation(model: bytes) -> bytes:
    """Return a SentencePiece model that applies the rules of ``preprocess.sh`` first.

    Args:
        model: The bytes of a model file.

    Raises:
        TokenizerError: The model is damaged.
    """
    try:
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        changed = _with_rules(proto.normalizer_spec.precompiled_charsmap)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise TokenizerError(
            f"SentencePiece model: expected a model file, got {len(model)} other bytes"
        ) from error
    proto.normalizer_spec.name = "opus"
    proto.normalizer_spec.precompiled_charsmap = changed
    proto.normalizer_spec.remove_extra_whitespaces = True
    return proto.SerializeToString()


@functools.lru_cache(maxsize=1)  # the models of both languages have the same rules of their own
def _with_rules(charsmap: bytes) -> bytes:
    """Return compiled rules of a model with those of ``preprocess.sh`` before them."""
    own: dict[str, str] = {}
    if charsmap:
        model = sentencepiece_model_pb2.ModelProto()
        model.normalizer_spec.precompiled_charsmap = charsmap
        normalizer = sentencepiece.SentencePieceNormalizer(model_proto=model.SerializeToString())
        own = dict(normalizer.decompile())
    for character, text in _rules().items():
        own[character] = "".join(own.get(each, each) for each in text)
    changed = sentencepiece.SentencePieceNormalizer(norm_map=sorted(own.items()))
    spec = sentencepiece_model_pb2.NormalizerSpec.FromString(changed.serialized_normalizer_spec())
    return bytes(spec.precompiled_charsmap)


def _rules() -> dict[str, str]:
    # NUL cannot be in a rule; line breaks end a text.
    every = (chr(code) for code in range(1, sys.maxunicode + 1))
    spaced = (one for one in every if unicodedata.category(one) in _SPACED and one != "\n")
    return dict.fromkeys(spaced, " ") | REPLACEMENTS
