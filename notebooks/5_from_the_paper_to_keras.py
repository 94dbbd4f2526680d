# %% [markdown]
# # 5 From the paper to Keras
#
# Each equation of *Attention Is All You Need* beside the code that computes it. The code is shown
# as it is: `inspect` reads it from the installed package. Then KerasHub's layers stand beside ours,
# with the same weights: they must give the same numbers. At the end you build a model of your own
# from the layers and train it with `compile` and `fit`.
#
# Shapes: B batch, S source length, T target length, H heads, D model width, K width of one head,
# V vocabulary size.

# %% tags=["skip-execution"]
# Skip this cell where the package is installed. It replaces nothing that Colab ships; red lines
# about other packages are harmless.
# %pip install "keras-translate[plots]"

# %% tags=["setup"]
MINUTES = 1  # on two CPU cores

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
import ast
import inspect
import textwrap

from IPython.display import Markdown

from keras_transformer.model import attention, embedding, masks, positions, sublayer, transformer


def show(function):
    """Show the source of a function without its docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    lines, (tree,) = source.splitlines(), ast.parse(source).body
    first = tree.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        del lines[first.lineno - 1 : first.end_lineno]
    return Markdown("```python\n" + "\n".join(lines).strip() + "\n```")


random = np.random.default_rng(0)


def normal(*shape):
    """Return random numbers as a float32 tensor."""
    return tf.constant(random.normal(size=shape), tf.float32)


# %% [markdown]
# ## 3.2.1 Scaled dot-product attention, equation 1
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V$$
#
# **Look for:** where is the division, and why there? What happens to a query that may attend to
# nothing?

# %%
show(attention.scaled_dot_product_attention)

# %%
q, k, v = normal(2, 4, 8), normal(2, 6, 8), normal(2, 6, 5)  # (B, T, K), (B, S, K), (B, S, K')
expected = (
    tf.nn.softmax(q @ tf.transpose(k, [0, 2, 1]) / 8**0.5) @ v
)  # equation 1, letter by letter
output, weights = attention.scaled_dot_product_attention(q, k, v)
print(f"equation 1 − code: {np.abs(expected - output).max():.0e}")
assert output.shape == (2, 4, 5)
assert weights.shape == (2, 4, 6)
assert np.allclose(expected, output, atol=1e-5)

# %% [markdown]
# ## 3.2.2 Multi-head attention
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, …, \mathrm{head}_h)W^O, \quad
# \mathrm{head}_i = \mathrm{Attention}(QW_i^Q, KW_i^K, VW_i^V)$$
#
# **Look for:** the six steps project → reshape → transpose → attend → transpose → reshape.

# %%
show(attention.MultiHeadAttention.call)

# %%
show(attention.split_heads)

# %% [markdown]
# **Predict:** Keras has a layer of the same name. With the same weights, how far apart are they?
# And KerasHub's, which can keep a cache?

# %%
import keras_nlp  # KerasHub, under the name that all supported versions have

x, memory = normal(2, 4, 8), normal(2, 6, 8)  # (B, T, D), (B, S, D)
seen = tf.constant([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]) == 1  # True: a real token
ours = kt.layers.MultiHeadAttention(d_model=8, heads=2, key_width=4, value_width=4)
expected = ours(x, memory, seen[:, None, None, :])
for peer in (keras.layers.MultiHeadAttention, keras_nlp.layers.CachedMultiHeadAttention):
    theirs = peer(num_heads=2, key_dim=4, use_bias=False)
    mask = tf.repeat(seen[:, None], 4, axis=1)  # (B, T, S)
    theirs(x, memory, attention_mask=mask)
    theirs.set_weights(
        [np.reshape(w, t.shape) for w, t in zip(ours.weights, theirs.weights, strict=True)]
    )
    difference = np.abs(expected - theirs(x, memory, attention_mask=mask)).max()
    print(f"{peer.__name__}: {difference:.0e}")
    assert difference < 1e-5

# %% [markdown]
# Two names differ: Keras says `value` and `key` for our `memory`, and its kernels are (D, H, K)
# where ours are (D, H · K), the same numbers.
#
# ## 3.2.3 Masks
#
# “We need to prevent leftward information flow in the decoder to preserve the auto-regressive
# property.”

# %%
show(masks.look_ahead_mask)

# %%
show(masks.padding_mask)

# %%
print(masks.look_ahead_mask(3, 3)[0, 0].numpy().astype(int))
assert (masks.look_ahead_mask(3, 3)[0, 0].numpy() == np.tril(np.ones((3, 3), bool))).all()

# %% [markdown]
# ## 3.3 Position-wise feed-forward networks, equation 2
#
# $$\mathrm{FFN}(x) = \max(0, xW_1 + b_1)W_2 + b_2$$

# %%
show(kt.layers.FeedForward.call)

# %%
ffn = kt.layers.FeedForward(d_model=8, d_ff=12)
ffn(x)
w1, b1, w2, b2 = ffn.weights
print(f"equation 2 − code: {np.abs(tf.maximum(0.0, x @ w1 + b1) @ w2 + b2 - ffn(x)).max():.0e}")
assert np.allclose(tf.maximum(0.0, x @ w1 + b1) @ w2 + b2, ffn(x), atol=1e-5)

# %% [markdown]
# ## 3.1 LayerNorm(x + Sublayer(x))
#
# “We employ a residual connection around each of the two sub-layers, followed by layer
# normalization.”

# %%
show(sublayer.SublayerConnection.call)

# %% [markdown]
# Later models normalise first. In this package that is another class with another `call`:

# %%
from keras_transformer.model.variants.pre_norm import PreNormConnection

show(PreNormConnection.call)

# %% [markdown]
# **Predict:** the sub-layer returns zeros. What does each of the two return?

# %%
zero = lambda y: tf.zeros_like(y)  # noqa: E731
wide = 10 * normal(2, 4, 8)
post = sublayer.SublayerConnection()(wide, sublayer=zero)
pre = PreNormConnection()(wide, sublayer=zero)
print(f"standard deviation of a token: {np.std(post[0, 0]):.2f} and {np.std(pre[0, 0]):.2f}")
assert np.isclose(np.std(post[0, 0]), 1, atol=1e-3)
assert (pre.numpy() == wide.numpy()).all()

# %% [markdown]
# In Pre-LN no normalization interrupts the residual path from the first layer to the last. So the
# stack needs one more LayerNorm at its end.
#
# ## 3.1 A layer, a stack, figure 1

# %%
show(kt.layers.DecoderLayer.call)

# %%
show(transformer.build)

# %% [markdown]
# ## 3.4 Embeddings and softmax
#
# “We share the same weight matrix between the two embedding layers and the pre-softmax linear
# transformation. In the embedding layers, we multiply those weights by √d_model.”

# %%
show(embedding.TokenEmbedding.embed)

# %%
show(embedding.TokenEmbedding.project)

# %%
ours = kt.layers.TokenEmbedding(vocabulary_size=11, d_model=8)
ids = tf.constant([[3, 1, 4]])
embedded = ours(ids)
theirs = keras_nlp.layers.ReversibleEmbedding(11, 8)
theirs(ids)
theirs.set_weights(ours.get_weights())
print(f"embedding − KerasHub · √D: {np.abs(embedded - theirs(ids) * 8**0.5).max():.0e}")
logits, peer = ours(x, reverse=True), theirs(x, reverse=True)
print(f"logits − KerasHub:         {np.abs(logits - peer).max():.0e}")
assert np.allclose(embedded, theirs(ids) * 8**0.5, atol=1e-6)
assert np.allclose(logits, peer, atol=1e-5)

# %% [markdown]
# ## 3.5 Positional encoding
#
# $$PE_{(pos,2i)} = \sin(pos / 10000^{2i/d}), \quad PE_{(pos,2i+1)} = \cos(pos / 10000^{2i/d})$$

# %%
show(positions.sinusoidal_encoding)

# %%
theirs = keras_nlp.layers.SinePositionEncoding()(tf.zeros([1, 30, 16]))[0]
ours = positions.sinusoidal_encoding(30, 16)
print(f"ours − KerasHub: {np.abs(ours - theirs).max():.0e}")
fig, axes = plt.subplots(1, 2, figsize=(8, 2.4), sharey=True)
for axis, table, title in zip(axes, (ours, theirs), ("this package", "KerasHub"), strict=True):
    axis.imshow(table, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    axis.set(title=title, xlabel="feature")
axes[0].set_ylabel("position")
plt.show()
assert np.allclose(ours, theirs, atol=1e-5)

# %% [markdown]
# Both interleave sines and cosines, as the paper writes it. Code with two halves has the same
# columns in another order; its weights cannot be exchanged.
#
# ## Whole layers beside KerasHub's
#
# **Predict:** an encoder layer and a decoder layer, Post-LN and Pre-LN, with the same weights. How
# far apart are they, at real tokens and at padding?


# %%
def named_weights(layer):
    """Return the weights of one of our layers by KerasHub's names."""
    found = {}
    for name in ("self_attention", "cross_attention"):
        for part in ("query", "key", "value", "output"):
            if hasattr(layer, name):
                kernel = getattr(getattr(layer, name), f"{part}_kernel")
                found[f"{name}/{part}/kernel"] = kernel
    for theirs, ours in (("intermediate", "inner"), ("output", "outer")):
        for kind in ("kernel", "bias"):
            found[f"feedforward_{theirs}_dense/{kind}"] = getattr(
                layer.feed_forward, f"{ours}_{kind}"
            )
    for theirs, ours in (
        ("self_attention", "self_attention"),
        ("cross_attention", "cross_attention"),
        ("feedforward", "feed_forward"),
    ):
        if hasattr(layer, f"{ours}_connection"):
            norm = getattr(layer, f"{ours}_connection").normalization
            found[f"{theirs}_layer_norm/gamma"] = norm.gamma
            found[f"{theirs}_layer_norm/beta"] = norm.beta
    return found


def give_weights(ours, theirs):
    """Copy our weights into KerasHub's layer; the biases of its projections stay 0."""
    source = named_weights(ours)
    for weight in theirs.weights:
        name = weight.path.partition("/")[2]  # without the name of the layer
        name = name.replace("attention_layer/", "attention/").replace("attention_output", "output")
        if name in source:
            weight.assign(np.reshape(source.pop(name), weight.shape))
    assert not source, f"not copied: {list(source)}"


source_ids = tf.constant([[5, 6, 7, 8, 3, 0], [8, 3, 0, 0, 0, 0]])  # (B, S)
target_ids = tf.constant([[2, 5, 6, 7], [2, 8, 0, 0]])  # (B, T)
source_real, target_real = source_ids != 0, target_ids != 0
source_mask, target_mask = masks.padding_mask(source_ids), masks.padding_mask(target_ids)
print("layer               real tokens  all")
for norm in ("post", "pre"):
    config = kt.ModelConfig(
        d_model=8, heads=2, d_ff=12, norm=norm, dropout=0.0, attention_dropout=0.0
    )
    options = {
        "intermediate_dim": 12,
        "num_heads": 2,
        "layer_norm_epsilon": 1e-6,
        "normalize_first": norm == "pre",
    }
    encoder, decoder = kt.layers.EncoderLayer(config), kt.layers.DecoderLayer(config)
    pairs = [
        (
            encoder,
            keras_nlp.layers.TransformerEncoder(**options),
            lambda layer: layer(memory, source_mask),
            lambda layer: layer(memory, padding_mask=source_real),
            source_real,
        ),
        (
            decoder,
            keras_nlp.layers.TransformerDecoder(**options),
            lambda layer: layer(x, memory, target_mask, source_mask),
            lambda layer: layer(
                x,
                memory,
                decoder_padding_mask=target_real,
                encoder_padding_mask=source_real,
            ),
            target_real,
        ),
    ]
    for ours, theirs, run_ours, run_theirs, real in pairs:
        run_ours(ours)  # builds the weights
        before = run_theirs(theirs)
        for weight in ours.weights:  # no gain of 1 and no bias of 0 may hide a mistake
            weight.assign(weight + normal(*weight.shape) * 0.3)
        give_weights(ours, theirs)
        difference = np.abs(run_ours(ours) - run_theirs(theirs))
        name = f"{type(theirs).__name__}, {norm}"
        print(f"{name:25} {difference[real].max():.0e}  {difference.max():.0e}")
        assert difference[real].max() < 1e-4
        assert np.abs(run_theirs(theirs) - before)[real].max() > 0.1  # the weights do matter

# %% [markdown]
# Equal. Only the real tokens matter: outputs at padding are never read.
#
# What differs by design:
#
# | subject | the paper | this package | KerasHub |
# |---|---|---|---|
# | biases of W_Q, W_K, W_V, W_O | none | none | yes, 0 at first |
# | ε of LayerNorm | not named | 1e-6 | 1e-5 |
# | order | Post-LN | `norm: post` or `pre` | `normalize_first` |
# | mask | hides illegal keys | True = may look, explicit | True = may look, explicit or implicit |
# | stack, embeddings, figure 1 | yes | `kt.build` | you write it |
#
# ## 5.3 The learning rate, equation 3
#
# $$lrate = d^{-0.5} · \min(step^{-0.5}, step · warmup^{-1.5})$$

# %%
show(kt.NoamSchedule.__call__)

# %%
schedule = kt.NoamSchedule(512, warmup_steps=4000)
for step in (1, 4_000, 100_000):
    paper = 512**-0.5 * min(step**-0.5, step * 4_000**-1.5)
    print(f"step {step:7,}: {paper:.1e}")
    assert np.isclose(float(schedule(step - 1)), paper, rtol=1e-5)  # Keras counts from 0

# %% [markdown]
# The paper's Adam has β₂ = 0.98 and ε = 1e-9. Keras' defaults are 0.999 and 1e-7, so set both.
#
# ## 5.4 Label smoothing

# %%
from keras_transformer.training.loss import token_losses

show(token_losses)

# %%
logits, labels = normal(2, 3, 7), tf.constant([[1, 2, 3], [4, 5, 6]])
theirs = keras.losses.CategoricalCrossentropy(True, label_smoothing=0.1, reduction=None)
difference = np.abs(token_losses(logits, labels, 0.1) - theirs(tf.one_hot(labels, 7), logits)).max()
print(f"ours − Keras: {difference:.0e}; ours needs no one-hot labels of (B, T, V)")
assert difference < 1e-5

# %% [markdown]
# ## A model of your own, in plain Keras
#
# A toy: read a sequence, write it backwards. The layers are ours; the model, `compile` and `fit`
# are Keras'.
#
# **Predict:** to write backwards, where must the decoder look? Sketch the map of its
# cross-attention.

# %%
SIZE, LENGTH, STEPS = 12, 6, 100 if QUICK else 1_000

config = kt.ModelConfig(d_model=32, heads=2, d_ff=64, dropout=0.0, attention_dropout=0.0)
source = keras.Input((None,), dtype="int32", name="source")
target = keras.Input((None,), dtype="int32", name="target")
embed = kt.layers.TokenEmbedding(SIZE, 32, name="embedding")
source_mask, target_mask = kt.layers.PaddingMask()(source), kt.layers.PaddingMask()(target)
memory = kt.layers.PositionalEncoding()(embed(source))
memory = kt.layers.EncoderLayer(config)(memory, source_mask)  # (B, S, D)
y = kt.layers.PositionalEncoding()(embed(target))
layer = kt.layers.DecoderLayer(config)
y, *_, weights = layer(y, memory, target_mask, source_mask, return_weights=True)
model = keras.Model({"source": source, "target": target}, embed(y, reverse=True))
look = keras.Model(model.input, weights)  # (B, H, T, S)


def sequences(count, seed):
    """Return sources (N, S), and what the decoder reads and must write, (N, S + 1)."""
    ids = np.random.default_rng(seed).integers(4, SIZE, (count, LENGTH)).astype("int32")
    start, end = np.full((count, 1), 2, "int32"), np.full((count, 1), 3, "int32")
    backwards = ids[:, ::-1]
    return ids, np.hstack([start, backwards]), np.hstack([backwards, end])


ids, inputs, labels = sequences(64 * STEPS, seed=0)
data = tf.data.Dataset.from_tensor_slices(({"source": ids, "target": inputs}, labels)).batch(64)
model.compile(
    keras.optimizers.Adam(kt.NoamSchedule(32, warmup_steps=200), 0.9, 0.98, 1e-9),
    kt.losses.LabelSmoothedCrossEntropy(0.0),
    metrics=[kt.metrics.TokenAccuracy()],
)
losses = []
keep = keras.callbacks.LambdaCallback(
    on_train_batch_end=lambda _, logs: losses.append(logs["loss"])
)
model.fit(data.map(kt.losses.weight_tokens), callbacks=[keep], shuffle=False, verbose=0)
print(f"weights: {model.count_params():,}; first loss {losses[0]:.2f}, ln V = {np.log(SIZE):.2f}")

# %%
ids, inputs, labels = sequences(200, seed=1)
written = np.full((200, 1), 2, "int32")  # the start token, then the model's own words
for _ in range(LENGTH + 1):
    logits = model({"source": ids, "target": written})[:, -1]
    written = np.hstack([written, np.argmax(logits, axis=-1)[:, None].astype("int32")])
exact = np.mean((written[:, 1:] == labels).all(axis=1))
print(f"{'quick mode, not meant to be good: ' if QUICK else ''}written right: {exact:.0%}")

where = np.mean(look({"source": ids, "target": inputs}), axis=(0, 1))  # (T, S)
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8))
left.plot(losses)
left.set(title="loss while training (running mean)", xlabel="update", ylim=(0, None))
image = right.imshow(where, cmap="Blues", vmin=0, vmax=1)
right.set(title="cross-attention, mean of heads", xlabel="key: source", ylabel="query")
fig.colorbar(image, ax=right)
plt.show()
assert np.allclose(where.sum(axis=1), 1, atol=1e-5)
assert losses[-1] < losses[0]
assert QUICK or exact > 0.95

# %% [markdown]
# ## Exercises
#
# **1.** Our attention has no bias. In Keras' layer, with biases: which of the four changes nothing,
# whatever its value?
#
# <details><summary>Answer</summary>
# That of the keys. It adds q · b to all scores of a row, and a constant in all scores does not
# change a softmax.
# </details>

# %%
theirs = keras.layers.MultiHeadAttention(2, 4)
before = theirs(x, x)
for weight in theirs.weights:
    if weight.path.endswith("key/bias"):
        weight.assign(weight + 5.0)
print(f"moved by {np.abs(theirs(x, x) - before).max():.0e}")
assert np.allclose(theirs(x, x), before, atol=1e-4)

# %% [markdown]
# **2.** `PositionalEncoding` is removed from the source of the toy model. Can it still write
# backwards?
#
# <details><summary>Answer</summary>
# No. The encoder's outputs are then a bag of tokens: the decoder cannot know which came last. The
# cell shuffles a source in such a model and gets the same logits.
# </details>

# %%
layer, embed = kt.layers.EncoderLayer(config), kt.layers.TokenEmbedding(SIZE, 32)
ids = tf.constant([[5, 6, 7, 8]])
mask = masks.padding_mask(ids)
straight, turned = layer(embed(ids), mask), layer(embed(ids[:, ::-1]), mask)
assert np.allclose(straight[:, ::-1], turned, atol=1e-5)
print("the outputs only change places")

# %% [markdown]
# **3.** KerasHub's layer is Post-LN with ε = 1e-5, ours has 1e-6. When can you see that?
#
# <details><summary>Answer</summary>
# When the variance of a token is small, of the order of ε. At variance 1 it is the sixth digit.
# </details>

# %%
for scale in (1.0, 1e-3):
    small = scale * normal(1, 1, 64)
    outputs = [keras.layers.LayerNormalization(epsilon=e)(small) for e in (1e-5, 1e-6)]
    print(
        f"standard deviation {scale}: outputs differ by {np.abs(outputs[0] - outputs[1]).max():.0e}"
    )
    assert (np.abs(outputs[0] - outputs[1]).max() < 1e-4) == (scale == 1.0)
