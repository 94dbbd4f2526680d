"""Marian in the conversion proof: ``python marian.py SETTINGS``.

Makes a model with the folder of an OPUS-MT release: npz, vocabulary, SentencePiece models and
decoder.yml. Marian trains it; then norms and biases are perturbed and it trains on. Variants:

- shared: one vocabulary and one matrix for both sides and the output, swish, as OPUS-MT
- separate: two vocabularies, own output matrix, ReLU, one decoder layer
- pre: norm before each sublayer. Marian's own search does not normalise keys and values of the
  decoder's self-attention after the first position, so only first tokens can be compared.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import answers
import corpus
import numpy as np
import pieces
import pymarian
import sentencepiece

_NORMS = re.compile(r"_(ln_scale|ln_bias)(_pre)?$|_b[12qkvo]$|_out_b$")
_LINE = re.compile(r"(\d+) \|\|\| (.*) \|\|\| WordScores= (.*) \|\|\| F0= (\S+) \|\|\| (\S+)$")

OPTIONS = {
    "shared": ["--tied-embeddings-all", "--dec-depth", "2"],
    "separate": ["--dec-depth", "1", "--transformer-ffn-activation", "relu"],
    "pre": [
        *("--tied-embeddings-all", "--dec-depth", "2", "--transformer-preprocess", "n"),
        *("--transformer-postprocess", "da", "--transformer-postprocess-top", "n"),
    ],
}


def vocabularies(settings: dict[str, Any], folder: Path) -> tuple[list[Any], list[str]]:
    """Write SentencePiece models and vocabularies; return the models and the vocabularies."""
    pairs, models, own = corpus.read_pairs(settings, "train"), [], []
    for index, side in enumerate(("source", "target")):
        proto = pieces.train_sentencepiece(
            [pair[index] for pair in pairs], settings["pieces"], settings["rule"]
        )
        (folder / f"{side}.spm").write_bytes(proto)
        model = sentencepiece.SentencePieceProcessor(model_proto=proto)
        models.append(model)
        own.append([model.id_to_piece(number) for number in range(3, model.get_piece_size())])
    if settings["variant"] == "separate":
        tables = {"source.vocab.yml": own[0], "target.vocab.yml": own[1]}
    else:
        tables = {"vocab.yml": list(dict.fromkeys([*own[0], *own[1]]))}
    for name, table in tables.items():
        entries = ["</s>", "<unk>", *table]
        lines = (f"{json.dumps(piece, ensure_ascii=False)}: {n}" for n, piece in enumerate(entries))
        pieces.write_lines(folder / name, lines)
    names = list(tables)
    return models, [names[0], names[-1]]


def train(
    settings: dict[str, Any], folder: Path, model: Path, vocabs: list[str], more: list[str]
) -> None:
    """Let Marian train a model."""
    command = [
        *(sys.executable, "-m", "pymarian", "--type", "transformer", "--model", str(model)),
        *("--train-sets", str(folder / "cut.source"), str(folder / "cut.target")),
        *("--vocabs", *(str(folder / name) for name in vocabs)),
        *("--dim-emb", str(settings["d_model"]), "--enc-depth", "2", "--transformer-heads", "4"),
        *("--transformer-dim-ffn", str(2 * settings["d_model"]), "--max-length", "100"),
        *("--transformer-postprocess-emb", "d", "--mini-batch", "32", "--cpu-threads", "1"),
        *("-w", "400", "--seed", str(settings["seed"]), "--learn-rate", "0.003"),
        *("--lr-warmup", "20", "--overwrite", "--quiet", "--no-shuffle", *more),
        *("--transformer-postprocess", "dan") * (settings["variant"] != "pre"),
        *OPTIONS[settings["variant"]],
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if not model.is_file():
        raise SystemExit(f"Marian trained no model:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def perturb(old: Path, new: Path, seed: int) -> None:
    """Copy a model with norms and biases moved away from 1 and 0."""
    dice = np.random.default_rng(seed)
    with np.load(old, allow_pickle=False) as file:
        tensors = {name: file[name] for name in file.files}
    for name in sorted(tensors):
        if _NORMS.search(name):
            noise = dice.normal(0, 0.2, tensors[name].shape).astype(np.float32)
            tensors[name] = tensors[name] + noise
    np.savez(new, **tensors)


def decoder_file(folder: Path, vocabs: list[str]) -> None:
    """Write decoder.yml as in OPUS-MT's releases."""
    lines = ["relative-paths: true", "models:", "  - model.npz", "vocabs:"]
    lines += [f"  - {name}" for name in vocabs]
    lines += ["beam-size: 4", "normalize: 1", "word-penalty: 0", "mini-batch: 1", "maxi-batch: 1"]
    pieces.write_lines(folder / "decoder.yml", [*lines, "maxi-batch-sort: src"])


def translate(folder: Path, vocabs: list[str], lines: list[str], beam: int) -> list[list[Any]]:
    """Return Marian's n-best list of each line of pieces: pieces, word scores, score."""
    engine = pymarian.Translator(
        f"--models {folder / 'model.npz'} --vocabs {' '.join(str(folder / v) for v in vocabs)} "
        f"--n-best --word-scores --normalize 1 --beam-size {beam} --cpu-threads 1 --quiet "
        "--mini-batch 16 --maxi-batch 1 --max-length 200"
    )
    found: list[list[Any]] = [[] for _ in lines]
    for line in engine.translate("\n".join(lines)).split("\n"):
        if match := _LINE.match(line):
            numbers = [float(word) for word in match[3].split()]
            found[int(match[1])].append((match[2].split(), numbers, float(match[5])))
    return found


def ask(
    settings: dict[str, Any], folder: Path, models: list[Any], vocabs: list[str]
) -> answers.Answers:
    """Return the numbers of the model."""
    sources = [pair[0] for pair in corpus.read_pairs(settings, "test")][: settings["sentences"]]
    cut = [models[0].encode(line, out_type=str) for line in sources]
    lines = [" ".join(row) for row in cut]
    first = settings["variant"] == "pre"
    greedy, n_best = [], []
    for (words, numbers, _), *_ in translate(folder, vocabs, lines, 1):
        ended = len(numbers) == len(words) + 1
        words = words[:1] if first else words
        greedy.append(answers.greedy(words, models[1].decode(words), ended and not first))
    for row in translate(folder, vocabs, lines[: settings["n_best_sentences"]], settings["beam"]):
        own = []
        for words, numbers, score in row:
            if first:
                words, numbers = words[:1], numbers[:1]
            ended = len(numbers) == len(words) + 1
            own.append(answers.hypothesis(words, numbers, score, ended))
        n_best.append(own)
    return {
        "peer": "Marian",
        "variant": settings["variant"],
        "versions": answers.versions(["pymarian"]),
        "first_tokens": first,
        # The longest translation has three times the tokens of the source.
        "search": {"beam": settings["beam"], "alpha": 1.0, "length_penalty": "power", "factor": 3},
        "sources": sources,
        "source_tokens": cut,
        "n_best": n_best,
        "greedy": greedy,
    }


def main() -> None:
    """Make, train, perturb, train on, and ask."""
    settings = json.loads(sys.argv[1])
    folder, work = Path(settings["folder"]), Path(settings["text"])
    folder.mkdir(parents=True, exist_ok=True)
    models, vocabs = vocabularies(settings, folder)
    for name in vocabs:
        (work / name).write_bytes((folder / name).read_bytes())
    for index, side in enumerate(("source", "target")):
        pairs = corpus.read_pairs(settings, "train")
        cut = models[index].encode([pair[index] for pair in pairs], out_type=str)
        pieces.write_lines(work / f"cut.{side}", map(" ".join, cut))
    first, second, last = (work / f"{name}.npz" for name in ("first", "second", "last"))
    train(settings, work, first, vocabs, ["--after-batches", "40"])
    perturb(first, second, settings["seed"])
    updates = ["--after-batches", str(settings["updates"])]
    train(settings, work, last, vocabs, [*updates, "--pretrained-model", str(second)])
    (folder / "model.npz").write_bytes(last.read_bytes())
    decoder_file(folder, vocabs)
    answers.write(Path(settings["answers"]), ask(settings, folder, models, vocabs))


if __name__ == "__main__":
    main()
