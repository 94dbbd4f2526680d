"""Small random models in the files of Marian and of Hugging Face, written by NumPy."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import yaml

D_MODEL, D_FF, HEADS = 16, 24, 2
ENCODER_LAYERS, DECODER_LAYERS = 2, 1
TAG = ">>deu<<"

TEXT = {
    "source": ["a small dog runs over the grass", "two men sit on a bench", "the girl is happy"],
    "target": ["ein kleiner Hund läuft über das Gras", "zwei Männer sitzen", "das Mädchen lacht"],
}


@functools.cache
def sentencepiece_model(side: str) -> bytes:
    """Return a SentencePiece model with the ids of its own trainer: unknown 0, no padding."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT[side] * 20),
        model_writer=model,
        vocab_size=60,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """Return the tokens of both models, as OPUS-MT joins them: end and unknown first."""
    tokens = ["</s>", "<unk>"]
    for side in TEXT:
        model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model(side))
        pieces = [model.id_to_piece(number) for number in range(3, model.get_piece_size())]
        tokens += [piece for piece in pieces if piece not in tokens]
    return (*tokens, TAG)


def random_tensors(shapes: Mapping[str, tuple[int, ...]], seed: int = 1) -> dict[str, np.ndarray]:
    """Return float32 tensors of which no two are alike; norms and biases are perturbed too."""
    generator = np.random.default_rng(seed)
    return {
        name: (
            0.3 * generator.normal(size=shape) + ("scale" in name or "norm.weight" in name)
        ).astype(np.float32)
        for name, shape in shapes.items()
    }


def marian_shapes(size: int, pre: bool = False) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a Marian Transformer with one matrix for all embeddings."""
    shapes: dict[str, tuple[int, ...]] = {
        "Wemb": (size, D_MODEL),
        "decoder_ff_logit_out_b": (1, size),
    }
    suffix = "_pre" if pre else ""

    def norm(name: str, ending: str = suffix) -> None:
        shapes[f"{name}_ln_scale{ending}"] = shapes[f"{name}_ln_bias{ending}"] = (1, D_MODEL)

    for side, layers in (("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(1, layers + 1):
            for attention in ("self", "context")[: 1 if side == "encoder" else 2]:
                name = f"{side}_l{layer}_{attention}"
                for letter in "qkvo":
                    shapes[f"{name}_W{letter}"] = (D_MODEL, D_MODEL)
                    shapes[f"{name}_b{letter}"] = (1, D_MODEL)
                norm(f"{name}_Wo")
            name = f"{side}_l{layer}_ffn"
            shapes |= {f"{name}_W1": (D_MODEL, D_FF), f"{name}_b1": (1, D_FF)}
            shapes |= {f"{name}_W2": (D_FF, D_MODEL), f"{name}_b2": (1, D_MODEL)}
            norm(f"{name}_ffn")
        if pre:
            norm(f"{side}_top", "")
    return shapes


def marian_options(size: int, pre: bool = False) -> dict[str, Any]:
    """Return the contents of special:model.yml."""
    return {
        "type": "transformer",
        "dim-vocabs": [size, size],
        "dim-emb": D_MODEL,
        "enc-depth": ENCODER_LAYERS,
        "dec-depth": DECODER_LAYERS,
        "transformer-heads": HEADS,
        "transformer-dim-ffn": D_FF,
        "transformer-decoder-dim-ffn": 0,
        "transformer-ffn-activation": "swish",
        "transformer-ffn-depth": 2,
        "transformer-preprocess": "n" if pre else "",
        "transformer-postprocess": "da" if pre else "dan",
        "transformer-postprocess-top": "n" if pre else "",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "tied-embeddings-all": True,
    }


def write_marian(path: Path, tensors: Mapping[str, np.ndarray], options: Any) -> None:
    """Write a Marian archive."""
    text = yaml.safe_dump(options).encode() + b"\0"
    np.savez(path, **tensors, **{"special:model.yml": np.frombuffer(text, np.int8)})


def write_opus_folder(folder: Path, pre: bool = False, **options: Any) -> dict[str, np.ndarray]:
    """Write an unpacked OPUS-MT release; return its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    tensors = random_tensors(marian_shapes(len(tokens), pre))
    write_marian(folder / "model.npz", tensors, marian_options(len(tokens), pre) | options)
    lines = [f"{json.dumps(token)}: {number}\n" for number, token in enumerate(tokens)]
    (folder / "opus.vocab.yml").write_text("".join(lines), encoding="utf-8")
    for side in TEXT:
        (folder / f"{side}.spm").write_bytes(sentencepiece_model(side))
    decoder = {"models": ["model.npz"], "vocabs": ["opus.vocab.yml"] * 2}
    decoder |= {"beam-size": 6, "normalize": 1, "word-penalty": 0}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder), encoding="utf-8")
    (folder / "preprocess.sh").write_text("sed 's/“/\"/g'\n", encoding="utf-8")
    return tensors


def hf_shapes(size: int) -> dict[str, tuple[int, ...]]:
    """Return the tensors of a MarianMT with one matrix for all embeddings."""
    shapes: dict[str, tuple[int, ...]] = {
        "model.shared.weight": (size, D_MODEL),
        "final_logits_bias": (1, size),
    }
    for side, layers in (("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(layers):
            name = f"model.{side}.layers.{layer}"
            norms = ["self_attn_layer_norm", "final_layer_norm"]
            linears = {"fc1": (D_FF, D_MODEL), "fc2": (D_MODEL, D_FF)}
            for attention in ("self_attn", "encoder_attn")[: 1 if side == "encoder" else 2]:
                for role in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    linears[f"{attention}.{role}"] = (D_MODEL, D_MODEL)
            if side == "decoder":
                norms.append("encoder_attn_layer_norm")
            for norm in norms:
                shapes |= {f"{name}.{norm}.{part}": (D_MODEL,) for part in ("weight", "bias")}
            for linear, shape in linears.items():
                shapes |= {f"{name}.{linear}.weight": shape, f"{name}.{linear}.bias": shape[:1]}
    return shapes


def hf_config(size: int) -> dict[str, Any]:
    """Return the contents of config.json."""
    return {
        "model_type": "marian",
        "vocab_size": size,
        "d_model": D_MODEL,
        "encoder_layers": ENCODER_LAYERS,
        "decoder_layers": DECODER_LAYERS,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": D_FF,
        "decoder_ffn_dim": D_FF,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 512,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
        "bad_words_ids": [[size - 1]],
        "num_beams": 4,
        "max_length": 512,
    }


def write_hf_folder(
    folder: Path, tensors: Mapping[str, np.ndarray] | None = None, **config: Any
) -> dict[str, np.ndarray]:
    """Write a folder of MarianMT; return its tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = (*vocabulary(), "<pad>")
    values = dict(tensors or random_tensors(hf_shapes(len(tokens))))
    write_safetensors(folder / "model.safetensors", values)
    ids = {token: number for number, token in enumerate(tokens)}
    write_json(folder / "vocab.json", ids)
    write_json(folder / "config.json", hf_config(len(tokens)) | config)
    write_json(folder / "tokenizer_config.json", {"source_lang": "eng", "target_lang": "deu"})
    for side in TEXT:
        (folder / f"{side}.spm").write_bytes(sentencepiece_model(side))
    return values


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a safetensors file of float32 and float16 tensors."""
    entries, data = {}, b""
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor).tobytes()
        kind = {"float32": "F32", "float16": "F16"}[tensor.dtype.name]
        offsets = [len(data), len(data) + len(raw)]
        entries[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": offsets}
        data += raw
    write_safetensors_parts(path, entries, data)


def write_safetensors_parts(path: Path, entries: Any, data: bytes) -> None:
    """Write a safetensors file from its header and its data, which need not fit."""
    header = json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
