# %% [markdown]
# # 2 The whole model, part by part
#
# “I love you” becomes “我爱你”. This notebook follows the sentence through a trained model and
# prints the shape of every tensor on its way. The model is small: it is part of the package and was
# trained on the built-in phrases. At the end all of it runs a second time, in NumPy, with the same
# numbers.
#
# Guess first, then run the cell.
#
# Shapes: B batch, S source length, T target length, H heads, D model width, K width of one head,
# V vocabulary size.

# %% tags=["skip-execution"]
# Skip this cell where the package is installed. It replaces nothing that Colab ships; red lines
# about other packages are harmless.
# %pip install "keras-translate[plots]"

# %% tags=["setup"]
MINUTES = 2  # on two CPU cores

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
RUN = "builtin:phrasebook"
run = kt.Run.open(RUN)
model, tokenizer, config = run.model(), run.tokenizer(), run.config.model
translator = kt.Translator.from_run(RUN)
D, H, V = config.d_model, config.heads, config.target_vocabulary_size
print(f"{config.encoder_layers} + {config.decoder_layers} layers, D {D}, H {H}, V {V:,}")
print("I love you →", translator.translate(["I love you"])[0].text)
assert translator.translate(["I love you"])[0].text == "我爱你"

# %% [markdown]
# ## 5.1 From text to numbers
#
# **Predict:** how many tokens has “I love you”? And a name that the model has never seen, or an
# emoji?

# %%
START, END = 2, 3
for text in ("I love you", "Zacharias", "🙂"):
    ids = tokenizer.source.encode([text])[0]
    print(f"{text:12} {tokenizer.source.pieces(ids)}")
source_ids = [*tokenizer.source.encode(["I love you"])[0], END]
target_ids = tokenizer.target.encode(["我爱你"])[0]
source_names = [*tokenizer.source.pieces(source_ids[:-1]), "</s>"]
target_names = tokenizer.target.pieces(target_ids)
print(dict(zip(source_names, source_ids, strict=True)))
assert tokenizer.target.decode([target_ids])[0] == "我爱你"

# %% [markdown]
# “▁” is a space. A word outside the vocabulary is split into shorter pieces, and a rare character
# into its bytes: nothing is unknown.
#
# ## 3.4 Embeddings, times √d_model
#
# A row of the table is drawn with standard deviation D^-½. **Predict:** at D = 512, what is the
# norm of such a vector? And of a position vector? Which of them would dominate the sum?

# %%
from keras_transformer.model.positions import sinusoidal_encoding

table = kt.layers.TokenEmbedding(1_000, 512)
words = table(tf.range(1_000)[None])[0].numpy()  # (1000, 512), multiplied by √512 already
sizes = {
    "embedding": np.linalg.norm(words / np.sqrt(512), axis=1).mean(),
    "position": np.linalg.norm(sinusoidal_encoding(50, 512), axis=1).mean(),
    "embedding · √512": np.linalg.norm(words, axis=1).mean(),
}
fig, axis = plt.subplots(figsize=(5, 2))
axis.barh(list(sizes), list(sizes.values()), color=["silver", "#d9822b", "#1f78b4"])
axis.set(title="length of vectors, D = 512")
for place, size in enumerate(sizes.values()):
    axis.text(size, place, f" {size:.1f}", va="center")
axis.set_xlim(0, 26)
plt.show()
assert np.isclose(sizes["embedding"], 1, atol=0.01)
assert np.isclose(sizes["position"], 16)
assert np.isclose(sizes["embedding · √512"], np.sqrt(512), rtol=0.01)

# %% [markdown]
# Without the factor the norm of the position is sixteen times that of the word.

# %% [markdown]
# ## 3.1 The encoder, layer by layer
#
# **Predict:** which shape has the sentence after each of the layers?

# %%
source = tf.constant([source_ids])  # (B, S)
x = model.get_layer("embedding")(source)
shapes = {"ids": source, "embedding · √D": x}
x = model.get_layer("source_positions")(x)
shapes["+ positions"] = x
source_mask = model.get_layer("source_mask")(source)  # (B, 1, 1, S)
encoder = model.get_layer("encoder")
for number, layer in enumerate(encoder.layers):
    x = layer(x, source_mask)
    shapes[f"encoder layer {number}"] = x
memory = encoder.apply_final_norm(x)
shapes["memory"] = memory
for name, tensor in shapes.items():
    print(f"{name:18} {tuple(tensor.shape)}")
assert all(x.shape == (1, len(source_ids), D) for x in list(shapes.values())[1:])

# %% [markdown]
# The shape never changes, so layers can be stacked. The content does.
#
# ## 3.1 The decoder's two rows: “shifted right”
#
# In training, the decoder reads the correct previous words and predicts the next one.
#
# **Predict:** the translation has three tokens. How many positions does the decoder have?

# %%
inputs, labels = [START, *target_ids], [*target_ids, END]
print("position", *range(len(inputs)), sep="\t")
print("input   ", "<s>", *target_names, sep="\t")
print("label   ", *target_names, "</s>", sep="\t")
assert inputs[1:] == labels[:-1]
assert len(inputs) == len(target_ids) + 1

# %% [markdown]
# One more than the tokens: the first input is the start token, the last label is the end token.

# %%
target = tf.constant([inputs])  # (B, T)
y = model.get_layer("target_positions")(model.get_layer("embedding")(target))
target_mask = model.get_layer("target_mask")(target)
decoder = model.get_layer("decoder")
shapes = {"target ids": target, "+ positions": y}
for number, layer in enumerate(decoder.layers):
    y, _, cross = layer(y, memory, target_mask, source_mask, return_weights=True)
    shapes[f"decoder layer {number}"] = y
    shapes["   its cross-attention"] = cross
features = decoder.apply_final_norm(y)
logits = model.get_layer("embedding")(features, reverse=True)  # h Eᵀ: the same matrix again
probabilities = tf.nn.softmax(logits)[0].numpy()  # (T, V)
shapes |= {"features": features, "logits": logits}
for name, tensor in shapes.items():
    print(f"{name:22} {tuple(tensor.shape)}")
whole = model({"source": source, "target": target})
print(f"part by part − whole model: {np.abs(logits - whole).max():.0e}")
for t, label in enumerate(labels):
    name = [*target_names, "</s>"][t]
    print(f"after {['<s>', *target_names][t]:4} P({name}) = {probabilities[t, label]:.2f}")
assert np.allclose(logits, whole, atol=1e-4)
assert probabilities.argmax(axis=1).tolist() == labels

# %% [markdown]
# Every decoder layer reads the **same** memory, the output of the last encoder layer, each with its
# own W_K and W_V. The encoder runs once for each sentence.
#
# **Predict:** one number of the memory changes. How many decoder layers compute other keys?

# %%
changed = memory.numpy()
changed[0, 0, 0] += 1
changed = tf.constant(changed)
for number, layer in enumerate(decoder.layers):
    keys, changed_keys = (layer.cross_attention.keys_values(m)[0] for m in (memory, changed))
    print(f"decoder layer {number}: keys move by {np.abs(changed_keys - keys).max():.2f}")
    assert np.abs(changed_keys - keys).max() > 0
kernels = [layer.cross_attention.key_kernel.numpy() for layer in decoder.layers]
assert not np.allclose(kernels[0], kernels[1])  # each layer has its own W_K

# %% [markdown]
# ### Where does the decoder look?
#
# **Predict:** I – 我, love – 爱, you – 你?

# %%
from keras_transformer import visualize
from keras_transformer.model.attention_weights import attention_weights

seen = attention_weights(model, source, target)
cross = np.mean([layer[0] for layer in seen.cross], axis=(0, 1))  # mean of layers and heads (T, S)
rows = [f"→ {name}" for name in [*target_names, "</s>"]]
visualize.heatmap(cross, rows, source_names, "cross-attention, mean of layers and heads")

# %%
without_end = cross[:, :-1] / cross[:, :-1].sum(axis=1, keepdims=True)
assert np.allclose(cross.sum(axis=1), 1, atol=1e-5)
visualize.heatmap(without_end, rows, source_names[:-1], "the same without </s>, renormalised")

# %% [markdown]
# A tendency, not a rule. Much weight often rests on the end token, which has no content. A map
# shows where a layer looks. It does not prove why a word was chosen.

# %% [markdown]
# ## 3.2.3 Training in parallel, translating step by step
#
# In translation there is no target. The decoder reads the start token, then its own output.
#
# **Predict:** how often does the decoder run for “我爱你”?

# %%
prefix, rows = [START], []
while prefix[-1] != END and len(prefix) < 20:
    print("in:", "<s>", *tokenizer.target.pieces(prefix[1:]), end="   ")
    step_logits = model({"source": source, "target": tf.constant([prefix])})[0, -1]
    rows.append(step_logits.numpy())
    prefix.append(int(np.argmax(step_logits)))
    print("out:", "</s>" if prefix[-1] == END else tokenizer.target.pieces(prefix[-1:])[0])
assert prefix[1:] == labels

# %% [markdown]
# Four runs, one for each token. Training makes **one** run over all positions, with the look-ahead
# mask.
#
# **Predict:** how far are the logits of one masked run from those of the four runs?

# %%
difference = np.abs(np.stack(rows) - whole[0].numpy()).max()
print(f"one masked run − four runs: {difference:.0e}, logits up to {np.abs(whole).max():.0f}")
assert difference < 1e-4

# %% [markdown]
# The same, except for rounding. This is why a Transformer trains in parallel: the mask hides later
# tokens from each position. That only works because training knows the correct words (*teacher
# forcing*). A model can be good at that and still fail on its own output (*exposure bias*), so
# always look at translations, not only at the loss.
#
# Two sentences of different length in one batch must not change each other either. **Predict:**
# what would make them?

# %%
longer = [*tokenizer.source.encode(["Do you have time tomorrow?"])[0], END]
padded = [source_ids + [0] * (len(longer) - len(source_ids)), longer]
batch = {"source": tf.constant(padded), "target": tf.constant([inputs, inputs])}
moved = np.abs(model(batch)[0] - whole[0]).max()
print(f"alone − in a batch: {moved:.0e}")
assert moved < 1e-4

# %% [markdown]
# A forgotten padding mask would.

# %% [markdown]
# ## The cache of keys and values
#
# In step t the earlier tokens have the same keys and values as in step t − 1: the mask hides the
# new token from them. So they can be cached.
#
# **Predict:** what is cached? Why not the queries? For 128 tokens, how many positions pass through
# the decoder without and with a cache?

# %%
steps = 16 if QUICK else 128
print("128 tokens:", sum(range(1, 129)), "positions without a cache,", 128, "with one")
assert sum(range(1, 129)) == 8_256

# %%
import time

from keras_transformer.model.incremental.decoder import IncrementalDecoder

forced = np.r_[START, np.tile(target_ids, steps)][:steps].astype("int32")
full_pass = tf.function(lambda x, y: model({"source": x, "target": y})[:, -1])
full_pass = full_pass.get_concrete_function(*[tf.TensorSpec([1, None], tf.int32)] * 2)
step, state = IncrementalDecoder(model).start(source)
cached_pass = tf.function(step, reduce_retracing=True)


def run_steps(cached):
    """Decode the forced tokens one by one; return logits (T, V), ms of each step, the state."""
    logits, times = [], []
    kept = step.select_and_reserve(state, [0], steps)  # room for all steps
    for t in range(steps):
        started = time.perf_counter()
        if cached:
            row, kept = cached_pass(tf.constant(forced[t : t + 1]), tf.constant(t), kept)
        else:
            row = full_pass(source, tf.constant(forced[None, : t + 1]))
        logits.append(row[0].numpy())
        times.append(1_000 * (time.perf_counter() - started))
    return np.array(logits), np.array(times), kept


slow, fast = [], []
for _ in range(4):  # the first time TensorFlow builds its graphs
    without, times, _ = run_steps(cached=False)
    slow.append(times)
    with_cache, times, full = run_steps(cached=True)
    fast.append(times)
slow, fast = np.min(slow[1:], axis=0), np.min(fast[1:], axis=0)  # other programs disturb
print(f"largest difference of logits: {np.abs(without - with_cache).max():.0e}")

# %%
fig, axis = plt.subplots(figsize=(6, 2.8))
axis.plot(slow, label="whole prefix again")
axis.plot(fast, label="cache")
axis.set(xlabel="position", ylabel="ms", title="time of a step", ylim=(0, None))
axis.legend()
plt.show()
cache = [part for layer in full.self_attention for part in layer]
kept = sum(int(tf.size(part)) * 4 for part in cache)
crossed = sum(int(tf.size(part)) * 4 for layer in full.cross_attention for part in layer)
print(f"kept for {steps} tokens: {kept // 1024} KiB")
print(f"kept of the source, once: {crossed // 1024} KiB")
assert np.allclose(without, with_cache, atol=1e-3)
assert kept == 2 * config.decoder_layers * steps * D * 4  # K and V, float32
assert np.median(fast[steps // 2 :]) < np.median(slow[steps // 2 :])

# %% [markdown]
# The cache has K and V of each layer. A past query is never used again. No look-ahead mask is
# needed here: there is one query, and no token after it. (Without a cache it is needed: earlier
# positions must compute the same as in training.)
#
# The cache makes a step cheaper, but each new query still attends to all earlier keys: the cost of
# all steps together stays quadratic.

# %% [markdown]
# ## 3.1 Residual connections and LayerNorm
#
# ### Why not BatchNorm?
#
# LayerNorm takes mean and variance over the features of *one* token. BatchNorm takes them over all
# tokens of the batch, feature by feature.
#
# **Predict:** the neighbour in the batch changes. Does the output of your sentence move?

# %%
batch_size, tokens, width = 2, 4, 6
fig, axes = plt.subplots(1, 2, figsize=(6, 2.2))
for axis, name in zip(axes, ("LayerNorm", "BatchNorm"), strict=True):
    together = np.zeros((batch_size * tokens, width))
    if name == "LayerNorm":
        together[1, :] = 1
    else:
        together[:, 1] = 1
    axis.imshow(together, cmap="Blues", vmin=0, vmax=1.5, aspect="auto")
    axis.axhline(tokens - 0.5, color="black")
    axis.set(title=name, xlabel="feature", yticks=[1.5, 5.5], yticklabels=["yours", "neighbour"])
    assert together.sum() == (width if name == "LayerNorm" else batch_size * tokens)
plt.show()

random = np.random.default_rng(0)
x = random.normal(size=(2, 4, 6)).astype("float32")
changed = x.copy()
changed[1] += 3 * random.normal(size=(4, 6))
for norm in (keras.layers.LayerNormalization(), keras.layers.BatchNormalization()):
    moved = np.abs(norm(x, training=True)[0] - norm(changed, training=True)[0]).max()
    print(f"{type(norm).__name__:20} your sentence moves by {moved:.2f}")
    assert (moved == 0) == isinstance(norm, keras.layers.LayerNormalization)


# %% tags=["reference"]
def layer_norm(x, gain, bias, epsilon=1e-6):
    """Return (x − mean) / √(variance + ε) · gain + bias, over the last axis."""
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gain + bias


def feed_forward(x, inner, inner_bias, outer, outer_bias):
    """Return max(0, x W₁ + b₁) W₂ + b₂ (equation 2)."""
    return np.maximum(x @ inner + inner_bias, 0) @ outer + outer_bias


# %% [markdown]
# ### LN(x + f(x)) or x + f(LN(x))?
#
# The most frequent question. They are two different models. **Post-LN** is the paper's; **Pre-LN**
# came later (and needs one more LayerNorm at the end of each stack). This notebook's model is
# Pre-LN, because it is easier to train.
#
# **Predict:** six layers each, before the first update. In which of them are the gradients of the
# last layers much larger than those of the first?

# %%
import dataclasses


def gradient_norms(norm):
    """Return the norms of the gradient of each layer's W₂ at step 0, encoder then decoder."""
    keras.utils.set_random_seed(1)
    size = {"source_vocabulary_size": 500, "target_vocabulary_size": 500}
    layers = {"encoder_layers": 6, "decoder_layers": 6, "d_model": 64, "heads": 4, "d_ff": 256}
    fresh = kt.build(kt.ModelConfig(**size, **layers, norm=norm))
    source, target, labels = np.random.default_rng(0).integers(4, 500, (3, 16, 12))
    with tf.GradientTape() as tape:
        logits = fresh({"source": source, "target": target})
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    stack = [*fresh.get_layer("encoder").layers, *fresh.get_layer("decoder").layers]
    kernels = [layer.feed_forward.outer_kernel.value for layer in stack]
    norms = [float(tf.norm(gradient)) for gradient in tape.gradient(loss, kernels)]
    return np.array(norms[:6]), np.array(norms[6:])


norms = {name: gradient_norms(name) for name in ("post", "pre")}
fig, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
for axis, part, title in zip(axes, (0, 1), ("encoder", "decoder"), strict=True):
    for name, style in (("post", "o-"), ("pre", "s--")):
        axis.plot(range(1, 7), norms[name][part], style, label=f"{name}-LN")
    axis.set(title=title, xlabel="layer", yscale="log")
axes[0].set_ylabel("gradient norm of W₂, step 0")
axes[0].legend()
plt.show()
growth = {name: pair[1][-1] / pair[1][0] for name, pair in norms.items()}
print("last decoder layer / first:", {name: round(float(x), 1) for name, x in growth.items()})
assert growth["post"] > growth["pre"]

# %% [markdown]
# Post-LN. That is why the paper must begin with a tiny learning rate.
#
# ## 3.3 The feed-forward network
#
# The same two matrices at every position. **Predict:** is it a convolution with kernel 1?

# %%
ours = kt.layers.FeedForward(d_model=6, d_ff=10)
x = tf.constant(random.normal(size=(2, 4, 6)), tf.float32)
expected = ours(x)
inner, outer = keras.layers.Conv1D(10, 1, activation="relu"), keras.layers.Conv1D(6, 1)
outer(inner(x))
inner.set_weights([ours.inner_kernel.numpy()[None], ours.inner_bias.numpy()])
outer.set_weights([ours.outer_kernel.numpy()[None], ours.outer_bias.numpy()])
by_hand = feed_forward(x.numpy(), *[weight.numpy() for weight in ours.weights])
print(f"convolution: {np.abs(expected - outer(inner(x))).max():.0e}")
print(f"NumPy:       {np.abs(expected - by_hand).max():.0e}")
order = [2, 0, 3, 1]
assert np.allclose(expected, outer(inner(x)), atol=1e-5)
assert np.allclose(expected, by_hand, atol=1e-5)
assert np.allclose(tf.gather(expected, order, axis=1), ours(tf.gather(x, order, axis=1)))

# %% [markdown]
# ## The whole model in NumPy
#
# Attention and its heads are those of notebook 1.


# %% tags=["reference"]
def softmax(scores):
    """Return e^scores / Σ e^scores over the last axis; less the maximum, so nothing overflows."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attention(queries, keys, values, mask=None):
    """Return softmax(Q Kᵀ / √d_k) V and the weights; a mask is True where a query may look."""
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(keys.shape[-1])  # (..., T, S)
    mask = np.broadcast_to(True if mask is None else mask, scores.shape)
    weights = softmax(np.where(mask, scores, -1e9))
    weights = weights * mask.any(axis=-1, keepdims=True)  # a query that may look nowhere gets 0
    return weights @ values, weights  # (..., T, K'), (..., T, S)


# %% tags=["reference"]
def split_heads(x, heads):
    """Split features (B, T, H · K) by head: (B, H, T, K)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def merge_heads(x):
    """Put heads (B, H, T, K) side by side: (B, T, H · K)."""
    batch, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * width)


def multi_head(query, memory, kernels, heads, mask=None):
    """Return multi-head attention from query (B, T, D) to memory (B, S, D), and its weights."""
    w_query, w_key, w_value, w_output = kernels
    queries = split_heads(query @ w_query, heads)  # (B, H, T, K)
    keys = split_heads(memory @ w_key, heads)  # (B, H, S, K)
    values = split_heads(memory @ w_value, heads)  # (B, H, S, K')
    context, weights = attention(queries, keys, values, mask)
    return merge_heads(context) @ w_output, weights  # (B, T, D), (B, H, T, S)


# %% tags=["reference"]
def positions(length, width):
    """Return the sinusoidal encoding (T, D) of positions 0 to T − 1."""
    rates = 10_000.0 ** (-np.arange(0, width, 2) / width)  # (D / 2,)
    angles = np.arange(length)[:, None] * rates  # (T, D / 2)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width]


# %% [markdown]
# A layer is a chain of sub-layers, each with a residual connection and a LayerNorm.


# %% tags=["reference"]
def connect(x, sublayer, norm, pre):
    """Return LayerNorm(x + f(x)), the paper's Post-LN, or with `pre` x + f(LayerNorm(x))."""
    return x + sublayer(layer_norm(x, *norm)) if pre else layer_norm(x + sublayer(x), *norm)


def encoder_layer(x, weights, heads, mask=None, pre=False):
    """Return an encoder layer's output for x (B, S, D); mask: (B, 1, 1, S)."""
    x = connect(
        x,
        lambda y: multi_head(y, y, weights["self_attention"], heads, mask)[0],
        weights["self_attention_norm"],
        pre,
    )
    return connect(
        x,
        lambda y: feed_forward(y, *weights["feed_forward"]),
        weights["feed_forward_norm"],
        pre,
    )


def decoder_layer(x, memory, weights, heads, source_mask=None, pre=False):
    """Return a decoder layer's output for x (B, T, D); each position sees those before it."""
    past = np.tril(np.ones((x.shape[1], x.shape[1]), bool))  # (T, T)
    x = connect(
        x,
        lambda y: multi_head(y, y, weights["self_attention"], heads, past)[0],
        weights["self_attention_norm"],
        pre,
    )
    x = connect(
        x,
        lambda y: multi_head(y, memory, weights["cross_attention"], heads, source_mask)[0],
        weights["cross_attention_norm"],
        pre,
    )
    return connect(
        x,
        lambda y: feed_forward(y, *weights["feed_forward"]),
        weights["feed_forward_norm"],
        pre,
    )


def weights_of(layer):
    """Return the weights of one of the package's layers as arrays."""
    found = {"feed_forward": [weight.numpy() for weight in layer.feed_forward.weights]}
    for name in ("self_attention", "cross_attention"):
        if hasattr(layer, name):  # query, key, value, output
            found[name] = [weight.numpy() for weight in getattr(layer, name).weights]
    for name in list(found):
        norm = getattr(layer, f"{name}_connection").normalization
        found[f"{name}_norm"] = [norm.gamma.numpy(), norm.beta.numpy()]
    return found


# %% [markdown]
# **Predict:** how far apart are the logits of the Keras model and of these functions?


# %%
def numpy_model(source, target):
    """Return the logits (B, T, V) of the trained model for ids (B, S) and (B, T)."""
    pre = config.norm == "pre"
    matrix = model.get_layer("embedding").matrix.numpy()  # (V, D)
    mask = (source != 0)[:, None, None, :]  # (B, 1, 1, S)

    def final_norm(stack, x):
        norm = stack.final_norm
        return x if norm is None else layer_norm(x, norm.gamma.numpy(), norm.beta.numpy())

    x = matrix[source] * np.sqrt(D) + positions(source.shape[1], D)
    for layer in encoder.layers:
        x = encoder_layer(x, weights_of(layer), H, mask, pre)
    memory = final_norm(encoder, x)
    y = matrix[target] * np.sqrt(D) + positions(target.shape[1], D)
    for layer in decoder.layers:
        y = decoder_layer(y, memory, weights_of(layer), H, mask, pre)
    return final_norm(decoder, y) @ matrix.T


by_hand = numpy_model(np.array([source_ids]), np.array([inputs]))
print("NumPy translates:", tokenizer.target.decode([by_hand[0].argmax(axis=-1)[:-1].tolist()])[0])
print(f"NumPy − Keras: {np.abs(by_hand - whole).max():.0e}")
assert np.allclose(by_hand, whole, atol=1e-3)

# %% [markdown]
# A few dozen lines of NumPy are the whole network. The rest is speed, training and search.

# %% [markdown]
# ## Table 3: where are the parameters?
#
# **Predict:** of the base model's 63 million weights, how many belong to attention, how many to the
# feed-forward networks, how many to the embeddings?

# %%
base = dataclasses.replace(
    kt.preset("base").model, source_vocabulary_size=37_000, target_vocabulary_size=37_000
)
big_model = kt.build(base)
first = big_model.get_layer("encoder").layers[0]
attention_size, inner_size = first.self_attention.count_params(), first.feed_forward.count_params()
shares = {
    "attention, 18 ×": 18 * attention_size,
    "feed-forward, 12 ×": 12 * inner_size,
    "embeddings": big_model.get_layer("embedding").count_params(),
}
total = big_model.count_params()
shares["LayerNorm"] = total - sum(shares.values())
layers = total - shares["embeddings"]
for name, count in shares.items():
    print(f"{name:20} {count:12,}  {count / total:4.0%}")
print(f"{'total':20} {total:12,}")
print(f"one attention {attention_size:,}, one feed-forward network {inner_size:,}")
print(f"feed-forward: {shares['feed-forward, 12 ×'] / layers:.0%} of the layers")

fig, axis = plt.subplots(figsize=(7, 1.3))
left = 0
for name, count in list(shares.items())[:3]:
    axis.barh(0, count / 1e6, left=left)
    axis.text(left + count / 2e6, 0, f"{name}\n{count / 1e6:.1f} M", ha="center", va="center")
    left += count / 1e6
axis.set(yticks=[], xlabel="million weights")
plt.show()
del big_model
assert attention_size == 4 * 512 * 512 == 1_048_576
assert inner_size == 2 * 512 * 2048 + 2048 + 512 == 2_099_712
assert round(total / 1e6, 1) == 63.0
assert round(shares["feed-forward, 12 ×"] / layers, 2) == 0.57

# %% [markdown]
# **Predict:** source, target and output share one matrix. How many weights would three have?

# %%
sizes = {}
for embeddings in ("tied", "decoder", "untied"):
    sizes[embeddings] = kt.build(dataclasses.replace(base, embeddings=embeddings)).count_params()
    print(f"{embeddings:8} {sizes[embeddings]:12,}")
assert sizes["untied"] - sizes["tied"] == 2 * 37_000 * 512
assert sizes["decoder"] - sizes["tied"] == 37_000 * 512

# %% [markdown]
# 63 million with one matrix, 101 million with three. One needs a joint vocabulary, and both
# languages then train it.
#
# The paper says 65 million. Its vocabulary of “about 37,000” tokens explains the rest only in part:
# 4,000 more tokens would be 2 million more weights.

# %% [markdown]
# ## 5.3 The learning rate
#
# rate = D^-½ · min(step^-½, step · warmup^-³ᐟ²), equation 3.


# %% tags=["reference"]
def learning_rate(step, d_model, warmup=4_000, factor=1.0):
    """Return the rate of update `step`, counted from 1 (equation 3)."""
    return factor * d_model**-0.5 * np.minimum(step**-0.5, step * warmup**-1.5)


# %% [markdown]
# **Predict:** where is the peak? How large is the rate at step 1, 4,000 and 100,000?

# %%
updates = np.arange(1.0, 20_001)
fig, axis = plt.subplots(figsize=(6, 2.8))
for width, warmup in ((512, 4_000), (512, 8_000), (256, 4_000)):
    rates = learning_rate(updates, width, warmup)
    axis.plot(updates, rates, label=f"D {width}, warm-up {warmup:,}")
    assert rates.argmax() + 1 == warmup
axis.set(xlabel="update", ylabel="learning rate", title="three schedules")
axis.legend()
plt.show()
schedule = kt.NoamSchedule(512)
for step in (1, 4_000, 100_000):
    rate = learning_rate(step, 512)
    print(f"update {step:7,}: {rate:.1e}")
    assert np.isclose(rate, schedule(step - 1), rtol=1e-5)  # Keras counts from 0
epoch = 29_000 * 15 / 4_096
print(f"29,000 captions: {epoch:.0f} updates an epoch, so 4,000 last {4_000 / epoch:.0f} epochs")

# %% [markdown]
# Print the warm-up in epochs before you train on little data.

# %% [markdown]
# ## 5.4 Label smoothing
#
# The target is not 1 for the right token, but 1 − ε + ε / V, and ε / V for each of the others.


# %% tags=["reference"]
def smoothed_loss(logits, labels, smoothing):
    """Return −Σ q log P of each token; q: the label with 1 − ε, and ε spread over all V tokens."""
    log_p = np.log(softmax(logits))  # (..., V)
    q = (1 - smoothing) * np.eye(logits.shape[-1])[labels] + smoothing / logits.shape[-1]
    return -(q * log_p).sum(axis=-1)


# %% [markdown]
# **Predict:** the model is certain and right. Is the smoothed loss 0? What is the best it can reach
# with V = 8,000 and ε = 0.1?

# %%
from keras_transformer.training.loss import token_losses


def floor(size, smoothing=0.1):
    """Return the least loss: the entropy of the smoothed target."""
    right, other = 1 - smoothing + smoothing / size, smoothing / size
    return -right * np.log(right) - (size - 1) * other * np.log(other)


size = 8_000
right = np.concatenate([np.linspace(0.02, 0.99, 200), 1 - np.logspace(-2, -9, 60)])
logits = np.zeros((len(right), size))
logits[:, 0] = np.log(right / (1 - right) * (size - 1))  # the others share the rest
curves = {e: smoothed_loss(logits, np.zeros(len(right), int), e) for e in (0.0, 0.1)}
fig, axis = plt.subplots(figsize=(6, 2.8))
for e, curve in curves.items():
    axis.plot(right, curve, label=f"ε = {e}")
axis.axhline(floor(size), color="gray", ls=":", label=f"floor {floor(size):.2f}")
axis.set(xlabel="P(right token)", ylabel="loss", title="V = 8,000")
axis.legend()
plt.show()
best = right[curves[0.1].argmin()]
print(f"smallest smoothed loss at P = {best:.2f}: {curves[0.1].min():.2f}")
print(f"floor at V 8,000: {floor(8_000):.2f}, at 37,000: {floor(37_000):.2f} nats")
few = random.normal(size=(1, 5, 9)).astype("float32")
ours = token_losses(few, tf.constant([[1, 2, 3, 4, 5]]), 0.1)
assert np.isclose(curves[0.1].min(), floor(size), atol=0.01)
assert abs(best - 0.9) < 0.01
assert np.allclose(smoothed_loss(few, np.array([[1, 2, 3, 4, 5]]), 0.1), ours, atol=1e-5)

# %% [markdown]
# So perplexity computed from the smoothed loss cannot fall below e^1.22 = 3.4, however good the
# model is. Report the plain log-loss beside it.
#
# ### What should the first loss be, and divided by what?
#
# **Predict:** a new model with V tokens. What is its first loss? And what do ten columns of
# padding do to an accuracy?

# %%
fresh = kt.build(config)
ids = {"source": source, "target": target}
first_loss = np.mean(token_losses(fresh(ids), tf.constant([labels])))
print(f"first loss {first_loss:.2f}, ln V = {np.log(V):.2f}")
matrix = fresh.get_layer("embedding").matrix
matrix.assign(matrix * np.sqrt(D))  # rows with standard deviation 1
large = np.mean(token_losses(fresh(ids), tf.constant([labels])))
print(f"with a tied matrix drawn √D times as large: {large:.0f}")
for columns in (0, 10, 100):
    y_true = np.pad([labels], [(0, 0), (0, columns)])
    y_pred = np.pad(whole, [(0, 0), (0, columns), (0, 0)])
    y_pred[0, -columns:, 0] += columns > 0  # padding “predicts” padding: always right
    ours = kt.metrics.TokenAccuracy()
    ours.update_state(y_true, y_pred)
    naive = np.mean(y_pred.argmax(-1) == y_true)
    losses = token_losses(y_pred.astype("float32"), tf.constant(y_true, tf.int32)).numpy()
    per_token = losses.sum() / np.count_nonzero(y_true)
    print(
        f"{columns:3} columns: ours {float(ours.result()):.2f}, all positions {naive:.2f};", end=" "
    )
    print(f"loss per token {per_token:.3f}, mean of the matrix {losses.mean():.3f}")
    assert float(ours.result()) == 1.0
assert abs(first_loss - np.log(V)) < 1
assert large > 2 * first_loss

# %% [markdown]
# Loss and accuracy are sums over real tokens, divided by their number. Padding does not count.

# %% [markdown]
# ## 6.1 Beam search
#
# Greedy search takes the best next token. Beam search keeps the W best hypotheses. A score is log
# P / ((5 + length) / 6)^α: a plain log P would favour short outputs.


# %% tags=["reference"]
def beam_search(step, beam, limit, alpha=0.6, start=2, end=3, never=(0, 1, 2)):
    """Return score and tokens of the best hypothesis.

    ``step`` returns the log-probabilities (W, V) of the tokens after W prefixes (W, T).
    """

    def penalty(length):
        return ((5 + length) / 6) ** alpha

    live, finished = [(0.0, (start,))], []
    wide = 2 * beam if beam > 1 else 1  # a beam of 1 is greedy search
    for length in range(1, limit + 1):
        log_p = np.array(step(np.array([tokens for _, tokens in live])), float)  # (W, V)
        log_p[:, list(never)] = -np.inf
        total = np.array([[sum_] for sum_, _ in live]) + log_p  # (W, V)
        best = np.argsort(-total, axis=None, kind="stable")[:wide]
        grown = []
        for row, token in zip(*np.unravel_index(best, total.shape), strict=True):
            grown.append((total[row, token], (*live[row][1], int(token))))
        grown = [one for one in grown if np.isfinite(one[0])]
        finished += [
            (sum_ / penalty(length), tokens) for sum_, tokens in grown if tokens[-1] == end
        ]
        live = [one for one in grown if one[1][-1] != end][:beam]
        # A sum only falls, and the penalty is greatest at the limit: no live one can do better.
        if not live or (finished and live[0][0] / penalty(limit) <= max(finished)[0]):
            break
    score, tokens = max(finished) if finished else (live[0][0] / penalty(length), live[0][1])
    return score, list(tokens[1:])


# %% [markdown]
# **Predict:** is it the same translation, with the same score, as the package's search, which runs
# inside a TensorFlow graph with a cache?


# %%
def next_log_p(line):
    """Return the step function of one source line, without a cache."""
    ids = [*tokenizer.source.encode([line])[0], END]

    def step(prefixes):
        sources = np.tile([ids], (len(prefixes), 1)).astype("int32")
        logits = model.predict_on_batch({"source": sources, "target": prefixes.astype("int32")})
        return tf.nn.log_softmax(logits[:, -1]).numpy()

    return step, len(ids) - 1


search = run.config.search
for line in ["I love you", "She is reading a book."]:
    step, length = next_log_p(line)
    score, tokens = beam_search(step, search.beam, length + search.max_extra, search.alpha)
    ours = translator.translate([line])[0]
    text = tokenizer.target.decode([tokens[:-1]])[0]
    print(f"{text:10} {score:.4f}   package: {ours.text} {ours.score:.4f}")
    assert text == ours.text
    assert np.isclose(score, ours.score, atol=1e-4)

# %% [markdown]
# ## Exercises
#
# **1.** The order of the source words is shuffled before the encoder, and the positions are left
# out. Which of the cross-attention's outputs change?
#
# <details><summary>Answer</summary>
# None. The encoder's outputs are shuffled too, and a weighted mean does not depend on the order of
# its terms.
# </details>

# %%
layer = kt.layers.MultiHeadAttention(d_model=12, heads=3, key_width=4, value_width=4)
question, answers = random.normal(size=(1, 2, 12)), random.normal(size=(1, 5, 12))
straight, shuffled = (
    layer(question, answers[:, order]) for order in ([0, 1, 2, 3, 4], [3, 1, 4, 0, 2])
)
assert np.allclose(straight, shuffled, atol=1e-5)
print("the same outputs")

# %% [markdown]
# **2.** A Pre-LN model of 64 features is built with 8 heads instead of 4. How many more weights
# has it?
#
# <details><summary>Answer</summary>
# None: the heads share the width. Only the width of one head changes, 16 to 8.
# </details>

# %%
counts = [
    kt.build(
        kt.ModelConfig(
            source_vocabulary_size=50,
            target_vocabulary_size=50,
            encoder_layers=1,
            decoder_layers=1,
            d_model=64,
            heads=heads,
            d_ff=128,
            norm="pre",
        )
    ).count_params()
    for heads in (4, 8)
]
print(counts)
assert counts[0] == counts[1]

# %% [markdown]
# **3.** α = 0 and a beam of 1. Which search is that? Can a beam of 4 find a *lower*
# log-probability?
#
# <details><summary>Answer</summary>
# Greedy search. A wider beam usually finds a higher one. There is no guarantee: the hypothesis of
# greedy search can drop out of the beam, although it would be the best in the end. The cell
# compares one sentence.
# </details>

# %%
step, length = next_log_p("Do you have time tomorrow?")
found = {beam: beam_search(step, beam, length + 20, alpha=0.0)[0] for beam in (1, 4)}
for beam, score in found.items():
    print(f"beam {beam}: log P = {score:.4f}")
assert all(score < 0 for score in found.values())
