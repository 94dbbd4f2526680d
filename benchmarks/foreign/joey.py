"""JoeyNMT in the conversion proof: ``python joey.py SETTINGS``.

Makes a model folder as JoeyNMT writes it: config.yaml, vocabularies, checkpoint. Variants:

- pre: norm before each sublayer; SentencePiece; one matrix for both sides and the output
- post: norm after each sublayer; subword-nmt; one matrix for both sides and the output
- unset: no ``layer_norm`` in config.yaml; words; two vocabularies, own output matrix
"""

from __future__ import annotations

import json
import logging
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
import yaml  # noqa: E402
from joeynmt.batch import Batch  # noqa: E402
from joeynmt.config import _check_special_symbols  # noqa: E402
from joeynmt.model import build_model  # noqa: E402
from joeynmt.search import search  # noqa: E402
from joeynmt.tokenizers import build_tokenizer  # noqa: E402
from joeynmt.vocabulary import build_vocab  # noqa: E402

UNK, PAD, START, END = 0, 1, 2, 3
LANGUAGES = ("en", "de")
ALPHA = 1.0


def data_section(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the files of the tokenizers and vocabularies; return config.yaml's section."""
    pairs = corpus.read_pairs(settings, "train")
    sides = [[pieces.spaced(pair[index]) for pair in pairs] for index in (0, 1)]
    level, more = "bpe", {}
    if settings["variant"] == "pre":
        both = [pair[index] for index in (0, 1) for pair in pairs]
        ids = {"unk_id": UNK, "pad_id": PAD, "bos_id": START, "eos_id": END}
        proto = pieces.train_sentencepiece(both, 2 * settings["pieces"], settings["rule"], **ids)
        (folder / "joint.model").write_bytes(proto)
        import sentencepiece

        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        tokens = [[model.id_to_piece(n) for n in range(4, model.get_piece_size())]] * 2
        more = {"tokenizer_type": "sentencepiece", "tokenizer_cfg": {"model_file": "joint.model"}}
    elif settings["variant"] == "post":
        codes = pieces.learn_codes([*sides[0], *sides[1]], settings["pieces"])
        pieces.write_lines(folder / "codes.txt", ["#version: 0.2", *map(" ".join, codes.pairs)])
        rows = [pieces.continued(codes.apply(line)) for side in sides for line in side]
        # Single characters too, so that any word of these can be spelled.
        spelled = [pieces.continued([one, f"{one}</w>"]) for row in rows for one in "".join(row)]
        tokens = [[token for token, _ in pieces.by_frequency([*rows, *spelled])]] * 2
        more = {"tokenizer_type": "subword-nmt", "tokenizer_cfg": {"codes": "codes.txt"}}
    else:
        level = "word"
        tokens = [
            [token for token, _ in pieces.by_frequency(line.split() for line in side)]
            for side in sides
        ]
    section: dict[str, Any] = {"train": "", "dev": "", "test": "", "dataset_type": "stream"}
    for side, language, own in zip(("src", "trg"), LANGUAGES, tokens, strict=True):
        name = f"{side}_vocab.txt"
        pieces.write_lines(folder / name, ["<unk>", "<pad>", "<s>", "</s>", *own])
        section[side] = {"lang": language, "level": level, "lowercase": False, "voc_file": name}
        section[side] |= json.loads(json.dumps(more))  # a copy: YAML would write an alias
    return section


def write_config(settings: dict[str, Any], folder: Path) -> None:
    """Write config.yaml."""
    width, variant = settings["d_model"], settings["variant"]
    part = {
        "type": "transformer",
        "num_layers": 2,
        "num_heads": 4,
        "embeddings": {"embedding_dim": width, "scale": True, "dropout": 0.0},
        "hidden_size": width,
        "ff_size": 2 * width,
        "dropout": 0.0,
    }
    if variant != "unset":
        part["layer_norm"] = variant
    tied = variant != "unset"
    decoder = json.loads(json.dumps(part)) | ({} if tied else {"num_layers": 1})
    beam = {"beam_size": settings["beam"], "beam_alpha": ALPHA}
    config = {
        "name": "small",
        "joeynmt_version": "2.3.0",
        "model_dir": ".",
        "use_cuda": False,
        "data": data_section(settings, folder),
        "testing": {**beam, "max_output_length": settings["most"], "eval_metrics": ["bleu"]},
        "training": {"random_seed": settings["seed"]},
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": tied,
            "tied_softmax": tied,
            "encoder": part,
            "decoder": decoder,
        },
    }
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
    (folder / "config.yaml").write_text(text, encoding="utf-8")


def load(folder: Path) -> tuple[Any, dict[str, Any], tuple[Any, Any]]:
    """Build the model of config.yaml; return it with tokenizers and vocabularies."""
    from types import SimpleNamespace

    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    data = config["data"]
    data["special_symbols"] = SimpleNamespace(**_check_special_symbols({}))
    for side in ("src", "trg"):
        data[side]["voc_file"] = str(folder / data[side]["voc_file"])
        for key, value in data[side].get("tokenizer_cfg", {}).items():
            data[side]["tokenizer_cfg"][key] = str(folder / value)
    vocabs = build_vocab(data, model_dir=folder)
    tokenizers = build_tokenizer(data)
    for language, vocab in zip(LANGUAGES, vocabs, strict=True):
        tokenizers[language].set_vocab(vocab)
    return build_model(config["model"], *vocabs), tokenizers, vocabs


def logits(model: Any) -> torch_model.Logits:
    """Return the model as a function."""

    def call(source: Any, inputs: Any) -> Any:
        mask = (source != PAD).unsqueeze(1)
        lengths = (source != PAD).sum(1)
        encoded, hidden, _, _ = model(
            return_type="encode", src=source, src_length=lengths, src_mask=mask
        )
        return model(
            return_type="decode",
            trg_input=inputs,
            encoder_output=encoded,
            encoder_hidden=hidden,
            src_mask=mask,
            unroll_steps=None,
            decoder_hidden=None,
            trg_mask=(inputs != PAD).unsqueeze(1),
        )[0]

    return call


def _tokens(tokenizer: Any, line: str) -> list[str]:
    return tokenizer(tokenizer.pre_process(line))


def ask(settings: dict[str, Any], folder: Path) -> answers.Answers:
    """Return the numbers of the saved model."""
    model, tokenizers, (vocab, target) = load(folder)
    state = torch.load(folder / "best.ckpt", weights_only=True)["model_state"]
    model.load_state_dict(state)
    model.eval()
    pairs = corpus.read_pairs(settings, "test")[: settings["sentences"]]
    sources = [pair[0] for pair in pairs]
    if settings["variant"] != "pre":
        sources = [pieces.spaced(line) for line in sources]
    found: answers.Answers = {"source_tokens": [], "n_best": [], "greedy": []}
    for number, line in enumerate(sources):
        tokens = _tokens(tokenizers["en"], line)
        found["source_tokens"].append(tokens)
        batch = _batch(vocab.sentences_to_ids([tokens], bos=False, eos=True))
        own, ended = _cut(search(model, batch, settings["most"], 1, -1)[0][0].tolist())
        words = [target._itos[one] for one in own[: len(own) - ended]]
        text = tokenizers["de"].post_process(list(words)) if words else ""
        found["greedy"].append(answers.greedy(words, text, ended))
        if number < settings["n_best_sentences"]:
            found["n_best"].append(_n_best(settings, model, batch, target._itos))
    return {
        "peer": "JoeyNMT",
        "words": settings["variant"] != "pre",
        "variant": settings["variant"],
        "versions": answers.versions(["joeynmt", "torch"]),
        "search": {
            "beam": settings["beam"],
            "alpha": ALPHA,
            "length_penalty": "gnmt",
            "most": settings["most"],
        },
        "sources": sources,
        **found,
    }


def _batch(encoded: tuple[Any, Any, Any]) -> Any:
    """Return the batch of one sentence, from its padded ids and lengths."""
    ids, lengths, _ = encoded
    return Batch(
        src=torch.tensor(ids),
        src_length=torch.tensor(lengths),
        src_prompt_mask=None,
        trg=None,
        trg_prompt_mask=None,
        indices=torch.tensor([0]),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=END,
        is_train=False,
    )


def _n_best(
    settings: dict[str, Any], model: Any, batch: Any, names: list[str]
) -> list[answers.Answers]:
    """Return the n-best list of one sentence."""
    beam = settings["beam"]
    rows, scores, _ = search(model, batch, settings["most"], beam, ALPHA, beam, return_prob="hyp")
    found = [(*_cut(row), score) for row, (score,) in zip(rows.tolist(), scores, strict=True)]
    # A list that is too short is filled up with one unknown token.
    found = [one for one in found if one[1] or len(one[0]) > 1]
    ids = [own for own, _, _ in found]
    forced = torch_model.forced(logits(model), batch.src[0].tolist(), ids, START, PAD)
    return [
        answers.hypothesis([names[one] for one in own[: len(own) - ended]], numbers, score, ended)
        for (own, ended, score), numbers in zip(found, forced, strict=True)
    ]


def _cut(row: list[int]) -> tuple[list[int], bool]:
    """Return the ids with END but without padding, and whether they end."""
    if END in row:
        return row[: row.index(END) + 1], True
    return [one for one in row if one != PAD], False


def main() -> None:
    """Make, train, save, and ask."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(settings["seed"])
    folder = Path(settings["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    write_config(settings, folder)
    model, tokenizers, vocabs = load(folder)
    torch_model.perturb(model)
    prepared = pieces.spaced if settings["variant"] != "pre" else str
    pairs = [
        tuple(
            vocab.sentences_to_ids([_tokens(tokenizers[name], prepared(text))], bos=False)[0][0]
            for name, vocab, text in zip(LANGUAGES, vocabs, pair, strict=True)
        )
        for pair in corpus.read_pairs(settings, "train")
    ]
    loss = torch_model.train(
        logits(model), model.parameters(), pairs, START, (PAD, PAD), settings["updates"],
        settings["rate"],
    )  # fmt: skip
    print(f"{settings['variant']}: loss {loss:.3f}", file=sys.stderr)
    corpus.write_words(settings, lambda _, line: pieces.spaced(line).split())
    state = {"steps": settings["updates"], "model_state": model.state_dict()}
    torch.save({**state, "optimizer_state": {}, "best_ckpt_score": 0.0}, folder / "best.ckpt")
    answers.write(Path(settings["answers"]), ask(settings, folder))
    if settings.get("short_tables"):
        # The two tables of 5,000 sinusoids, which JoeyNMT computes, are most of a small file.
        content = torch.load(folder / "best.ckpt", weights_only=True)
        for name in ("encoder.pe.pe", "decoder.pe.pe"):
            content["model_state"][name] = content["model_state"][name][:, :8].clone()
        torch.save(content, folder / "best.ckpt")


if __name__ == "__main__":
    main()
