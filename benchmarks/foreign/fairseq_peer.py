"""fairseq in the conversion proof: ``python fairseq_peer.py SETTINGS``, fairseq on the path.

Makes a model folder: model.pt, dictionaries, byte-pair codes. Variants:

- shared: settings as a Namespace, one matrix for both sides and the output, norm after each
  sublayer, fewer and smaller decoder layers
- separate: settings as a dict, two dictionaries, own output matrix, norm before each sublayer,
  GELU
- old: as the first releases wrote it: stacked query, key and value, other names of norms, no
  final norms
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import answers  # noqa: E402
import corpus  # noqa: E402
import pieces  # noqa: E402
import torch  # noqa: E402
import torch_model  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.models.transformer import TransformerModel, base_architecture  # noqa: E402
from fairseq.sequence_generator import SequenceGenerator  # noqa: E402

ALPHA = 0.6


def dictionaries(settings: dict[str, Any], folder: Path) -> pieces.Codes:
    """Write dictionaries and codes; return the codes."""
    pairs = corpus.read_pairs(settings, "train")
    sides = [[pieces.spaced(pair[index]) for pair in pairs] for index in (0, 1)]
    codes = pieces.learn_codes([*sides[0], *sides[1]], settings["pieces"])
    lines = (f"{first} {second} {n}" for n, (first, second) in enumerate(codes.pairs))
    pieces.write_lines(folder / "bpecodes", lines)
    rows = [[pieces.continued(codes.apply(line)) for line in side] for side in sides]
    if settings["variant"] != "separate":
        rows = [[*rows[0], *rows[1]]] * 2
    for language, own in zip(("en", "de"), rows, strict=True):
        counted = (f"{token} {count}" for token, count in pieces.by_frequency(own))
        pieces.write_lines(folder / f"dict.{language}.txt", counted)
    return codes


def options(settings: dict[str, Any]) -> argparse.Namespace:
    """Return the model's settings as fairseq keeps them."""
    width, variant = settings["d_model"], settings["variant"]
    given: dict[str, Any] = {
        "arch": "transformer",
        "task": "translation",
        "source_lang": "en",
        "target_lang": "de",
        "data": "data",
        "dropout": 0.0,
        "encoder_layers": 2,
        "encoder_embed_dim": width,
        "encoder_ffn_embed_dim": 2 * width,
        "encoder_attention_heads": 4,
        "decoder_layers": 1 if variant == "shared" else 2,
        "decoder_embed_dim": width,
        "decoder_ffn_embed_dim": 3 * width if variant == "shared" else 2 * width,
        "decoder_attention_heads": 2 if variant == "shared" else 4,
        "share_all_embeddings": variant != "separate",
        "encoder_normalize_before": variant != "shared",
        "decoder_normalize_before": variant != "shared",
        "max_source_positions": 256,
        "max_target_positions": 256,
    }
    if variant == "separate":
        given["activation_fn"] = "gelu"
    found = argparse.Namespace(**given)
    base_architecture(found)
    return found


def build(args: argparse.Namespace, source: Any, target: Any) -> Any:
    """Return fairseq's model."""

    class Task:
        source_dictionary = source
        target_dictionary = target

    return TransformerModel.build_model(args, Task())


def old_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state with the names of the first releases."""
    norms = {
        "encoder": ["self_attn_layer_norm", "final_layer_norm"],
        "decoder": ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"],
    }
    found: dict[str, Any] = {}
    for name, value in state.items():
        side = name.split(".")[0]
        if ".version" in name:
            value = torch.tensor([1.0])
        for number, norm in enumerate(norms.get(side, [])):
            name = name.replace(f".{norm}.", f".layer_norms.{number}.")
        if match := re.match(r"(.*_attn)\.([qkv])_proj\.(weight|bias)$", name):
            if match[2] == "q":
                parts = [state[f"{match[1]}.{one}_proj.{match[3]}"] for one in "qkv"]
                found[f"{match[1]}.in_proj_{match[3]}"] = torch.cat(parts)
        elif name != "decoder.output_projection.weight":
            found[name] = value
    return found


def save(
    settings: dict[str, Any], model: Any, args: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """Write model.pt; return its state."""
    state = model.state_dict()
    content = {"args": args, "extra_state": {"epoch": 1}, "optimizer_history": []}
    if settings["variant"] == "old":
        state = old_state(state)
    if settings["variant"] == "separate":
        content |= {"args": None, "cfg": {"model": args, "task": {"_name": "translation"}}}
    content |= {"model": state, "last_optimizer_state": None}
    torch.save(
        content, folder / "model.pt", _use_new_zipfile_serialization=settings["variant"] != "old"
    )
    return state


def ask(
    settings: dict[str, Any], model: Any, codes: pieces.Codes, own: Any, target: Any
) -> answers.Answers:
    """Return the numbers of the model."""
    most, beam = settings["most"], settings["beam"]
    pairs = corpus.read_pairs(settings, "test")[: settings["sentences"]]
    sources = [pieces.spaced(pair[0]) for pair in pairs]
    # fairseq forces the end after max_len_b tokens.
    limits = {"max_len_a": 0, "max_len_b": most - 1, "len_penalty": ALPHA}
    engines = [SequenceGenerator([model], target, beam_size=size, **limits) for size in (1, beam)]
    found: answers.Answers = {"source_tokens": [], "n_best": [], "greedy": []}
    for number, line in enumerate(sources):
        tokens = pieces.continued(codes.apply(line))
        found["source_tokens"].append(tokens)
        ids = torch.tensor([[*(own.index(token) for token in tokens), own.eos()]])
        sample = {"net_input": {"src_tokens": ids, "src_lengths": torch.tensor([ids.shape[1]])}}
        rows = []
        for engine in engines[: 1 + (number < settings["n_best_sentences"])]:
            with torch.no_grad():
                rows.append(engine.generate([model], sample)[0])
        best = rows[0][0]["tokens"].tolist()
        words = [target[one] for one in best if one != target.eos()]
        text = " ".join(words).replace("@@ ", "")
        found["greedy"].append(answers.greedy(words, text, len(best) < most))
        if len(rows) == 1:
            continue
        found["n_best"].append([])
        for one in rows[1]:
            words = [target[token] for token in one["tokens"].tolist()[:-1]]
            numbers, ended = one["positional_scores"].tolist(), len(words) + 1 < most
            numbers = numbers if ended else numbers[:-1]
            found["n_best"][-1].append(
                answers.hypothesis(words, numbers, float(one["score"]), ended)
            )
    return {
        "peer": "fairseq",
        "words": True,
        "variant": settings["variant"],
        "versions": {"fairseq-fixed": "0.12.3.1"} | answers.versions(["torch"]),
        "search": {"beam": beam, "alpha": ALPHA, "length_penalty": "power", "most": most},
        "sources": sources,
        **found,
    }


def main() -> None:
    """Make, train, save, and ask."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(settings["seed"])
    folder = Path(settings["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    codes = dictionaries(settings, folder)
    own, target = (Dictionary.load(str(folder / f"dict.{one}.txt")) for one in ("en", "de"))
    args = options(settings)
    model = build(args, own, target)
    if settings["variant"] == "old":
        for side in (model.encoder, model.decoder):
            side.layer_norm = None
    torch_model.perturb(model)
    sides = [
        [[*map(words.index, pieces.continued(codes.apply(pieces.spaced(line))))] for line in lines]
        for words, lines in zip(
            (own, target), zip(*corpus.read_pairs(settings, "train"), strict=True), strict=False
        )
    ]
    end = target.eos()
    pairs = [([*a, end], [*b, end]) for a, b in zip(*sides, strict=True)]

    def call(source: Any, inputs: Any) -> Any:
        return model(source, (source != own.pad()).sum(1), inputs)[0]

    loss = torch_model.train(
        call, model.parameters(), pairs, end, (own.pad(), target.pad()), settings["updates"],
        settings["rate"],
    )  # fmt: skip
    print(f"{settings['variant']}: loss {loss:.3f}", file=sys.stderr)
    corpus.write_words(settings, lambda _, line: pieces.spaced(line).split())
    state = save(settings, model, args, folder)
    loaded = build(args, own, target)
    # fairseq itself reads its older names.
    loaded.load_state_dict(dict(state), strict=True)
    answers.write(Path(settings["answers"]), ask(settings, loaded.eval(), codes, own, target))


if __name__ == "__main__":
    main()
