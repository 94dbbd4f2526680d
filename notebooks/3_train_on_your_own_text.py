# %% [markdown]
# # 3 Train on your own text
#
# From two text files to a BLEU score: this notebook looks at the data, trains, is interrupted,
# resumes, measures, and then looks for the mistakes that a falling loss hides. At the end the
# model is adapted to a second, much smaller domain (*fine-tuning*).
#
# The text is English and Chinese, part of the corpus in the package, so nothing is downloaded. It
# is written to files first, the way yours would be: **replace the files and the rest stays the
# same**.
#
# **Afterwards you can** check a corpus before training, read a run folder, tell which BLEU you are
# looking at, find out whether a model uses its source, and adapt a model to 400 sentences.
#
# In each section there is a question first. Write down your guess, then run the cell.

# %% tags=["skip-execution"]
# Skip this cell where the package is installed. It replaces nothing that Colab ships; red lines
# about other packages are harmless.
# %pip install "keras-translate[plots]"

# %% tags=["setup"]
MINUTES = 4  # on two CPU cores

import os
import sys

if "tensorflow" in sys.modules and "keras_transformer" not in sys.modules:
    print("TensorFlow was imported before the installation: choose Runtime → Restart session.")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no messages of TensorFlow's C++ part

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import keras_transformer as kt

QUICK = os.environ.get("NOTEBOOK_QUICK") == "1"  # small sizes, for tests
COLORS = {"Q": "#7b3fa0", "K": "#d9822b", "V": "#1f78b4"}  # the same in all pictures
plt.rcParams.update({"figure.dpi": 80, "figure.constrained_layout.use": True, "font.size": 10})
np.set_printoptions(precision=4, suppress=True)
keras.utils.set_random_seed(0)
gpus = tf.config.list_physical_devices("GPU")
print(f"Python {sys.version.split()[0]}, TensorFlow {tf.__version__}, Keras {keras.__version__}")
print(f"{len(gpus)} GPUs, {os.cpu_count()} CPU cores; about {MINUTES} min on two cores, no GPU")

# %%
import json
import math
import random
import re
import shlex
import subprocess
from pathlib import Path

from keras_transformer import visualize
from keras_transformer.data import phrasebook

tf.get_logger().setLevel("ERROR")  # each translator compiles its search; TensorFlow counts them


def shell(command, status=0, interrupt_at=None):
    """Run a command and show what it prints; stop it (SIGTERM) when it prints ``interrupt_at``."""
    print(f"$ {command}", flush=True)
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    ) as process:
        for line in process.stdout:
            print(re.sub(r"^[\d-]+ [\d:]+ ", "", line), end="", flush=True)
            if interrupt_at and interrupt_at in line:
                process.terminate()
                interrupt_at = None
    assert process.returncode == status, f"exit status {process.returncode}, expected {status}"


# %% [markdown]
# `shell` runs a command as a terminal does, and stops the notebook if it fails. The commands work
# unchanged in a terminal; in a notebook of your own you can also write `!python -m …`.
#
# ## 1 Two files, line by line
#
# Parallel text is two files. Line 17 of one is the translation of line 17 of the other. Three
# pairs of files are needed: *train* to learn from, *dev* to see progress, *test* for the score at
# the end.
#
# The general corpus here has sentences of up to six words. All sentences that name a city go into
# a corpus of their own, for later: the first model never sees *Paris*.

# %%
CITIES = (
    "Beijing|Shanghai|Guangzhou|Nanjing|Hangzhou|Chengdu|Hong Kong|London|Paris|New York|Tokyo|"
    "Berlin|Rome|Moscow|Singapore"
)


def names_a_city(pair):
    return re.search(CITIES, pair[0]) is not None


def is_short(pair):
    return len(pair[0].split()) <= 6


def write(name, pairs):
    """Write two files, a sentence a line."""
    Path("data").mkdir(exist_ok=True)
    for language, side in (("en", 0), ("zh", 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        Path(f"data/{name}.{language}").write_text(text, encoding="utf-8")
    print(f"data/{name}.en, data/{name}.zh: {len(pairs):,} lines")


everything = [pair for part in phrasebook.SPLITS for pair in phrasebook.pairs(part)]
cities = [pair for pair in everything if names_a_city(pair)]
general = {
    part: [pair for pair in phrasebook.pairs(part) if is_short(pair) and not names_a_city(pair)]
    for part in phrasebook.SPLITS
}
random.Random(1).shuffle(cities)

write("train", general["train"])
write("dev", general["dev"])
write("test", general["test"][: 20 if QUICK else None])
write("cities-train", cities[:400])
write("cities-dev", cities[400:600])
write("cities-test", cities[600:800])
print()
for english, chinese in general["train"][:6]:
    print(f"{english:<45} {chinese}")

# A sentence of the test files must not be in the training files.
assert not {english for english, _ in general["train"]} & {
    english for english, _ in general["test"]
}

# %% [markdown]
# **Your own text.** Put `train.xx`, `train.yy`, `dev.xx`, `dev.yy`, `test.xx`, `test.yy` into
# `data/` and write your two codes instead of `en` and `zh` below. From Google Drive:
#
# ```python
# from google.colab import drive
#
# drive.mount("/content/drive")
# !cp /content/drive/MyDrive/corpus/* data/
# ```
#
# A table with two columns (`.tsv`) works too: `--data.train data/train.tsv`. A thousand pairs show
# that everything works, ten thousand give a toy, some hundred thousand a translator.
#
# ## 2 Look before you train
#
# The most expensive mistake costs nothing to find: lines that do not belong together. One missing
# line at the top shifts everything below it.
#
# **Predict:** Long sentences have long translations. If one file is shifted by a single line, what
# happens to the picture of length against length?

# %%
lengths = np.array([(len(english), len(chinese)) for english, chinese in general["train"]])
random_order = np.random.default_rng(0).permutation(len(lengths))[:2000]
source, target = lengths[random_order].T
shifted = lengths[(random_order + 1) % len(lengths), 1]

figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
jitter = np.random.default_rng(0).uniform(-0.4, 0.4, (2, len(source)))
correlations = []
for axes, heights, title in zip(panels, (target, shifted), ("paired", "shifted"), strict=True):
    correlations.append(np.corrcoef(source, heights)[0, 1])
    axes.scatter(source + jitter[0], heights + jitter[1], s=4, alpha=0.3)
    axes.set(title=f"{title}: correlation {correlations[-1]:.2f}", xlabel="characters, English")
panels[0].set_ylabel("characters, Chinese")
plt.show()

print("lengths in characters, median and longest:")
print("   English", int(np.median(lengths[:, 0])), lengths[:, 0].max())
print("   Chinese", int(np.median(lengths[:, 1])), lengths[:, 1].max())
assert correlations[0] > 0.5 > 0.2 > abs(correlations[1])

# %% [markdown]
# The two histograms of lengths would be the same for both: only the correlation shows the shift.
#
# ## 3 From text to tokens
#
# A vocabulary is learned from the training text: frequent words become one token, rare ones several
# *subword pieces*, and what remains is spelled in bytes.
#
# **Predict:** The model has never seen *triceratops*, nor an emoji. Will they become "unknown"?

# %%
config = kt.DataConfig(vocabulary_size=1_500)
tokenizer = kt.Tokenizer.train(*zip(*general["train"], strict=True), config)
MINE = "I like your new car."  # write your own sentence here

for text in (MINE, "The triceratops is happy.", "I like you 😀.", "我喜欢你的新汽车。"):
    (ids,) = tokenizer.source.encode([text])
    print(f"{text}\n    {' '.join(tokenizer.source.pieces(ids))}")
    assert 1 not in ids  # 1 is the id of "unknown"
    assert tokenizer.source.decode([ids]) == [text]  # nothing is lost

# %% [markdown]
# `▁` marks a space before the piece. *triceratops* is split into short pieces, the emoji into its
# four bytes: with byte fallback no text is unknown, and decoding returns exactly what went in. One
# vocabulary serves both languages, so one embedding matrix can serve all three places (section 3.4
# of the paper).
#
# If your own sentence is split into single letters, your vocabulary is too small or was learned
# from another kind of text.
#
# ## 4 Train, and be interrupted
#
# A small network: two layers on each side, 128 wide. Sessions in Colab end without warning, and so
# does this one: SIGTERM arrives in the middle.
#
# **Predict:** With V tokens in the vocabulary and random weights, what is the first loss? And how
# many times will the model see each sentence?

# %%
STEPS, EVERY, WARMUP = (30, 10, 10) if QUICK else (800, 100, 200)
LAYERS, SENTENCES = (1, 20) if QUICK else (2, 200)
OPTIONS = (
    f"--preset demo --model.encoder_layers {LAYERS} --model.decoder_layers {LAYERS}"
    f" --data.vocabulary_size 1500 --train.dev_sentences {SENTENCES} --train.batch_tokens 1024"
    f" --train.max_steps {STEPS} --train.warmup_steps {WARMUP}"
    f" --train.checkpoint_every {EVERY} --train.log_every {EVERY // 2} --train.keep_best 10"
)
shell(
    f"python -m keras_transformer.train {OPTIONS}"
    " --data.train data/train --data.dev data/dev --data.source en --data.target zh"
    " --run runs/first",
    interrupt_at=f"step {2 * EVERY + EVERY // 2}/",
    status=143,
)

# %% [markdown]
# The run saved its weights, the optimizer and the position in the data before it ended. First, the
# answers to the question:

# %%
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.training.loss import token_losses

run = kt.Run.open(Path("runs/first"))
prepared = run.prepared(log=lambda line: None)
plan = BatchPlan(
    prepared.train.source_lengths,
    prepared.train.target_lengths,
    run.config.train.batch_tokens,
    run.config.train.seed,
)
batch = prepared.train.batch(plan.epoch(0)[0])  # the very first batch of the run


def loss_per_token(model, batch):
    """Return the mean of -log P(label) over the real tokens of a batch, in nats."""
    logits = model({"source": batch["source"], "target": batch["target"]}, training=False)
    return float(np.sum(token_losses(logits, batch["labels"])) / np.sum(batch["labels"] != 0))


V = run.config.model.target_vocabulary_size
untrained = kt.build(run.config.model)
first_loss = loss_per_token(untrained, batch)
print(f"first loss {first_loss:.2f}, ln {V} = {math.log(V):.2f}")
each = plan.batches_per_epoch
print(f"{each} batches an epoch: {STEPS / each:.1f} epochs in all, {WARMUP / each:.1f} of warm-up")

assert abs(first_loss - math.log(V)) < 1
assert WARMUP < STEPS  # else the learning rate only rises

# %% [markdown]
# With random weights every token has a probability of about 1/V, and the loss is about ln V. A
# first loss of 50 means wrongly scaled weights; a first loss far below ln V means that the labels
# leak.
#
# Count the warm-up in epochs too. The paper's 4,000 steps are 4 % of its training; on a small
# corpus they may be longer than the whole run, and then the rate only rises.
#
# ## 5 Three pairs from inside a batch
#
# Between your files and the network lie cleaning, tokenizer, sorting and padding. Decode what
# really arrives.
#
# **Predict:** Which of these would a falling loss hide: swapped languages, a missing end token, a
# target that is shifted twice?

# %%
for row in range(3):
    source, target, labels = (batch[name][row] for name in ("source", "target", "labels"))
    print("source ", tokenizer.source.decode([source.tolist()])[0])
    print("labels ", tokenizer.target.decode([labels.tolist()])[0])
    pieces = run.tokenizer().target.pieces
    print("    source:", *pieces(source))
    print("    input: ", *pieces(target))
    print("    labels:", *pieces(labels))

names = ("source", "target", "labels")
print({name: batch[name].shape for name in names}, "are (B, S), (B, T), (B, T)")
real = batch["labels"] != 0
assert np.all(batch["target"][:, 0] == 2)  # 2: start token
assert np.all((batch["labels"] == 3).sum(axis=1) == 1)  # 3: one end token in each row
assert np.all(batch["target"][:, 1:][real[:, 1:]] == batch["labels"][:, :-1][real[:, 1:]])

# %% [markdown]
# All of them. With swapped languages the loss falls as well, only the translations are nonsense. A
# published example had this mistake, and its curve did not show it.
#
# ## 6 Four sentences, three times
#
# Four fixed sentences follow the training from here on. Their translations say more than a number.
# The last one names a city.


# %%
FIXED = [
    "I love you.",
    "She does not like these movies.",
    "Will Tom buy a car tomorrow?",
    "He lives in Paris.",
]
stages, loaded = {}, {}


def load(folder, again=False):
    """Return the translator of a run; loading it compiles its search, so it is kept."""
    if again or folder not in loaded:
        loaded[folder] = kt.Translator.from_run(Path(folder))
    return loaded[folder]


def look(folder, stage, again=True):
    """Translate the four sentences, print them and draw where each translation looked."""
    found = load(folder, again).translate(FIXED, attention=True)
    stages[stage] = found
    for text, translation in zip(FIXED, found, strict=True):
        print(f"{text:<34} {translation.text[:30]}   (score {translation.score:.2f})")
    with visualize.use_fonts():
        figure, panels = plt.subplots(2, 2, figsize=(8, 7.6))
        figure.suptitle(f"{stage}: rows translation (queries), columns source (keys)")
        for axes, translation in zip(panels.flat, found, strict=True):
            attention = translation.attention
            rows = attention.target[:12]  # an untrained model may not know when to stop
            axes.imshow(attention.weights[:12], cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_xticks(range(len(attention.source)), attention.source, rotation=60, ha="right")
            axes.set_yticks(range(len(rows)), rows)
        plt.show()
    for translation in found:
        assert np.allclose(translation.attention.weights.sum(axis=1), 1, atol=1e-5)


look("runs/first", "interrupted")

# %% [markdown]
# Chinese characters, even Chinese sentences, but only partly the right ones. Where the map is
# sharp, the word is often right; where it is pale, the decoder writes what Chinese usually looks
# like.
#
# ## 7 Resume
#
# **Predict:** The optimizer, the learning rate, the position in the data and the dropout: which of
# them must be restored so that the run equals one without interruption?

# %%
shell("python -m keras_transformer.train --resume --run runs/first")
look("runs/first", "finished")

# %% [markdown]
# All of them, and they are: a resumed run equals an uninterrupted one to the last bit.
#
# ## 8 The run folder, file by file
#
# Everything about a run is in its folder, and every later command needs nothing else.

# %%
ABOUT = {
    "config.yaml": "the resolved configuration: every option with its value",
    "versions.json": "versions of the libraries, devices of the last session",
    "tokenizer": "the vocabulary, a SentencePiece model",
    "data": "encoded pairs and the report of the cleaning",
    "log.txt": "the printed lines",
    "metrics.jsonl": "a record for each checkpoint: loss, perplexity, BLEU",
    "steps.jsonl": "a record every few steps: loss, rate, gradient norm",
    "curves.png": "the curves of both",
    "checkpoints": "weights, optimizer and dropout state, to resume",
    "best.weights.h5": "the best weights on dev: these translate",
    "best": "weights of each checkpoint, because of --train.keep_best",
    "dev.translations.txt": "the dev set, translated by the best weights",
}
found = {path.name for path in run.path.iterdir() if not path.name.startswith(".")}
for name, meaning in ABOUT.items():
    path = run.path / name
    files = [item for item in path.rglob("*") if item.is_file()] if path.is_dir() else [path]
    size = sum(item.stat().st_size for item in files if item.exists())
    print(f"{name:<21} {size / 1000:8,.0f} kB  {meaning}")
assert found <= set(ABOUT), found - set(ABOUT)

records = [json.loads(line) for line in (run.path / "metrics.jsonl").open(encoding="utf-8")]
checkpoints = [record for record in records if "averaged" not in record]
print("\na record of metrics.jsonl:")
for key, value in checkpoints[-1].items():
    print(f"    {key}: {value:.4g}" if isinstance(value, float) else f"    {key}: {value}")

# %% [markdown]
# `curves.png` is drawn for you. Here are the same records, drawn by hand.

# %%
steps = [json.loads(line) for line in (run.path / "steps.jsonl").open(encoding="utf-8")]
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3))
at = [record["step"] for record in checkpoints]
left.plot([record["step"] for record in steps], [record["train_loss"] for record in steps])
left.plot(at, [record["dev_loss"] for record in checkpoints], "o")
left.axhline(math.log(V), color="gray", linestyle=":")
left.set(title="loss; dots: dev; dotted: ln V", xlabel="step")
middle.plot(at, [record["dev_bleu"] for record in checkpoints], "o-", color="tab:green")
middle.set(title="dev BLEU", xlabel="step")
right.plot([record["step"] for record in steps], [record["learning_rate"] for record in steps])
right.axvline(WARMUP, color="gray", linestyle=":")
right.set(title="learning rate; dotted: warm-up", xlabel="step")
plt.show()

rates = [record["learning_rate"] for record in steps]
assert steps[-1]["train_loss"] < steps[0]["train_loss"]
assert rates[-1] < max(rates)  # the warm-up is over
assert checkpoints[-1]["step"] == STEPS

# %% [markdown]
# ## 9 BLEU, and which
#
# `evaluate` translates held-out text and compares it with the references.
#
# **Predict:** Chinese has no spaces. If BLEU counts words between spaces, is the score of the same
# translations higher or lower than with characters?

# %%
shell(
    "python -m keras_transformer.evaluate --run runs/first --source data/test.en"
    " --reference data/test.zh --output test.zh"
)

# %%
import sacrebleu

hypotheses = Path("test.zh").read_text(encoding="utf-8").splitlines()
references = Path("data/test.zh").read_text(encoding="utf-8").splitlines()
bleus = {}
for tokenize in ("zh", "char", "13a"):
    metric = sacrebleu.BLEU(tokenize=tokenize)
    bleus[tokenize] = metric.corpus_score(hypotheses, [references]).score
    print(f"BLEU {bleus[tokenize]:6.2f}    {metric.get_signature()}")

assert bleus["13a"] < bleus["zh"]

# %% [markdown]
# The same lines, three scores. `13a` splits at spaces, so a Chinese sentence is one or two words;
# BLEU counts n-grams of up to four words, finds no 4-gram, and is 0. `zh` separates the
# characters. `evaluate` takes it for Chinese and prints the signature: a BLEU without its
# signature cannot be compared.
#
# A score this high does not mean that the model knows Chinese. The corpus comes from sentence
# patterns, and the test set has the same patterns with other words. On real text of this size,
# expect 10 to 30.
#
# ## 10 Where it goes wrong, and how to see it
#
# ### Does it look at the source at all?
#
# A decoder can lower its loss without the source: it learns which words are frequent and which
# follow each other. The test: give each target the source of *another* sentence.
#
# **Predict:** Before training, after the interruption, at the end: where does the loss rise when
# the sources are shuffled?

# %%
dev = prepared.dev.batch(np.arange(min(400, len(prepared.dev))))
shuffled = {**dev, "source": np.roll(dev["source"], 1, axis=0)}

# %%
models = {"untrained": untrained}
weights_files = sorted(
    (run.path / "best").glob("*.h5"), key=lambda path: int(path.name.split(".")[0])
)
for path in (weights_files[0], weights_files[-1]):
    model = kt.build(run.config.model)
    model.load_weights(path)
    models[f"step {path.name.split('.')[0]}"] = model

losses = {
    name: (loss_per_token(model, dev), loss_per_token(model, shuffled))
    for name, model in models.items()
}
figure, axes = plt.subplots(figsize=(6, 2.8))
place = np.arange(len(losses))
for shift, index, title in ((-0.2, 0, "own source"), (0.2, 1, "another's source")):
    bars = axes.bar(place + shift, [pair[index] for pair in losses.values()], 0.4, label=title)
    axes.bar_label(bars, fmt="%.2f")
axes.set_xticks(place, losses)
axes.set(ylabel="loss per token, nats")
axes.margins(y=0.15)
axes.legend(frameon=False)
plt.show()

rise = {name: other - own for name, (own, other) in losses.items()}
print({name: round(value, 2) for name, value in rise.items()})
assert abs(rise["untrained"]) < 0.1
assert list(rise.values())[-1] == max(rise.values())
if not QUICK:
    assert list(rise.values())[-1] > 1

# %% [markdown]
# At the end the source of another sentence is worse than none: the model relies on it. If the loss
# of *your* model does not rise, its lines are not paired, or it has had far too few updates. The
# symptom is the same translation for every input.
#
# ### Loss good, BLEU bad
#
# During training the decoder reads the *right* previous words (teacher forcing). When it
# translates, it reads its own.
#
# **Predict:** At a checkpoint, 60 of 100 tokens are predicted correctly after a correct prefix.
# What share of six-token sentences is completely correct?

# %%
forced, model = [], kt.build(run.config.model)
for path in weights_files:
    model.load_weights(path)
    predicted = np.argmax(model({name: dev[name] for name in ("source", "target")}), axis=-1)
    forced.append(100 * np.mean((predicted == dev["labels"])[dev["labels"] != 0]))
at = [int(path.name.split(".")[0]) for path in weights_files]
bleu_at = {record["step"]: record["dev_bleu"] for record in checkpoints}

figure, axes = plt.subplots(figsize=(6, 2.8))
axes.plot(at, forced, "o-", label="correct tokens after a correct prefix, %")
axes.plot(at, [bleu_at[step] for step in at], "o-", label="BLEU of translations")
axes.set(xlabel="step", ylim=(0, 100))
axes.legend(frameon=False)
plt.show()

for step, accuracy in zip(at, forced, strict=True):
    print(
        f"step {step:>4}: {accuracy:5.1f} % of tokens, BLEU {bleu_at[step]:5.1f}, 0.01·p^6 = "
        f"{100 * (accuracy / 100) ** 6:5.1f} %"
    )
assert forced[0] > bleu_at[at[0]]

# %% [markdown]
# The probabilities multiply: 0.6 to the power of 6 is 5 of 100 sentences. A loss that looks fine
# can come with a BLEU of 0, so `train` prints both at each checkpoint.
#
# ### A wider beam, a worse translation
#
# A beam of 16 looks at more hypotheses than greedy search and finds more probable ones.
#
# **Predict:** a weak model, here one of the first checkpoints, without length penalty (α = 0). Is
# BLEU higher with a wider beam? Are the translations longer or shorter?

# %%
weak = kt.build(run.config.model)
weak.load_weights(weights_files[1])
pairs = general["dev"][:SENTENCES]
beams = {}
for beam in (1, 16) if QUICK else (1, 4, 16):
    translator = kt.Translator(
        weak, run.tokenizer(), kt.SearchConfig(beam=beam, alpha=0.0), run.config.data
    )
    texts = [item.text for item in translator.translate([english for english, _ in pairs])]
    expected = [chinese for _, chinese in pairs]
    bleu = sacrebleu.BLEU(tokenize="zh").corpus_score(texts, [expected]).score
    beams[beam] = bleu, sum(map(len, texts)) / sum(map(len, expected))
    print(f"beam {beam:>2}: BLEU {bleu:5.1f}, length {beams[beam][1]:.2f} of the references")

assert len(beams) > 1
if not QUICK:  # with quick sizes no beam knows when to stop
    assert beams[16][1] < beams[1][1]

# %% [markdown]
# Longer hypotheses have smaller probabilities, so the search prefers short ones, and a wider
# search finds more of them. Greedy search has the opposite weakness here: it may repeat itself and
# miss the end. The best beam is in between, and the length penalty (α = 0.6 by default) corrects
# the rest. A well-trained model shows little of this: try `weights_files[-1]`.
#
# ### Padding must not matter
#
# **Predict:** Ten columns of padding, then a hundred: what happens to the loss per real token, and
# what to the mean over the whole matrix?

# %%
print("padding   per real token   mean over the matrix")
kept = []
for columns in (0, 10, 100):
    padded = {name: np.pad(dev[name], ((0, 0), (0, columns))) for name in dev}
    kept.append(loss_per_token(models[list(models)[-1]], padded))
    naive = kept[-1] * np.mean(padded["labels"] != 0)
    print(f"{columns:>7}   {kept[-1]:14.5f}   {naive:20.5f}")

assert max(kept) - min(kept) < 1e-4

# %% [markdown]
# The mean over the matrix falls by itself when sentences are short. Divided by the number of real
# tokens, the loss stays the same, and so must accuracy and perplexity.
#
# ## 11 Too little text
#
# Now the second domain: 400 sentences with cities. First the obvious way, a separate model.
#
# **Predict:** Draw the two curves before you see them: training loss and dev loss over many epochs
# of 400 sentences.

# %%
SMALL, SMALL_EVERY = (20, 10) if QUICK else (300, 50)
SMALL_OPTIONS = (
    f"--data.train data/cities-train --data.dev data/cities-dev --data.source en --data.target zh"
    f" --train.dev_sentences {SENTENCES} --train.batch_tokens 512"
    f" --train.max_steps {SMALL} --train.checkpoint_every {SMALL_EVERY}"
    f" --train.log_every {SMALL_EVERY // 2}"
)
shell(
    "python -m keras_transformer.train --preset demo"
    f" --model.encoder_layers {LAYERS} --model.decoder_layers {LAYERS} --data.vocabulary_size 1500"
    f" --train.warmup_steps 50 --train.learning_rate_factor 0.5 {SMALL_OPTIONS}"
    " --run runs/cities-alone"
)

# %% [markdown]
# Then **fine-tuning**: `--init_from` takes weights and vocabulary of the first run, with a fresh
# optimizer. The learning rate is lower: the weights are good already.

# %%
shell(
    "python -m keras_transformer.train --init_from runs/first"
    f" --train.warmup_steps 50 --train.learning_rate_factor 0.3 {SMALL_OPTIONS}"
    " --run runs/cities"
)

# %%
figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
characters = sum(len(chinese) for _, chinese in cities[400:600])
last = {}
for axes, (title, folder) in zip(
    panels, {"alone": "cities-alone", "from the first run": "cities"}.items(), strict=True
):
    lines = Path(f"runs/{folder}/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    points = [record for record in map(json.loads, lines) if "averaged" not in record]
    # The two vocabularies differ, so a token is not the same in both; a character is.
    dev_lengths = kt.Run.open(Path(f"runs/{folder}")).prepared(log=lambda line: None).dev
    per_character = dev_lengths.target_lengths.sum() / characters
    at = [record["step"] for record in points]
    for part in ("train", "dev"):
        losses = [math.log(record[f"{part}_perplexity"]) * per_character for record in points]
        axes.plot(at, losses, "o-", label=part)
        last[folder, part] = losses[-1]
    axes.set(title=title, xlabel="step")
panels[0].set_ylabel("loss per character, nats")
panels[0].legend(frameon=False)
plt.show()

for (folder, part), loss in last.items():
    print(f"runs/{folder:<13} {part:<5} {loss:.2f}")
assert [len(axes.lines) for axes in panels] == [2, 2]
if not QUICK:
    assert last["cities", "dev"] < last["cities-alone", "dev"] / 2
    assert last["cities-alone", "train"] < last["cities-alone", "dev"] / 2

# %% [markdown]
# The separate model memorises its 400 sentences: the training loss goes to 0, the dev loss stops
# far above it, or even rises again. That gap is *overfitting*. Remedies: more text, more dropout,
# an earlier stop (`--train.patience`), or pretrained weights.
#
# ## 12 What did it cost?
#
# **Predict:** The fine-tuned model has last seen only sentences about cities. What is its general
# BLEU now?

# %%
table = {}
for folder in ("first", "cities-alone", "cities"):
    translator = load(f"runs/{folder}")
    table[folder] = []
    for test in (general["test"][:SENTENCES], cities[600:][:SENTENCES]):
        texts = [item.text for item in translator.translate([english for english, _ in test])]
        metric = sacrebleu.BLEU(tokenize="zh")
        table[folder].append(metric.corpus_score(texts, [[chinese for _, chinese in test]]).score)

print("run                  general   cities")
for folder, (on_general, on_cities) in table.items():
    print(f"runs/{folder:<15} {on_general:7.1f}  {on_cities:7.1f}")

figure, axes = plt.subplots(figsize=(6, 2.6))
for index, (title, color) in enumerate((("general", "tab:blue"), ("cities", "tab:orange"))):
    places = np.arange(len(table)) + 0.4 * index - 0.2
    bars = axes.bar(places, [row[index] for row in table.values()], 0.4, color=color, label=title)
    axes.bar_label(bars, fmt="%.0f")
axes.set_xticks(range(len(table)), [f"runs/{folder}" for folder in table])
axes.set(ylabel="BLEU (zh)", ylim=(0, 115))
axes.legend(frameon=False, ncols=2)
plt.show()

if not QUICK:
    assert table["cities"][1] > max(table["first"][1], table["cities-alone"][1])
    assert table["cities"][0] < table["first"][0]

# %% [markdown]
# Four hundred sentences were enough for the cities, since the model knew everything else. But the
# general score has fallen (*catastrophic forgetting*). The remedy is a mixture: add some general
# pairs to the small corpus (exercise 3).

# %%
look("runs/cities", "fine-tuned", again=False)

# %%
for number, text in enumerate(FIXED):
    print(text)
    for stage, found in stages.items():
        print(f"    {stage:<12} {found[number].text[:30]}   ({found[number].score:.2f})")

if not QUICK:
    assert stages["finished"][0].text == "我爱你。"
    assert stages["fine-tuned"][3].text == "他住在巴黎。"

# %% [markdown]
# (With quick sizes, as in the tests, these translations are not meant to be read.)
#
# ## Exercises
#
# **1.** Swap the languages of the training files only (`train.en` ↔ `train.zh`) and train for 100
# steps. Which of the checks above finds it first?
#
# <details><summary>Answer</summary>
#
# The three decoded pairs show it before any training. The loss does not: it falls as usual, since
# translation into English can be learned as well. Dev loss and dev BLEU show it late, and not why.
#
# </details>
#
# **2.** The perplexity printed by `train` is exp of the loss *without* label smoothing. Why is the
# printed loss higher than its logarithm, even for a perfect model?
#
# <details><summary>Answer</summary>
#
# With smoothing 0.1 the target is 0.9 on the label and 0.1 spread evenly over the vocabulary. The
# loss is smallest when the model predicts exactly this mixture, and then it equals the entropy of
# the mixture: about 0.9·ln(1/0.9) + 0.1·ln(V/0.1), 1.06 nats for V = 1,500. It can never be 0.
#
# </details>
#
# **3.** Fine-tune on the 400 sentences with cities *and* 400 general ones. What happens to both
# scores?
#
# <details><summary>Answer</summary>
#
# ```python
# write("mixed", cities[:400] + general["train"][:400])
# ```
#
# Then `--data.train data/mixed`. The general score stays close to that of the first run, and the
# score for cities is about the same as before: twice the text, so give it a few more steps.
#
# </details>
#
# **4.** What does `--train.seed 2` change, and by how much may BLEU differ between two seeds?
#
# <details><summary>Answer</summary>
#
# The initial weights, the dropout masks and the order of the data. On small corpora two seeds
# often differ by half a point or more, so a gain below 1 BLEU from one run says little. Train
# three seeds.
#
# </details>
