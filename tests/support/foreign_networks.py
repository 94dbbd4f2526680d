"""Small random models in the files of fairseq, FSMT, JoeyNMT, OpenNMT-tf and CTranslate2."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.support import torch_files
from tests.support.foreign_models import random_tensors, write_safetensors

D_MODEL, D_FF, HEADS = 8, 12, 2
LAYERS = {"encoder": 2, "decoder": 1}
WORDS = ("the", "sm@@", "all", "dog", "▁run", "der", "Hund")
SIZE = 4 + len(WORDS)

Shapes = dict[str, tuple[int, ...]]
Arrays = dict[str, np.ndarray]


def _linear(name: str, inner: int, outer: int) -> Shapes:
    return {f"{name}.weight": (outer, inner), f"{name}.bias": (outer,)}


def _norm(name: str) -> Shapes:
    return {f"{name}.weight": (D_MODEL,), f"{name}.bias": (D_MODEL,)}


def fairseq_tensors(final_norm: bool = False, prefix: str = "", **more: tuple[int, ...]) -> Arrays:
    """Return the tensors of a model with one embedding matrix, in the current names."""
    shapes: Shapes = {f"{prefix}decoder.embed_tokens.weight": (SIZE, D_MODEL)}
    for side, layers in LAYERS.items():
        for layer in range(layers):
            name = f"{prefix}{side}.layers.{layer}"
            for attention in ["self_attn", "encoder_attn"][: 1 + (side == "decoder")]:
                for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    shapes |= _linear(f"{name}.{attention}.{part}", D_MODEL, D_MODEL)
                shapes |= _norm(f"{name}.{attention}_layer_norm")
            shapes |= _linear(f"{name}.fc1", D_MODEL, D_FF) | _linear(f"{name}.fc2", D_FF, D_MODEL)
            shapes |= _norm(f"{name}.final_layer_norm")
        if final_norm:
            shapes |= _norm(f"{prefix}{side}.layer_norm")
    return random_tensors(shapes | more)


FAIRSEQ_OPTIONS: dict[str, Any] = {
    "arch": "transformer",
    "task": "translation",
    "source_lang": "en",
    "target_lang": "de",
    "encoder_embed_dim": D_MODEL,
    "encoder_ffn_embed_dim": D_FF,
    "encoder_layers": LAYERS["encoder"],
    "decoder_layers": LAYERS["decoder"],
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": 2 * HEADS,
    "share_all_embeddings": True,
    "dropout": 0.25,
}


def fairseq_state(tensors: Arrays, version: float = 3) -> Any:
    """Return a state dictionary as fairseq saves it."""
    number = torch_files.tensor([version])
    state = torch_files.state(tensors)
    state |= {f"{side}.version": number for side in LAYERS}
    state |= {f"{side}.embed_positions._float_tensor": number for side in LAYERS}
    for name in ("encoder.embed_tokens.weight", "decoder.output_projection.weight"):
        state.setdefault(name, state["decoder.embed_tokens.weight"])
    return state


def write_fairseq(
    folder: Path, tensors: Arrays | None = None, version: float = 3, **options: Any
) -> Arrays:
    """Write model.pt and dictionaries."""
    tensors = fairseq_tensors() if tensors is None else tensors
    args = torch_files.namespace(**(FAIRSEQ_OPTIONS | options))
    value = {"args": args, "model": fairseq_state(tensors, version), "extra_state": {"epoch": 3}}
    torch_files.save(value, folder / "model.pt")
    write_dictionaries(folder)
    return tensors


def write_dictionaries(folder: Path) -> None:
    """Write the dictionaries of fairseq."""
    for language in ("en", "de"):
        text = "".join(f"{word} {9 - number}\n" for number, word in enumerate(WORDS))
        (folder / f"dict.{language}.txt").write_text(text, encoding="utf-8")


def old_fairseq_names(tensors: Mapping[str, np.ndarray]) -> Arrays:
    """Return tensors in the names of the first versions."""
    norms = {
        "encoder": ("self_attn_layer_norm", "final_layer_norm"),
        "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
    }
    old: Arrays = {}
    for name, value in tensors.items():
        parts = name.split(".")
        if "_proj" in name and "out_proj" not in name:
            stem, _, kind = name.rpartition(".")
            stem = stem.removesuffix("q_proj").removesuffix("k_proj").removesuffix("v_proj")
            thirds = [tensors[f"{stem}{part}_proj.{kind}"] for part in "qkv"]
            old[f"{stem}in_proj_{kind}"] = np.concatenate(thirds)
        elif len(parts) > 3 and parts[3] in norms[parts[0]]:
            number = norms[parts[0]].index(parts[3])
            old[".".join([*parts[:3], "layer_norms", str(number), parts[4]])] = value
        else:
            old[name] = value
    return old


def write_fsmt(folder: Path, positions: np.ndarray | None = None, **options: Any) -> Arrays:
    """Write config.json, vocabularies and model.safetensors of FSMT, with a position table."""
    more = {f"model.{side}.embed_tokens.weight": (SIZE, D_MODEL) for side in LAYERS}
    tensors = fairseq_tensors(prefix="model.", **more)
    tensors["model.decoder.output_projection.weight"] = tensors["model.decoder.embed_tokens.weight"]
    if positions is not None:
        tensors |= {f"model.{side}.embed_positions.weight": positions for side in LAYERS}
    config = {
        "model_type": "fsmt",
        "langs": ["en", "ru"],
        "d_model": D_MODEL,
        **{f"{side}_layers": layers for side, layers in LAYERS.items()},
        **{f"{side}_ffn_dim": D_FF for side in LAYERS},
        **{f"{side}_attention_heads": HEADS for side in LAYERS},
        "activation_function": "relu",
        "num_beams": 5,
        "length_penalty": 1.1,
        "max_length": 200,
        "decoder_start_token_id": 2,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config | options))
    tokens = ["<s>", "<pad>", "</s>", "<unk>"]
    tokens += [word[:-2] if word.endswith("@@") else f"{word}</w>" for word in WORDS]
    for name in ("src", "tgt"):
        ids = {token: number for number, token in enumerate(tokens)}
        (folder / f"vocab-{name}.json").write_text(json.dumps(ids))
    write_safetensors(folder / "model.safetensors", tensors)
    return tensors


def joey_tensors(final_norms: bool = True, tied: bool = True) -> Arrays:
    """Return the tensors of a model of JoeyNMT."""
    names = ["src_embed.lut", "trg_embed.lut", "decoder.output_layer"]
    shapes: Shapes = {f"{name}.weight": (SIZE, D_MODEL) for name in names}
    attentions = {"encoder": ["src_src_att"], "decoder": ["trg_trg_att", "src_trg_att"]}
    norms = {"encoder": ["layer_norm"], "decoder": ["x_layer_norm", "dec_layer_norm"]}
    for side, layers in LAYERS.items():
        for layer in range(layers):
            name = f"{side}.layers.{layer}"
            for attention in attentions[side]:
                for part in ("q_layer", "k_layer", "v_layer", "output_layer"):
                    shapes |= _linear(f"{name}.{attention}.{part}", D_MODEL, D_MODEL)
            for norm in [*norms[side], "feed_forward.layer_norm"]:
                shapes |= _norm(f"{name}.{norm}")
            block = f"{name}.feed_forward.pwff_layer"
            shapes |= _linear(f"{block}.0", D_MODEL, D_FF) | _linear(f"{block}.3", D_FF, D_MODEL)
        if final_norms:
            shapes |= _norm(f"{side}.layer_norm")
    tensors = random_tensors(shapes)
    if tied:
        tensors |= dict.fromkeys(
            (f"{name}.weight" for name in names), tensors[f"{names[0]}.weight"]
        )
    return tensors


def write_joey(
    folder: Path,
    tensors: Arrays | None = None,
    data: Mapping[str, Any] | None = None,
    testing: Mapping[str, Any] | None = None,
    **sides: Any,
) -> Arrays:
    """Write config.yaml, best.ckpt and vocabularies; ``sides`` change both parts of the model."""
    tensors = joey_tensors() if tensors is None else tensors
    part = {
        "type": "transformer",
        "num_heads": HEADS,
        "embeddings": {"embedding_dim": D_MODEL, "scale": True},
        "layer_norm": "pre",
        "dropout": 0.2,
    }
    part = {name: value for name, value in (part | sides).items() if value is not None}
    config = {
        "data": data or {"src": {"lang": "en", "level": "bpe"}, "trg": {"lang": "de"}},
        "testing": dict(testing or {}),
        "model": {"encoder": part, "decoder": json.loads(json.dumps(part))},  # YAML would alias
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    state = torch_files.state(tensors)
    state["encoder.pe.pe"] = torch_files.tensor(np.zeros((1, 5, D_MODEL)))
    torch_files.save({"model_state": state, "steps": 3}, folder / "best.ckpt")
    lines = "".join(f"{token}\n" for token in ("<unk>", "<pad>", "<s>", "</s>", *WORDS))
    for name in ("src", "trg"):
        (folder / f"{name}_vocab.txt").write_text(lines, encoding="utf-8")
    return tensors


def opennmt_tensors(pre: bool = True, shared: bool = True, bias: bool = True) -> Arrays:
    """Return the variables of a model of OpenNMT-tf 2, by names without their ending."""
    shapes: Shapes = {"model/examples_inputter/features_inputter/embedding": (SIZE, D_MODEL)}
    if not shared:
        shapes["model/examples_inputter/labels_inputter/embedding"] = (SIZE, D_MODEL)
        shapes["model/decoder/output_layer/kernel"] = (D_MODEL, SIZE)
    order = "input" if pre else "output"
    shapes["model/decoder/output_layer/bias"] = (SIZE,)
    for side, layers in LAYERS.items():
        norms = [f"model/{side}/layer_norm"] if pre else []
        for layer in range(layers):
            name = f"model/{side}/layers/{layer}"
            for part in ["self_attention", "attention/0"][: 1 + (side == "decoder")]:
                for linear in ("queries", "keys", "values", "output"):
                    path = f"{name}/{part}/layer/linear_{linear}"
                    shapes[f"{path}/kernel"] = (D_MODEL, D_MODEL)
                    shapes |= {f"{path}/bias": (D_MODEL,)} if bias else {}
                norms.append(f"{name}/{part}/{order}_layer_norm")
            for part, size in (("inner", (D_MODEL, D_FF)), ("outer", (D_FF, D_MODEL))):
                shapes[f"{name}/ffn/layer/{part}/kernel"] = size
                shapes[f"{name}/ffn/layer/{part}/bias"] = size[1:]
            norms.append(f"{name}/ffn/{order}_layer_norm")
        for norm in norms:
            shapes |= {f"{norm}/gamma": (D_MODEL,), f"{norm}/beta": (D_MODEL,)}
    return random_tensors(shapes)


OPENNMT_WORDS = ("<blank>", "<s>", "</s>", *WORDS)
"""Lines of a vocabulary; the unknown token has no line."""


def ctranslate2_tensors(bias: bool = True) -> Arrays:
    """Return the variables of a model of CTranslate2, norm before each sub-layer."""
    shapes: Shapes = {
        "encoder/embeddings_0/weight": (SIZE, D_MODEL),
        "decoder/embeddings/weight": (SIZE, D_MODEL),
        "decoder/projection/weight": (SIZE, D_MODEL),
        "decoder/projection/bias": (SIZE,),
    }
    values: dict[str, np.ndarray] = {}
    for side, layers in LAYERS.items():
        norms = [f"{side}/layer_norm"]
        for layer in range(layers):
            name = f"{side}/layer_{layer}"
            sizes = {"self_attention": (3, 1), "attention": (1, 2, 1)}
            for part in ["self_attention", "attention"][: 1 + (side == "decoder")]:
                for number, count in enumerate(sizes[part]):
                    path = f"{name}/{part}/linear_{number}"
                    shapes[f"{path}/weight"] = (count * D_MODEL, D_MODEL)
                    shapes |= {f"{path}/bias": (count * D_MODEL,)} if bias else {}
                norms.append(f"{name}/{part}/layer_norm")
            for number, size in ((0, (D_FF, D_MODEL)), (1, (D_MODEL, D_FF))):
                path = f"{name}/ffn/linear_{number}"
                shapes |= {f"{path}/weight": size, f"{path}/bias": size[:1]}
            norms.append(f"{name}/ffn/layer_norm")
        for norm in norms:
            shapes |= {f"{norm}/gamma": (D_MODEL,), f"{norm}/beta": (D_MODEL,)}
        values |= {
            f"{side}/num_heads": np.array(HEADS, np.int16),
            f"{side}/pre_norm": np.array(1, np.int8),
            f"{side}/activation": np.array(2, np.int8),
            f"{side}/scale_embeddings": np.array(1, np.int8),
        }
    return random_tensors(shapes) | values


_TYPES = ("<f4", "|i1", "<i2", "<i4", "<f2", "<u2")


def ctranslate2_bytes(
    variables: Mapping[str, np.ndarray], aliases: Mapping[str, str] | None = None
) -> bytes:
    """Return a model.bin of version 6; uint16 stands for bfloat16."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value.encode()) + 1) + value.encode() + b"\0"

    parts = [struct.pack("<I", 6), text("TransformerSpec"), struct.pack("<I", 7)]
    parts.append(struct.pack("<I", len(variables)))
    for name, value in variables.items():
        parts += [text(name), struct.pack("<B", value.ndim)]
        parts.append(struct.pack(f"<{value.ndim}I", *value.shape))
        kind = _TYPES.index(value.dtype.newbyteorder("<").str)
        parts += [struct.pack("<BI", kind, value.nbytes), value.tobytes()]
    parts.append(struct.pack("<I", len(aliases or {})))
    for alias, name in (aliases or {}).items():
        parts += [text(alias), text(name)]
    return b"".join(parts)


def write_ctranslate2(
    folder: Path,
    variables: Mapping[str, np.ndarray] | None = None,
    aliases: Mapping[str, str] | None = None,
    tokens: Sequence[str] = ("<blank>", "<s>", "</s>", *WORDS, "<unk>"),
    **config: Any,
) -> Mapping[str, np.ndarray]:
    """Write model.bin, shared_vocabulary.json and config.json."""
    variables = ctranslate2_tensors() if variables is None else variables
    (folder / "model.bin").write_bytes(ctranslate2_bytes(variables, aliases))
    (folder / "shared_vocabulary.json").write_text(json.dumps(list(tokens)))
    values = {
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "decoder_start_token": "<s>",
        "add_source_bos": False,
        "add_source_eos": False,
        "layer_norm_epsilon": None,
    }
    (folder / "config.json").write_text(json.dumps(values | config))
    return variables
