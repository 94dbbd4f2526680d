"""Models with the files and shapes of public ones, and random weights.

``write_opus`` writes an OPUS-MT model in both of its forms, with NumPy alone: the folder of a
Hugging Face MarianMT, and the unpacked folder of a release with Marian's archive. The SentencePiece
models are learned from text and filled up with made-up pieces. ``write_joint`` writes the
vocabulary of an OpenNMT-tf model; ``opennmt_base.py`` makes the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pieces
from sentencepiece import sentencepiece_model_pb2

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """Sizes of a model."""

    d_model: int = 512
    d_ff: int = 2_048
    layers: int = 6
    heads: int = 8
    vocabulary: int = 58_101
    """Tokens of Hugging Face's form, which has padding as its last one; Marian's has one less."""
    pieces: int = 32_000
    """Pieces of a SentencePiece model."""
    learned: int = 12_000
    """Of them learned from text, at most."""
    opennmt_model: str = "TransformerBaseSharedEmbeddings"
    """In OpenNMT-tf's catalog."""


SHAPES = {
    "base": Shape(),
    "small": Shape(64, 128, 2, 8, 3_001, 1_600, 1_000, "TransformerTiny"),
}

_STD = 0.02
"""Standard deviation of weights, Hugging Face's default."""
_TYPICAL_LENGTH = 25
"""Tokens after which translations tend to end."""
_NORMAL = sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL

# Marian's names, and Hugging Face's for the same tensors.
_HF_NAMES = {
    r"self_W([qkv])": r"self_attn.\1_proj.weight",
    r"self_b([qkv])": r"self_attn.\1_proj.bias",
    "self_Wo": "self_attn.out_proj.weight",
    "self_bo": "self_attn.out_proj.bias",
    r"context_W([qkv])": r"encoder_attn.\1_proj.weight",
    r"context_b([qkv])": r"encoder_attn.\1_proj.bias",
    "context_Wo": "encoder_attn.out_proj.weight",
    "context_bo": "encoder_attn.out_proj.bias",
    r"ffn_W([12])": r"fc\1.weight",
    r"ffn_b([12])": r"fc\1.bias",
    "self_Wo_ln_scale": "self_attn_layer_norm.weight",
    "self_Wo_ln_bias": "self_attn_layer_norm.bias",
    "context_Wo_ln_scale": "encoder_attn_layer_norm.weight",
    "context_Wo_ln_bias": "encoder_attn_layer_norm.bias",
    "ffn_ffn_ln_scale": "final_layer_norm.weight",
    "ffn_ffn_ln_bias": "final_layer_norm.bias",
}


def write_opus(
    hugging_face: Path, release: Path, shape: Shape, text: Sequence[Sequence[str]]
) -> None:
    """Write a model of random weights in both forms.

    Args:
        hugging_face: Folder to create.
        release: Folder to create.
        shape: Its sizes.
        text: Lines of the source and of the target language.
    """
    learned = [
        pieces.train_sentencepiece(lines, min(shape.learned, shape.pieces), "nmt_nfkc")
        for lines in text
    ]
    models, tokens = fill(learned, shape)
    tensors = random_network(shape, len(tokens))
    for folder in (hugging_face, release):
        folder.mkdir(parents=True)
        for side, model in zip(("source", "target"), models, strict=True):
            (folder / f"{side}.spm").write_bytes(model)
    write_hugging_face(hugging_face, shape, [*tokens, "<pad>"], tensors)
    write_release(release, shape, tokens, tensors)


def write_joint(folder: Path, shape: Shape, text: Sequence[Sequence[str]]) -> None:
    """Write joint.model, joint.vocab and data.yml of an OpenNMT-tf model.

    Args:
        folder: Folder to create.
        shape: Its sizes.
        text: Lines of both languages.
    """
    lines = [line for side in text for line in side]
    learned = pieces.train_sentencepiece(lines, min(shape.learned, shape.pieces), "nmt_nfkc")
    proto = sentencepiece_model_pb2.ModelProto.FromString(learned)
    _append(proto, [_made_up(n) for n in range(shape.pieces - len(proto.pieces))])
    folder.mkdir(parents=True)
    (folder / "joint.model").write_bytes(proto.SerializeToString())
    vocabulary = ["<blank>", "<s>", "</s>", *(piece.piece for piece in proto.pieces[3:])]
    pieces.write_lines(folder / "joint.vocab", vocabulary)
    lines = ["data:", "  source_vocabulary: joint.vocab", "  target_vocabulary: joint.vocab"]
    for side in ("source", "target"):
        lines += [f"  {side}_tokenization:", "    type: SentencePieceTokenizer"]
        lines += ["    params:", "      model: joint.model"]
    pieces.write_lines(folder / "data.yml", lines)


def fill(learned: Sequence[bytes], shape: Shape) -> tuple[list[bytes], list[str]]:
    """Fill SentencePiece models up to the size of public ones with made-up pieces.

    Args:
        learned: Models of the source and the target language.
        shape: Sizes of the models and of the vocabulary.

    Returns:
        The models, and Marian's vocabulary: end, unknown, and the pieces of both.
    """
    protos = [sentencepiece_model_pb2.ModelProto.FromString(model) for model in learned]
    own = [{piece.piece for piece in proto.pieces[3:]} for proto in protos]
    missing = [shape.pieces - len(proto.pieces) for proto in protos]
    # Some made-up pieces are in both models, so that the union has the size that is wanted.
    wanted = shape.vocabulary - len(("</s>", "<unk>", "<pad>")) - len(own[0] | own[1])
    first = [_made_up(n) for n in range(missing[0])]
    second = [_made_up(wanted - missing[1] + n) for n in range(missing[1])]
    for proto, names in zip(protos, (first, second), strict=True):
        _append(proto, names)
    tokens = dict.fromkeys(piece.piece for proto in protos for piece in proto.pieces[3:])
    if len(tokens) + len(("</s>", "<unk>", "<pad>")) != shape.vocabulary:
        raise ValueError(f"expected {shape.vocabulary} tokens, got {len(tokens) + 3}")
    return [proto.SerializeToString() for proto in protos], ["</s>", "<unk>", *tokens]


def random_network(shape: Shape, size: int) -> Tensors:
    """Return tensors by Marian's names: kernels (in, out), embeddings (V, D).

    The embedding of the end token, the first row, looks like a late position, so that
    translations end after about 25 tokens, as those of a trained model.
    """
    dice = np.random.default_rng(1)
    width, inner = shape.d_model, shape.d_ff

    def normal(*sizes: int, mean: float = 0.0) -> np.ndarray:
        return (mean + _STD * dice.standard_normal(sizes)).astype(np.float32)

    tensors = {"Wemb": normal(size, width), "decoder_ff_logit_out_b": normal(1, size)}
    late, first = sinusoids(_TYPICAL_LENGTH, width), sinusoids(0, width)
    tensors["Wemb"][0] = (late - first) / np.linalg.norm(late - first)
    for side, attentions in (("encoder", ("self",)), ("decoder", ("self", "context"))):
        for name in (f"{side}_l{number}_" for number in range(1, shape.layers + 1)):
            for attention in attentions:
                for letter in "qkvo":
                    tensors[f"{name}{attention}_W{letter}"] = normal(width, width)
                    tensors[f"{name}{attention}_b{letter}"] = normal(1, width)
            tensors |= {f"{name}ffn_W1": normal(width, inner), f"{name}ffn_b1": normal(1, inner)}
            tensors |= {f"{name}ffn_W2": normal(inner, width), f"{name}ffn_b2": normal(1, width)}
            for norm in (*(f"{attention}_Wo" for attention in attentions), "ffn_ffn"):
                tensors[f"{name}{norm}_ln_scale"] = normal(1, width, mean=1.0)
                tensors[f"{name}{norm}_ln_bias"] = normal(1, width)
    return tensors


def sinusoids(position: int, width: int) -> np.ndarray:
    """Return a position as Hugging Face computes it: sines, then cosines."""
    angles = position / 10000 ** (np.arange(width // 2) / (width // 2))
    return np.concatenate([np.sin(angles), np.cos(angles)])


def write_hugging_face(folder: Path, shape: Shape, tokens: Sequence[str], tensors: Tensors) -> None:
    """Write configuration, vocabulary and weights of a MarianMT, without its SentencePiece."""
    pad = len(tokens) - 1
    special = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0}
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (
            *(("layers", shape.layers), ("attention_heads", shape.heads)),
            *(("ffn_dim", shape.d_ff), ("layerdrop", 0.0)),
        )
    }
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": len(tokens),
        "d_model": shape.d_model,
        **sides,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 512,
        "static_position_embeddings": True,
        "is_encoder_decoder": True,
        "share_encoder_decoder_embeddings": True,
        **special,
    }
    generation = {
        "bad_words_ids": [[pad]],
        "forced_eos_token_id": 0,
        "max_length": 512,
        "num_beams": 4,
        **special,
    }
    ids = {token: number for number, token in enumerate(tokens)}
    for name, value in {
        "config.json": config,
        "generation_config.json": generation,
        "tokenizer_config.json": {"source_lang": "en", "target_lang": "de"},
        "vocab.json": ids,
    }.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", hf_tensors(tensors))


def hf_tensors(tensors: Tensors) -> Tensors:
    """Return Marian's tensors with Hugging Face's names and layouts, and a row for padding."""
    width = tensors["Wemb"].shape[1]
    found = {
        "model.shared.weight": np.concatenate([tensors["Wemb"], np.zeros((1, width), np.float32)]),
        "final_logits_bias": np.pad(tensors["decoder_ff_logit_out_b"], ((0, 0), (0, 1))),
    }
    for name, value in tensors.items():
        if parts := re.fullmatch(r"(encoder|decoder)_l(\d+)_(.*)", name):
            pattern = next(one for one in _HF_NAMES if re.fullmatch(one, parts[3]))
            own = re.sub(pattern, _HF_NAMES[pattern], parts[3])
            theirs = f"model.{parts[1]}.layers.{int(parts[2]) - 1}.{own}"
            found[theirs] = value[0] if len(value) == 1 else value.T
    return found


def write_safetensors(file: Path, tensors: Tensors) -> None:
    """Write float32 tensors in the format of safetensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, value in tensors.items():
        offsets = [place, place + value.nbytes]
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": offsets}
        place += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            stream.write(np.ascontiguousarray(value).tobytes())


def write_release(folder: Path, shape: Shape, tokens: Sequence[str], tensors: Tensors) -> None:
    """Write weights, vocabulary and decoder.yml of an OPUS-MT release."""
    options = {
        "type": "transformer",
        "dim-vocabs": [len(tokens), len(tokens)],
        "dim-emb": shape.d_model,
        "enc-depth": shape.layers,
        "dec-depth": shape.layers,
        "transformer-heads": shape.heads,
        "transformer-dim-ffn": shape.d_ff,
        "transformer-ffn-activation": "swish",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "tied-embeddings-all": True,
    }
    # JSON is YAML too.
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in options.items())
    description = np.frombuffer(text.encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **tensors, **{"special:model.yml": description})
    lines = (f"{json.dumps(token, ensure_ascii=False)}: {n}" for n, token in enumerate(tokens))
    pieces.write_lines(folder / "vocab.yml", lines)
    decoder = {"models": ["model.npz"], "vocabs": ["vocab.yml"] * 2, "relative-paths": True}
    decoder |= {"beam-size": 4, "normalize": 1, "word-penalty": 0}
    pieces.write_lines(
        folder / "decoder.yml", (f"{key}: {json.dumps(value)}" for key, value in decoder.items())
    )


def _append(proto: sentencepiece_model_pb2.ModelProto, names: Sequence[str]) -> None:
    """Append pieces that are less probable than those that were learned."""
    lowest = min(piece.score for piece in proto.pieces)
    for name in names:
        proto.pieces.add(piece=name, score=lowest - 1, type=_NORMAL)


def _made_up(number: int) -> str:
    return f"\u2581zq{number}"
