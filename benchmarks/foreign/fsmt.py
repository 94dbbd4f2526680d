"""Hugging Face's FSMT in the conversion proof: ``python fsmt.py SETTINGS``.

Makes a folder as those of the WMT19 models: two vocabularies of byte-pair codes behind Moses'
tokenizer, own output matrix.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import answers
import corpus
import pieces
import torch
import torch_model
import transformers_search
from sacremoses import MosesTokenizer
from transformers import FSMTConfig, FSMTForConditionalGeneration, FSMTTokenizer

PAD, END = 1, 2
LANGUAGES = ("en", "de")


def tokenizer_files(settings: dict[str, Any], folder: Path) -> list[list[list[str]]]:
    """Write vocabularies and merges; return the symbols of both sides."""
    pairs = corpus.read_pairs(settings, "train")
    moses = [MosesTokenizer(lang=language) for language in LANGUAGES]
    sides = [
        [moses[index].tokenize(pair[index], return_str=True, escape=True) for pair in pairs]
        for index in (0, 1)
    ]
    codes = pieces.learn_codes([*sides[0], *sides[1]], settings["pieces"])
    pieces.write_lines(
        folder / "merges.txt", (f"{a} {b} {number}" for number, (a, b) in enumerate(codes.pairs))
    )
    rows = [[codes.apply(line) for line in side] for side in sides]
    for name, side in zip(("src", "tgt"), rows, strict=True):
        own = [token for token, _ in pieces.by_frequency(side)]
        table = {token: n for n, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *own])}
        text = json.dumps(table, ensure_ascii=False, indent=2)
        (folder / f"vocab-{name}.json").write_text(text, encoding="utf-8")
    corpus.write_words(
        settings,
        lambda side, line: moses[side].tokenize(line, escape=True),
    )
    return rows


def logits(model: Any) -> torch_model.Logits:
    """Return the model as a function."""

    def call(source: Any, inputs: Any) -> Any:
        return model(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits

    return call


def build(width: int, source: int, target: int) -> Any:
    """Return a model of some width and vocabulary sizes."""
    return FSMTForConditionalGeneration(
        FSMTConfig(
            langs=list(LANGUAGES),
            src_vocab_size=source,
            tgt_vocab_size=target,
            d_model=width,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=2,
            encoder_ffn_dim=2 * width,
            decoder_ffn_dim=3 * width,
            max_position_embeddings=256,
            dropout=0.0,
            init_std=0.05,
        )
    )


def main() -> None:
    """Make, train, save, and ask."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(settings["seed"])
    folder = Path(settings["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    rows = tokenizer_files(settings, folder)
    tokenizer = FSMTTokenizer(
        langs=list(LANGUAGES),
        src_vocab_file=str(folder / "vocab-src.json"),
        tgt_vocab_file=str(folder / "vocab-tgt.json"),
        merges_file=str(folder / "merges.txt"),
    )
    target = {token: number for number, token in tokenizer.decoder.items()}
    model = build(settings["d_model"], len(tokenizer.encoder), len(target)).train()
    torch_model.perturb(model)
    pairs = [
        ([*map(tokenizer.encoder.__getitem__, a), END], [*map(target.__getitem__, b), END])
        for a, b in zip(*rows, strict=True)
    ]
    loss = torch_model.train(
        logits(model), model.parameters(), pairs, END, (PAD, PAD), settings["updates"],
        settings["rate"],
    )  # fmt: skip
    print(f"fsmt: loss {loss:.3f}", file=sys.stderr)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    loaded = FSMTForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    sources = [pair[0] for pair in corpus.read_pairs(settings, "test")][: settings["sentences"]]

    def tokens(ids: list[int]) -> list[str]:
        return [tokenizer.decoder[number] for number in ids]

    found = transformers_search.ask(settings, loaded, logits(loaded), sources, tokenizer, tokens)
    # Text as the network knows it: words of Moses' tokenizer.
    for one in found["greedy"]:
        one["text"] = "".join(one["tokens"]).replace("</w>", " ").strip()
    found["sources"] = ["".join(row).replace("</w>", " ").strip() for row in found["source_tokens"]]
    answers.write(Path(settings["answers"]), {"peer": "Hugging Face FSMT", "words": True, **found})


if __name__ == "__main__":
    main()
