# %% [markdown]
# # 4 Break it
#
# The paper states its choices in a few words: positions are added, the rate rises first, scores are
# divided by √d_k. Why? The surest way to find out is to leave one of them out, train, and look.
#
# This notebook trains one small network as in the paper, then three that lack one thing each, and
# at last one of your own. A journal keeps the score.
#
# Each part asks a question. Write down your guess before you run the cell below it. Guesses that
# turn out wrong teach most.

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
import dataclasses
import json
import math
import re
from pathlib import Path

from keras_transformer.config import from_dict
from keras_transformer.data import phrasebook
from keras_transformer.lab.experiment import Experiment, Variant
from keras_transformer.lab.experiments import TABLE
from keras_transformer.lab.measurements import (
    attention_entropies,
    calibration_error,
    dev_batch,
    load_model,
    negative_log_likelihood,
    reliability,
)
from keras_transformer.training.errors import TrainingError

tf.get_logger().setLevel("ERROR")  # each run compiles its own functions; TensorFlow counts them

# %% [markdown]
# ## The baseline
#
# Post-LN and sinusoids, as in the paper. Everything else is small: two layers on each side, 128
# wide, four heads (so d_k is 32), short sentences of the built-in English-Chinese corpus.
#
# A fair experiment changes one thing. Data, their order, the seed and the number of steps stay the
# same.

# %%
STEPS, EVERY, LAYERS = (40, 20, 1) if QUICK else (400, 50, 2)

Path("data").mkdir(exist_ok=True)
for part in ("train", "dev"):
    pairs = [
        (english, chinese)
        for english, chinese in phrasebook.pairs(part)
        if len(english.split()) <= (7 if " than " in english else 5)
    ]
    for language, side in (("en", 0), ("zh", 1)):
        text = "".join(pair[side] + "\n" for pair in pairs)
        Path(f"data/{part}.{language}").write_text(text, encoding="utf-8")

BASELINE = from_dict(
    {
        "model": {
            "norm": "post",
            "encoder_layers": LAYERS,
            "decoder_layers": LAYERS,
            "d_model": 128,
            "heads": 4,
            "d_ff": 256,
        },
        "data": {"train": "data/train", "dev": "data/dev", "vocabulary_size": 1_500},
        "train": {
            "max_steps": STEPS,
            "batch_tokens": 1_024,
            "warmup_steps": STEPS // 4,
            "learning_rate_factor": 0.4,
            "checkpoint_every": EVERY,
            "keep_best": 100,  # the weights of each checkpoint, to look into them later
            "average": 1,
            "dev_sentences": 50 if QUICK else 150,
            "log_every": EVERY // 5,
        },
    }
)

journal = {}


def train(variant):
    """Train a variant, or continue it after an interruption; keep its curves in the journal."""
    folder = Path("runs") / re.sub("[^a-z0-9_]+", "-", variant.name.lower())
    print(f"{variant.name}: {dict(variant.changes) or 'as it is'}")
    failed = ""
    try:
        kt.train_run(variant.config(BASELINE), folder, resume=(folder / "config.yaml").exists())
    except TrainingError as error:  # a result, not an accident
        failed = str(error)
    records = {}
    for name in ("steps", "metrics"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        records[name] = [record for record in found if "averaged" not in record]
    journal[variant.name] = {"run": kt.Run.open(folder), "failed": failed, **records}


def show_journal():
    """Print the last loss and BLEU of each run, and the difference to the baseline."""
    print(f"{'':<20} {'loss':>6} {'':>7} {'BLEU':>6}")
    base = journal["baseline"]["metrics"][-1]
    for name, entry in journal.items():
        last = entry["metrics"][-1]
        loss = math.log(last["dev_perplexity"])
        more = loss - math.log(base["dev_perplexity"])
        gain = last["dev_bleu"] - base["dev_bleu"]
        print(
            f"{name:<20} {loss:6.2f} {more:+7.2f} {last['dev_bleu']:6.1f} {gain:+7.1f}  "
            f"{entry['failed']}"
        )


def curves(*names):
    """Draw dev loss and dev BLEU of some runs."""
    _, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
    for name in names:
        records = journal[name]["metrics"]
        steps = [record["step"] for record in records]
        left.plot(
            steps, [math.log(record["dev_perplexity"]) for record in records], ".-", label=name
        )
        right.plot(steps, [record["dev_bleu"] for record in records], ".-", label=name)
    left.axhline(math.log(VOCABULARY), color="gray", linestyle=":")
    left.set(title="dev loss, nats per token; dotted: ln V", xlabel="step", ylim=(0, None))
    right.set(title="dev BLEU", xlabel="step", ylim=(0, 100))
    left.legend(frameon=False)
    plt.show()


# %% [markdown]
# **Predict:** what is the loss before the first step? And what BLEU will it have after a minute?

# %%
train(Variant("baseline", {}))

# %%
VOCABULARY = journal["baseline"]["run"].config.model.target_vocabulary_size
curves("baseline")
show_journal()
first = journal["baseline"]["steps"][0]["train_perplexity"]
print(
    f"\nloss of the first steps {math.log(first):.2f}, ln {VOCABULARY} = {math.log(VOCABULARY):.2f}"
)
assert abs(math.log(first) - math.log(VOCABULARY)) < 1.5
if not QUICK:
    assert journal["baseline"]["metrics"][-1]["dev_bleu"] > 15

# %% [markdown]
# The loss here is the plain negative log-likelihood, without label smoothing, so that all runs can
# be compared. BLEU is still rising: the built-in model, trained for four minutes, reaches 97.
# Short runs show how fast something is learned, not how well in the end; keep that in mind.
#
# ## 1 No positions
#
# Attention is a weighted sum, and a sum does not know the order of its terms. Section 3.5 adds
# position encodings for that reason. Without them the encoder sees a bag of words.
#
# **Predict:** will BLEU be 0? And what does the network without positions translate if the words of
# the source are shuffled?

# %%
train(Variant("no positions", {"model.positions": "none"}))

# %%
curves("baseline", "no positions")
show_journal()

# %% [markdown]
# Not 0, and perhaps not even worse: compare the last columns. Two things make up for the lost
# order. The causal mask still orders the decoder, which learns what Chinese sentences look like;
# and few bags of short English words allow two sentences. At first the network is even rid of a
# disturbance: a position vector is 0.7 times as long as the embedding that it is added to. On real
# text the order counts: Shaw et al. (2018) had 12.5 BLEU without positions and 25.8 with.
#
# A curve cannot tell "does not need it yet" from "has it". A test made for the question can. Each
# source of the dev set is shuffled; only its end token stays last.
#
# **Predict:** which loss stays the same, to the last digit shown?

# %%
SENTENCES = 50 if QUICK else 300
generator = np.random.default_rng(0)


def loss(name, shuffle):
    """Return the loss of a run's best weights on the dev set, in nats per token."""
    run = journal[name]["run"]
    model, batch = load_model(run, run.best_weights), dev_batch(run, SENTENCES)
    source = batch.source.copy()
    for row in source if shuffle else ():
        words = np.count_nonzero(row) - 1  # without the end token
        row[:words] = generator.permutation(row[:words])
    return negative_log_likelihood(model, batch._replace(source=source)) / batch.tokens


losses = {name: (loss(name, False), loss(name, True)) for name in ("baseline", "no positions")}
figure, axes = plt.subplots(figsize=(6, 2.8))
for shift, index, title in ((-0.2, 0, "as written"), (0.2, 1, "source shuffled")):
    heights = [pair[index] for pair in losses.values()]
    bars = axes.bar(np.arange(2) + shift, heights, 0.4, label=title)
    axes.bar_label(bars, fmt="%.3f")
axes.set_xticks(range(2), losses)
axes.set(ylabel="dev loss, nats per token")
axes.margins(y=0.15)
axes.legend(frameon=False)
plt.show()

written, mixed = losses["no positions"]
assert abs(written - mixed) < 1e-4  # the same number: the order is invisible
if not QUICK:
    assert losses["baseline"][1] > losses["baseline"][0] + 0.05

# %% [markdown]
# Who is taller? Each source below goes with each translation. Without positions a network gives
# both sources the same probabilities, so in one of the two sentences it must be wrong.

# %%
sources = ["Tom is taller than Lucy.", "Lucy is taller than Tom."]
targets = ["汤姆比露西高。", "露西比汤姆高。"]
for name in losses:
    scores = kt.Translator.from_run(journal[name]["run"].path).score(
        [source for source in sources for _ in targets], targets * 2
    )
    table = np.array([score.log_probability for score in scores]).reshape(2, 2)
    print(f"{name}: log P of {targets[0]} and {targets[1]}")
    for source, row in zip(sources, table, strict=True):
        print(f"    {source:<26} {row[0]:8.3f} {row[1]:8.3f}")

assert np.allclose(table[0], table[1], atol=1e-3)  # the last table: no positions

# %% [markdown]
# ## 2 No warm-up
#
# The rate rises for some steps, then falls with the root of the step (equation 3). "No warm-up"
# means here: the peak rate from the first step on, then the same decay. (The formula with a
# warm-up of one step would start much higher, and that would be a second change.)
#
# **Predict:** Adam divides each gradient by its running size. In the first steps that size comes
# from a few batches. Which is in danger, the first hundred steps or the end?

# %%
quarter = BASELINE.train.warmup_steps
schedule = kt.NoamSchedule(128, quarter, BASELINE.train.learning_rate_factor)
linear = np.array([float(schedule(step)) for step in range(STEPS)])
figure, axes = plt.subplots(figsize=(6, 2.4))
axes.plot(np.arange(1, STEPS + 1), linear, label="warm-up")
axes.plot(
    np.arange(1, STEPS + 1),
    [
        max(linear[:quarter].max(), rate) if step < quarter else rate
        for step, rate in enumerate(linear)
    ],
    "--",
    label="none",
)
axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None))
axes.legend(frameon=False)
plt.show()
assert linear.argmax() in (quarter - 1, quarter)

# %%
train(Variant("no warm-up", {"train.warmup": "none"}))

# %%
curves("baseline", "no warm-up")
show_journal()

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
for name in ("baseline", "no warm-up"):
    steps = journal[name]["steps"]
    at = [record["step"] for record in steps]
    left.plot(at, [math.log(record["train_perplexity"]) for record in steps], label=name)
    right.plot(at, [record["gradient_norm"] for record in steps], label=name)
left.set(title="training loss, nats per token", xlabel="step")
right.set(title="gradient norm", xlabel="step", yscale="log")
left.legend(frameon=False)
plt.show()
rates = [record["learning_rate"] for record in journal["no warm-up"]["steps"]]
assert rates[0] == max(rates)

# %% [markdown]
# The first steps do the damage, and the rest of the run does not repair it. The loss falls fast at
# first, faster than with warm-up, then stays near that of a network that knows only how frequent
# each token is. The gradient norm gives no alarm: it is even smaller, since the network sits at a
# flat place. Xiong et al. (2020) saw the same on IWSLT14 with Post-LN: 8.45 BLEU without warm-up,
# about 34 with. Pre-LN does without (exercise 2), one reason why most later models use it.
#
# ## 3 No √d_k
#
# The dot product of two random vectors of width d_k has the variance d_k. Here d_k is 32 and scores
# are about ±6, with the paper's 64 about ±8. A softmax over such scores gives nearly all weight to
# one key, and there its gradient is close to 0. Hence the division.
#
# **Predict:** does the network without it learn nothing, learn more slowly, or learn as well? And
# what is the entropy of its attention?

# %%
train(Variant("no √d_k", {"model.ablation": "unscaled_attention"}))

# %%
curves("baseline", "no √d_k")
show_journal()


# %%
def checkpoints(name):
    """Return the weights files of a run by step; None stands for the initial weights."""
    files = (journal[name]["run"].path / "best").glob("*.weights.h5")
    return {0: None} | dict(sorted((int(path.name.split(".")[0]), path) for path in files))


entropies = {}
for name in ("baseline", "no √d_k"):
    run = journal[name]["run"]
    batch = dev_batch(run, SENTENCES)
    entropies[name] = {
        step: attention_entropies(load_model(run, weights), batch)
        for step, weights in list(checkpoints(name).items())[::2]
    }

figure, panels = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True)
for axes, part in zip(panels, ("encoder", "decoder", "cross"), strict=True):
    for name, by_step in entropies.items():
        # Entropy over its greatest value, mean of the layers: 1 looks everywhere, 0 at one token.
        means = [np.mean([relative for _, relative in found[part]]) for found in by_step.values()]
        axes.plot(list(by_step), means, ".-", label=name)
    axes.set(title=part, xlabel="step", ylim=(0, 1))
panels[0].set(ylabel="relative entropy of attention")
panels[0].legend(frameon=False)
plt.show()
for part in ("encoder", "decoder", "cross"):
    with_root, without = (entropies[name][0][part][0][1] for name in ("baseline", "no √d_k"))
    print(f"{part:<8} before training: {with_root:.2f} with √d_k, {without:.2f} without")
    assert without < with_root

# %% [markdown]
# Before training, attention without the root is sharp already, and in encoder and decoder it only
# grows sharper: each query looks at one token, chosen by chance at the start, and a saturated
# softmax hardly lets it look elsewhere. The loss still falls; the network learns, but late.
#
# Is the division indispensable? No: T5 leaves it out and draws W_Q smaller by √d_k. And how much it
# matters depends on the other choices: Britz et al. (2017), with recurrent networks, lost little at
# widths of 256 and 512 and 4 BLEU at 1,024. A longer run, or Pre-LN, makes the difference smaller.
#
# ## 4 Your own experiment
#
# An experiment is a name and the fields that differ from the baseline: anything that `python -m
# keras_transformer.train --help` lists. As an example, **label smoothing** (section 5.4). The
# paper says that it "hurts perplexity, as the model learns to be more unsure, but improves
# accuracy and BLEU score".
#
# **Predict:** without smoothing, is the loss lower or higher? When such a model says "90 % sure",
# how often is it right?

# %%
MINE = Variant("no smoothing", {"train.label_smoothing": 0.0})  # change this line, run the rest
train(MINE)

# %%
curves("baseline", MINE.name)
show_journal()


# %%
figure, axes = plt.subplots(figsize=(4.2, 4))
axes.plot([0, 1], [0, 1], color="gray", linestyle=":")
for name in ("baseline", MINE.name):
    run = journal[name]["run"]
    curve = reliability(load_model(run, run.best_weights), dev_batch(run, SENTENCES))
    error = calibration_error(curve)
    filled = [row for row in zip(*curve.values(), strict=True) if row[2] >= 10]
    confidence, accuracy, _ = zip(*filled, strict=True)
    axes.plot(confidence, accuracy, "o-", label=f"{name}: error {error:.3f}")
axes.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
axes.set_title("reliability; dotted: perfect")
axes.legend(frameon=False)
plt.show()
assert 0 <= error <= 1

# %% [markdown]
# Points below the dotted line are too sure of themselves, points above it too modest. A smoothed
# model keeps a tenth of its probability in reserve. Müller et al. (2019) found it better calibrated
# on real text, where models tend to be too sure: an error of .019 in place of .056. After a short
# run on sentence patterns a model is rather too modest, and there the reserve makes it worse. Loss
# and BLEU hardly differ: the paper's gain was half a BLEU point.
#
# ## The laboratory
#
# These were single runs: a difference below 1 BLEU may be chance. The laboratory of the package
# trains each variant with several seeds, goes on after an interruption, and writes a report with
# curves and what the literature expects:
#
# ```sh
# python -m keras_transformer.lab --list
# python -m keras_transformer.lab no-positions warm-up --seeds 3 --to lab
# ```
#
# It knows these experiments:

# %%
for experiment in TABLE.experiments:
    print(f"{experiment.name:<22} {experiment.title}")
print("\nwhat the literature says about no-positions:")
print(TABLE.by_name["no-positions"].literature)
assert {"no-positions", "warm-up", "unscaled-attention"} <= set(TABLE.by_name)

# %% [markdown]
# Your own experiment becomes a part of it with what you expect, written down *before* the run:

# %%
template = TABLE.by_name["no-positions"]
own = dataclasses.replace(
    template,
    name="wide-feed-forward",
    title="a feed-forward network of four times the width",
    variants=(Variant("d_ff × 4", {"model.d_ff": 1_024}, expected="equal"),),
    before="d_ff = 256",
    after="d_ff = 1,024",
    literature="The paper's Table 3 (C): d_ff 4,096 in place of 2,048 gives 26.2 BLEU, not 25.8.",
    size="A small corpus has little to fill the wider network with.",
)
for name, (_, config) in own.variants_of(BASELINE).items():
    print(f"{name:<10} d_ff {config.model.d_ff}")
assert isinstance(own, Experiment)

# %% [markdown]
# ## Exercises
#
# **1.** Predict and run: `Variant("no residual", {"model.ablation": "no_residual"})`. Then the
# same with `"model.encoder_layers": 1, "model.decoder_layers": 1`.
#
# <details><summary>Answer</summary>
#
# Without the residual connections every layer *replaces* its input. Attention averages, so the rows
# become more alike with each layer, and the positions fade, since they came in only at the bottom.
# With one layer the network still learns something; with more it soon knows only how frequent each
# token is.
#
# </details>
#
# **2.** Pre-LN (`{"model.norm": "pre"}`) puts the LayerNorm before each sub-layer. Does it need the
# warm-up?
#
# <details><summary>Answer</summary>
#
# Add `"train.warmup": "none"` to see it. Xiong et al. (2020) found that Post-LN without warm-up
# fell from about 34 to 8.45 BLEU on IWSLT14, while Pre-LN did as well without. The reason is the
# size of the gradients at the start: with Post-LN they are large in the last layers.
#
# </details>
#
# **3.** T5 has no division by √d_k and learns well. How?
#
# <details><summary>Answer</summary>
#
# It draws the initial W_Q smaller by √d_k. Then the scores have the same size at the start:
# dividing the weights or the product is the same. What matters is the size of the scores, not the
# formula.
#
# </details>
#
# **4.** Train the baseline with `{"train.seed": 2}` and compare. Which of the differences in your
# journal would you still believe?
#
# <details><summary>Answer</summary>
#
# Those that are clearly larger than the difference between the seeds. A single run is an anecdote;
# three seeds are the beginning of an experiment.
#
# </details>
