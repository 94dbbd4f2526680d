"""Hugging Face's MarianMT in the conversion proof: ``python hugging_face.py SETTINGS``.

Makes a small model, trains it for some updates, saves it as Hugging Face does, and writes its
own numbers; see ``answers.py``. Variants:

- shared: one vocabulary with tags, one matrix for both sides and the output, SiLU, as OPUS-MT
- separate: two vocabularies, own output matrix, ReLU, other sizes in the decoder
- float16: as shared, but a ``pytorch_model.bin`` in float16, as the public OPUS-MT models; the
  row of padding, the decoder's first input, is not zero, as after fine-tuning
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
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

TAGS = [">>deu<<", ">>fra<<"]


def vocabularies(settings: dict[str, Any], folder: Path) -> dict[str, int]:
    """Write SentencePiece models and vocabularies; return that of the target."""
    pairs = corpus.read_pairs(settings, "train")
    own: list[list[str]] = []
    for index, side in enumerate(("source", "target")):
        proto = pieces.train_sentencepiece(
            [pair[index] for pair in pairs], settings["pieces"], settings["rule"]
        )
        (folder / f"{side}.spm").write_bytes(proto)
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        own.append([model.id_to_piece(number) for number in range(3, model.get_piece_size())])
    if settings["variant"] == "separate":
        # Both sides have one size, as Hugging Face's padding id demands.
        size = min(map(len, own))
        tables = [["</s>", "<unk>", *side[:size], "<pad>"] for side in own]
    else:
        both = list(dict.fromkeys([*own[0], *own[1], *TAGS]))
        tables = [["</s>", "<unk>", *both, "<pad>"]]
    numbered = [{piece: number for number, piece in enumerate(table)} for table in tables]
    for name, table in zip(("vocab.json", "target_vocab.json"), numbered, strict=False):
        (folder / name).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")
    return numbered[-1]


def build(settings: dict[str, Any], size: int) -> Any:
    """Return a model with perturbed norms and biases."""
    torch.manual_seed(settings["seed"])
    separate = settings["variant"] == "separate"
    width = settings["d_model"]
    model = MarianMTModel(
        MarianConfig(
            vocab_size=size,
            decoder_vocab_size=size,
            d_model=width,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=2 if separate else 4,
            encoder_ffn_dim=2 * width,
            decoder_ffn_dim=3 * width if separate else 2 * width,
            max_position_embeddings=256,
            activation_function="relu" if separate else "swish",
            scale_embedding=True,
            dropout=0.0,
            init_std=0.05,
            pad_token_id=size - 1,
            decoder_start_token_id=size - 1,
            eos_token_id=0,
            forced_eos_token_id=0,
            share_encoder_decoder_embeddings=not separate,
            tie_word_embeddings=not separate,
        )
    )
    torch_model.perturb(model)
    model.final_logits_bias.normal_(0, 0.3)
    model.final_logits_bias[0, -1] = 0
    return model


def logits(model: Any, pad: int) -> torch_model.Logits:
    """Return the model as a function."""
    return lambda source, inputs: (
        model(
            input_ids=source,
            attention_mask=(source != pad).long(),
            decoder_input_ids=inputs,
            use_cache=False,
        ).logits
    )


def zero_padding(model: Any) -> None:
    """Make the rows of padding zero, as Marian's start vector is."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_tokens" in name or "shared" in name or "lm_head" in name:
                parameter[-1] = 0


def save(model: Any, tokenizer: Any, folder: Path, variant: str) -> None:
    """Save the model as the peer does, or did when the public models were made."""
    model.generation_config.bad_words_ids = [[model.config.pad_token_id]]
    model.generation_config.num_beams = 4
    model.generation_config.max_length = 256
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if variant == "float16":
        (folder / "model.safetensors").unlink()
        tensors = {name: value.half() for name, value in model.state_dict().items()}
        tensors = {name: value for name, value in tensors.items() if value.dim()}
        torch.save(tensors, folder / "pytorch_model.bin")


def main() -> None:
    """Make, train, save, and ask."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    folder = Path(settings["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    separate = settings["variant"] == "separate"
    size = len(vocabularies(settings, folder))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    more = {"target_vocab_file": str(folder / "target_vocab.json")} if separate else {}
    tokenizer = MarianTokenizer(
        *files, source_lang="en", target_lang="de", separate_vocabs=separate, **more
    )
    model = build(settings, size).train()
    pairs = [
        (tokenizer(source).input_ids, tokenizer(text_target=target).input_ids)
        for source, target in corpus.read_pairs(settings, "train")
    ]
    call = logits(model, size - 1)
    pads = (size - 1, size - 1)
    if settings["variant"] != "float16":
        zero_padding(model)
    loss = torch_model.train(
        call, model.parameters(), pairs, size - 1, pads, settings["updates"], settings["rate"],
        (lambda: None) if settings["variant"] == "float16" else lambda: zero_padding(model),
    )  # fmt: skip
    print(f"{settings['variant']}: loss {loss:.3f}", file=sys.stderr)
    save(model, tokenizer, folder, settings["variant"])
    loaded = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    sources = [pair[0] for pair in corpus.read_pairs(settings, "test")][: settings["sentences"]]
    if not separate:
        sources = [f"{TAGS[0]} {line}" if n % 4 == 0 else line for n, line in enumerate(sources)]

    def tokens(ids: list[int]) -> list[str]:
        return [tokenizer.decoder[number] for number in ids]

    found = transformers_search.ask(
        settings, loaded, logits(loaded, size - 1), sources, tokenizer, tokens
    )
    answers.write(Path(settings["answers"]), {"peer": "Hugging Face MarianMT", **found})


if __name__ == "__main__":
    main()
