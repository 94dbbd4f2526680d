# %% [markdown]
# # 1 Attention from scratch
#
# One idea of *Attention Is All You Need* (Vaswani et al., 2017), first as a loop, then as a matrix
# product, then as the Keras layer of this package. All three give the same numbers.
#
# Each part asks a question. Write down your guess before you run the cell below it.
#
# Shapes: B batch, T queries, S keys, H heads, D model width, K width of one head.

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

# %% [markdown]
# ## Before the paper: attention in four steps
#
# Bahdanau et al. (2015) let a recurrent decoder look back at the encoder's states h₁ … h₄.
#
# 1. Score each state: e_j = v · tanh(W s + U h_j), with s, the decoder's state of the step before.
# 2. Turn scores into weights α with a softmax.
# 3. Mix the states: c = Σ α_j h_j.
# 4. Use c to choose the next word.
#
# The score is *additive*. The paper replaces it by a dot product and drops the recurrence.
#
# **Predict:** h₂ is the only state that resembles s. Which weight is the largest, and what do
# the four weights sum to?

# %%
h = np.array([[0.0, 1.0], [1.0, 0.2], [-1.0, 0.5], [0.0, -1.0]])  # (4, 2) encoder states
s = np.array([1.0, 0.0])  # (2,) decoder state of the step before
W, U, v = np.eye(2), np.eye(2), np.array([1.0, 0.0])
e = np.tanh(s @ W + h @ U) @ v  # (4,)
alpha = np.exp(e) / np.exp(e).sum()
c = alpha @ h  # (2,)
print("scores ", e)
print("weights", alpha, "sum", alpha.sum())
print("context", c)
assert alpha.argmax() == 1
assert np.isclose(alpha.sum(), 1)

# %% [markdown]
# ## 3.2.1 Queries, keys and values
#
# You enter a library with a question (the **query**). Each book has a title on its spine (the
# **key**) and pages inside (the **value**). You compare your question with every title, then read
# a little of every book: much of those whose titles fit, almost nothing of the others.
#
# Equation 1 of the paper:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V$$


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


# %% [markdown]
# Two queries, two keys and two values, small enough to work out in your head.
#
# **Predict:** the scores of the first query are 1 and 1. Which weights follow? Which output, if the
# values are (1, 2) and (3, 4)?

# %%
Q = np.array([[1.0, 0, 1], [0, 1, 1]])  # (T, K)
K = np.array([[1.0, 1, 0], [0, 1, 1]])  # (S, K)
V = np.array([[1.0, 2], [3, 4]])  # (S, K'): its width may differ from K
output, weights = attention(Q, K, V)
steps = {
    "Q Kᵀ": Q @ K.T,
    "Q Kᵀ / √3": Q @ K.T / np.sqrt(3),
    "weights": weights,
    "output": output,
}

widths = {"width_ratios": [3, 3, 2, 2, 2, 2, 2]}
fig, axes = plt.subplots(1, 7, figsize=(10, 1.7), gridspec_kw=widths)
inputs = {"Q": Q, "K": K, "V": V}
for axis, (name, matrix) in zip(axes, (inputs | steps).items(), strict=True):
    axis.imshow(np.ones_like(matrix), cmap="gray", vmin=0, vmax=1)
    color = COLORS.get(name, "black")
    for (row, column), number in np.ndenumerate(matrix):
        axis.text(column, row, f"{number:.3g}", ha="center", va="center", color=color)
    axis.set_title(name, color=color)
    axis.set_xticks(np.arange(-0.5, matrix.shape[1]), [])
    axis.set_yticks(np.arange(-0.5, matrix.shape[0]), [])
    axis.grid(color="lightgray")
    axis.tick_params(length=0)
plt.show()
assert (steps["Q Kᵀ"] == [[1, 1], [1, 2]]).all()
assert np.allclose(steps["Q Kᵀ / √3"], [[0.58, 0.58], [0.58, 1.15]], atol=0.005)
assert np.allclose(weights, [[0.5, 0.5], [0.36, 0.64]], atol=0.005)
assert np.allclose(output, [[2, 3], [2.28, 3.28]], atol=0.005)

# %% [markdown]
# Without the division the weights of the second query would be sharper: (.27, .73).

# %%
unscaled = softmax(Q @ K.T)
print(unscaled[1], "→", unscaled[1] @ V)
assert np.allclose(unscaled[1], [0.27, 0.73], atol=0.005)
assert np.allclose(unscaled[1] @ V, [2.46, 3.46], atol=0.005)

# %% [markdown]
# ### Loop = matrix = layer
#
# **Predict:** how far apart are a loop over single numbers, the matrix product above, and the
# package's function?

# %% tags=["reference"]
import math


def attention_loop(queries, keys, values):
    """Return the output of `attention`, one number after the other."""
    output = np.zeros((len(queries), values.shape[1]))  # (T, K')
    for t, query in enumerate(queries):
        scores = []
        for key in keys:
            dot = sum(a * b for a, b in zip(query, key, strict=True))
            scores.append(dot / math.sqrt(len(key)))
        powers = [math.exp(score) for score in scores]
        for power, value in zip(powers, values, strict=True):
            output[t] += power / sum(powers) * value
    return output


# %%
from keras_transformer.model.attention import scaled_dot_product_attention

random = np.random.default_rng(0)
q, k, v = (random.normal(size=size) for size in ((5, 8), (7, 8), (7, 6)))  # T 5, S 7
looped = attention_loop(q, k, v)
matrix = attention(q, k, v)[0]
tensors = (tf.constant(x, tf.float32) for x in (q, k, v))
layer = scaled_dot_product_attention(*tensors)[0].numpy()
print(f"loop − matrix:  {np.abs(looped - matrix).max():.0e}")
print(f"matrix − layer: {np.abs(matrix - layer).max():.0e}, because the layer counts in float32")
assert np.allclose(looped, matrix, atol=1e-12)
assert np.allclose(matrix, layer, atol=1e-5)

# %% [markdown]
# ### A row to look at: “cat” in “The cat sat on the mat”
#
# The vectors are made by hand. Feature 1: thing, 2: action, 3: place word. The query of “cat” asks
# for an action: *what does it do?*
#
# **Predict:** which word gets most of the weight?

# %%
words = ["The", "cat", "sat", "on", "the", "mat"]
keys = np.array([[0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 0, 3], [0, 0, 0], [3, 0, 1.0]])  # (S, K)
query = np.array([[0.5, 1.5, 0.0]])  # (1, K) of “cat”
row = attention(query, keys, keys)[1][0]

fig, axis = plt.subplots(figsize=(6, 2.4))
axis.bar(range(6), row, color=COLORS["Q"])
axis.set(xticks=range(6), xticklabels=words, ylim=(0, 1), ylabel="weight", title="“cat” looks at")
plt.show()
assert words[row.argmax()] == "sat"
assert np.isclose(row.sum(), 1)

# %% [markdown]
# In a trained model three matrices make these vectors: Q = X W_Q, K = X W_K, V = X W_V.

# %% [markdown]
# ## 3.2.1 Why divide by √d_k?
#
# The footnote of the paper: if the components of q and k are independent with mean 0 and variance
# 1, then q · k has mean 0 and variance d_k.
#
# **Predict:** 16 keys, and a query that knows nothing. How much weight does the luckiest key get at
# d_k = 512 without the division? With it?

# %%
widths, draws = [4, 16, 64, 512], 200 if QUICK else 2_000


def largest_weights(width, scale):
    """Return the largest of 16 weights, and the size of the softmax's gradient, of each draw."""
    random = np.random.default_rng(0)
    q = random.normal(size=(draws, width))
    k = random.normal(size=(draws, 16, width))
    scores = np.einsum("nk,nsk->ns", q, k) * scale  # (N, 16)
    p = softmax(scores)
    # ∂p/∂scores = diag(p) − p pᵀ, (N, 16, 16); its norm says how much a weight can still learn.
    jacobian = p[:, :, None] * np.eye(16) - p[:, :, None] * p[:, None, :]
    return scores.var(), p.max(axis=1), np.linalg.norm(jacobian, axis=(1, 2))


table = {
    scaled: [largest_weights(d, d**-0.5 if scaled else 1.0) for d in widths]
    for scaled in (False, True)
}
print("d_k   Var(q·k)  largest weight (median)  gradient (median)   the same with / √d_k")
for d, (variance, largest, gradient), (_, fair, healthy) in zip(
    widths, table[False], table[True], strict=True
):
    print(
        f"{d:3}  {variance:9.1f}  {np.median(largest):23.2f}  {np.median(gradient):17.4f}"
        f"   {np.median(fair):.2f}  {np.median(healthy):.2f}"
    )

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 2.8))
for scaled, label in ((False, "q · k"), (True, "q · k / √d_k")):
    left.plot(widths, [np.median(x[1]) for x in table[scaled]], "o-", label=label)
    right.plot(widths, [np.median(x[2]) for x in table[scaled]], "o-", label=label)
left.set(title="largest of 16 weights, median", xlabel="d_k", xscale="log", ylim=(0, 1.05))
right.set(title="size of the softmax's gradient, median", xlabel="d_k", xscale="log", yscale="log")
left.legend()
plt.show()
assert all(np.isclose(x[0], d, rtol=0.25) for d, x in zip(widths, table[False], strict=True))
assert np.median(table[False][-1][1]) > 0.97
assert all(np.median(x[1]) < 0.3 for x in table[True])
assert np.median(table[True][-1][2]) > 50 * np.median(table[False][-1][2])

# %% [markdown]
# Without the division the softmax gives all its weight to one random key, and its gradient
# vanishes: the choice is never corrected.
#
# The width that counts is that of **one head**, d_k, not d_model: the dot product has d_k terms.
#
# ### Is the division indispensable?
#
# **Predict:** T5 leaves it out. How can that work?

# %%
x = random.normal(size=(6, 32))  # (T, D)
w_q, w_k = random.normal(size=(2, 32, 16)) / np.sqrt(32)
with_division = softmax((x @ w_q) @ (x @ w_k).T / np.sqrt(16))
smaller_matrix = softmax((x @ (w_q / np.sqrt(16))) @ (x @ w_k).T)
print(f"difference: {np.abs(with_division - smaller_matrix).max():.0e}")
assert np.allclose(with_division, smaller_matrix)

# %% [markdown]
# A smaller initial W_Q gives the same weights, and T5 has one.
#
# ### Why two matrices, W_Q and W_K, and not one?
#
# Scores are x W_Q W_Kᵀ xᵀ. So one matrix W = W_Q W_Kᵀ would be enough.
#
# **Predict:** at D = 512 and d_k = 64, which holds more numbers: the pair or the product? Is “a
# looks at b” the same as “b looks at a”?

# %%
w_q, w_k = random.normal(size=(2, 512, 64))
product = w_q @ w_k.T  # (D, D)
print(f"numbers: pair {w_q.size + w_k.size:,}, product {product.size:,}")
print(f"rank of the product: {np.linalg.matrix_rank(product)} of {len(product)}")
print(f"W − Wᵀ: up to {np.abs(product - product.T).max():.0f}")
assert w_q.size + w_k.size == 65_536
assert product.size == 262_144
assert np.linalg.matrix_rank(product) == 64
assert not np.allclose(product, product.T)

# %% [markdown]
# The pair is a cheap factorisation of rank d_k. The product is not symmetric: “cat” may look at
# “sat” while “sat” looks elsewhere.

# %% [markdown]
# ## 3.2.3 Masks: where a query may look
#
# One convention in Keras and in this package: **True = may look**. (Some older tutorials write 1 =
# hidden. With an inverted mask the model looks at exactly what it should not: the loss becomes far
# too good.)
#
# A decoder needs two masks: one hides the future, the other the padding after short sentences. A
# key is allowed if both allow it.
#
# **Predict:** a target of three tokens, padded to five. How many of the 25 entries stay allowed?

# %%
from keras_transformer.model.masks import look_ahead_mask, padding_mask

ids = tf.constant([[5, 6, 7, 0, 0]])  # (B, T); 0 is padding
look_ahead = look_ahead_mask(5, 5).numpy()  # (1, 1, T, S)
padding = padding_mask(ids).numpy()  # (B, 1, 1, S)
both = look_ahead & padding  # (B, 1, T, S)

fig, axes = plt.subplots(1, 3, figsize=(9, 3))
tokens = ["a", "b", "c", "pad", "pad"]
for axis, mask, title in zip(
    axes, (look_ahead, padding, both), ("look-ahead", "padding", "both"), strict=True
):
    picture = np.broadcast_to(mask[0, 0], (5, 5))
    axis.imshow(picture, cmap="Greens", vmin=0, vmax=1.5)
    axis.set(xticks=range(5), yticks=range(5), xticklabels=tokens, yticklabels=tokens)
    axis.set(title=f"{title}: {picture.sum()} allowed", xlabel="key", ylabel="query")
plt.show()
assert (look_ahead[0, 0] == np.tril(np.ones((5, 5), bool))).all()
assert padding[0, 0].tolist() == [[True, True, True, False, False]]
assert both.sum() == 1 + 2 + 3 + 3 + 3

# %% [markdown]
# The rows of padded *queries* are not hidden. They compute something, and the loss ignores it.
# Hiding them too would leave rows with nothing allowed.
#
# **Predict:** the look-ahead mask the wrong way round. Where does the first token look?

# %%
for name, mask in {"True = may look": look_ahead[0, 0], "the wrong way": ~look_ahead[0, 0]}.items():
    _, weights = attention(np.eye(5), np.eye(5), np.eye(5), mask)
    print(f"{name:16} first token {weights[0].round(2)}  last token {weights[-1].round(2)}")
assert weights[0, 0] == 0  # the future, and only that
assert np.isclose(weights[0, 1:].sum(), 1)
assert weights[-1].sum() == 0  # the last token has no future: nothing is left

# %% [markdown]
# At the future only: at the very tokens that it has to predict.
#
# ### A query that may look at nothing
#
# **Predict:** the softmax of a row that is −∞ everywhere? And of one that is −1e9 everywhere?

# %%
with np.errstate(invalid="ignore"):
    print("−∞  :", softmax(np.full(4, -np.inf)))
print("−1e9:", softmax(np.full(4, -1e9)))
nowhere = np.zeros((2, 2), bool)
print("ours:", attention(Q, K, V, nowhere)[0].tolist())

source = tf.Variable(Q[None], dtype=tf.float32)
with tf.GradientTape() as tape:
    result, seen = scaled_dot_product_attention(source, source, source, tf.constant(nowhere))
    total = tf.reduce_sum(result)
gradient = tape.gradient(total, source).numpy()
assert np.isnan(softmax(np.array([np.nan]))).all()
assert (softmax(np.full(4, -1e9)) == 0.25).all()
assert (result.numpy() == 0).all()
assert np.isfinite(gradient).all()

# %% [markdown]
# −∞ gives 0 / 0, which is NaN, and one NaN spoils every weight at the next update. −1e9 gives
# uniform weights: wrong, but without an error. The package sets such rows to 0, with a finite
# gradient.
#
# ### How do I notice that a decoder peeks?
#
# Run it on three tokens, then on all five. **Predict:** do the first three outputs change, with the
# look-ahead mask? Without it?

# %%
attend = kt.layers.MultiHeadAttention(d_model=12, heads=3, key_width=4, value_width=4)
x = tf.constant(random.normal(size=(2, 5, 12)), tf.float32)  # (B, T, D)
for causal in (True, False):
    short = attend(x[:, :3], x[:, :3], causal=causal)
    long = attend(x, x, causal=causal)[:, :3]
    difference = float(tf.reduce_max(tf.abs(short - long)))
    print(f"causal={causal}: the first three outputs move by {difference:.0e}")
    assert (difference < 1e-6) == causal

# %% [markdown]
# Keep this cell for every decoder that you write. A peeking decoder trains to 98 % accuracy and
# translates nonsense.

# %% [markdown]
# ## 3.2.2 Several heads
#
# MultiHead(Q, K, V) = Concat(head₁, …, head_h) W_O, where head_i = Attention(Q W_i^Q, K W_i^K, V
# W_i^V). Six steps: project → reshape → transpose → attend → transpose → reshape.
#
# “Each head has its own matrices” and “there is one 512 × 512 matrix” describe the same weights:
# the W_i are side by side in the large matrix.


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


# %% [markdown]
# **Predict:** with D = 512, H = 8 and n = 10 tokens, which shape has each step?

# %%
n, d_model, heads = 10, 512, 8
X = random.normal(size=(1, n, d_model))
kernels = random.normal(size=(4, d_model, d_model)) / np.sqrt(d_model)
projected = X @ kernels[0]
one_head = split_heads(projected, heads)[0, 0]
scores = one_head @ one_head.T
result, weights = multi_head(X, X, kernels, heads)
for name, array in {
    "X": X[0],
    "W_Q of one head": kernels[0][:, :64],
    "Q of one head": one_head,
    "Q Kᵀ of one head": scores,
    "output of one head": weights[0, 0] @ one_head,
    "concatenated": projected[0],
    "output": result[0],
}.items():
    print(f"{name:20}", array.shape)
assert one_head.shape == (n, 64)
assert scores.shape == (n, n)
assert result.shape == X.shape

# %% [markdown]
# ### NumPy = Keras layer
#
# B = 2, T = 4, D = 8, two heads. The NumPy function uses the weights of the layer.

# %%
layer = kt.layers.MultiHeadAttention(d_model=8, heads=2, key_width=4, value_width=4)
x = random.normal(size=(2, 4, 8)).astype("float32")
theirs, their_weights = layer(x, x, return_weights=True)
names = ("query_kernel", "key_kernel", "value_kernel", "output_kernel")
ours, our_weights = multi_head(x, x, [getattr(layer, name).numpy() for name in names], heads=2)
print(f"output:  {np.abs(ours - theirs).max():.0e}")
print(f"weights: {np.abs(our_weights - their_weights).max():.0e}")
assert np.allclose(ours, theirs, atol=1e-5)
assert np.allclose(our_weights, their_weights, atol=1e-5)

# %% [markdown]
# ### Does a head see only its slice of the input?
#
# **Predict:** feature 500 of one token changes. Does head 0, which owns columns 0 to 63, notice?

# %%
changed = X.copy()
changed[0, 3, 500] += 1.0
before, after = (split_heads(x @ kernels[0], heads)[0, 0, 3] for x in (X, changed))
print(f"query of head 0 moves by {np.abs(after - before).max():.2f}")
assert np.abs(after - before).max() > 0.01

# %% [markdown]
# It does. The slice is one of the *projection*; each head reads all 512 features.
#
# ### Can I reshape straight to (B, H, T, K)?
#
# Four tokens of six features, 0 to 23: token 0 is 0 … 5, token 1 is 6 … 11. Three heads of width 2.
#
# **Predict:** the four tokens of head 0, by reshape and transpose? By a reshape alone?

# %%
tokens = np.arange(24).reshape(1, 4, 6)  # (B, T, H · K)
right = split_heads(tokens, 3)  # (1, 3, 4, 2)
wrong = tokens.reshape(1, 3, 4, 2)

fig, axes = plt.subplots(1, 2, figsize=(6, 2.6))
for axis, head, title in zip(
    axes, (right[0, 0], wrong[0, 0]), ("reshape, transpose", "reshape alone: wrong"), strict=True
):
    axis.imshow(
        head // 6, cmap="Pastel1", vmin=0, vmax=8, aspect="auto"
    )  # one colour for each token
    for (row, column), number in np.ndenumerate(head):
        axis.text(column, row, f"{number}\ntoken {number // 6}", ha="center", va="center")
    axis.set(title=title, ylabel="position in head 0", yticks=range(4), xticks=[])
plt.show()
assert right[0, 0].tolist() == [[0, 1], [6, 7], [12, 13], [18, 19]]
assert (wrong[0, 0].ravel() == np.arange(8)).all()  # only tokens 0 and 1

# %% [markdown]
# The wrong one runs without an error. It mixes tokens: head 0 never sees tokens 2 and 3.
#
# ### Why has my Keras layer eight times the parameters?
#
# **Predict:** `keras.layers.MultiHeadAttention(8, key_dim=…)` on vectors of 128. How many weights
# with `key_dim=16`, how many with `key_dim=128`?

# %%
for key_dim in (16, 128):
    theirs = keras.layers.MultiHeadAttention(8, key_dim, use_bias=False)
    theirs.build((1, 5, 128), (1, 5, 128))
    print(f"key_dim={key_dim:3}: {theirs.count_params():7,} weights")
    assert theirs.count_params() == 4 * 128 * 8 * key_dim

# %% [markdown]
# `key_dim` is the width of **one** head: d_model / heads = 16.
#
# ### Heads folded into the batch: which mask row?
#
# Some code reshapes (B, H, T, S) to (B · H, T, S). Then the mask must be repeated in that order.
#
# **Predict:** B = 2, H = 2: is the order of masks 0 0 1 1 or 0 1 0 1?

# %%
folded = np.repeat([0, 1], 2).reshape(2, 2)  # sample of each row of (B, H)
print("repeat:", folded.ravel(), " tile:", np.tile([0, 1], 2))
assert (folded == [[0, 0], [1, 1]]).all()  # row b · H + h belongs to sample b

# %% [markdown]
# With `tile`, head 1 of sample 0 gets the mask of sample 1. This package keeps four axes, and the
# mask (B, 1, 1, S) broadcasts.

# %% [markdown]
# ## 3.2.3 Cross-attention: queries from one sentence, keys from another
#
# The decoder asks (T), the source answers (S). Use S ≠ T in each of your examples: a swapped mask
# then fails at once.
#
# **Predict:** the shape of the weights for B = 2, H = 3, T = 4, S = 6? Which mask belongs here?

# %%
target = tf.constant(random.normal(size=(2, 4, 12)), tf.float32)  # (B, T, D)
source_ids = tf.constant([[5, 6, 7, 8, 9, 3], [5, 6, 3, 0, 0, 0]])  # (B, S)
memory = tf.constant(random.normal(size=(2, 6, 12)), tf.float32)  # (B, S, D)
output, weights = attend(target, memory, padding_mask(source_ids), return_weights=True)
print("weights", weights.shape, "output", output.shape)
print("weights on the padding of sentence 2:", float(tf.reduce_max(weights[1, :, :, 3:])))
assert weights.shape == (2, 3, 4, 6)
assert output.shape == target.shape
assert not weights.numpy()[1, :, :, 3:].any()
try:
    attend(target, memory, padding_mask(tf.ones([2, 4], tf.int32)))  # the target's mask: T = 4
except (tf.errors.InvalidArgumentError, ValueError):
    print("the target's padding mask does not fit: refused")
else:
    raise AssertionError("a mask of the wrong sentence was accepted")

# %% [markdown]
# ## 5.4 Dropout: why do the rows not sum to 1 while training?
#
# Dropout at rate p sets weights to 0 and divides the others by 1 − p, after the softmax. (Dropout
# of attention weights is in the authors' code; the paper names only sub-layer outputs and the sum
# of embeddings and positions.)
#
# **Predict:** a row with all its weight on one key, p = 0.2. Which two rows can come out?

# %%
drop = keras.layers.Dropout(0.2, seed=1)
sure = np.tile([1.0, 0.0, 0.0], (1_000, 1))
trained = drop(sure, training=True).numpy()
print("rows in training :", np.unique(trained, axis=0).tolist())
print(f"mean of the row sums: {trained.sum(axis=1).mean():.2f}")
print("rows in inference:", np.unique(drop(sure, training=False), axis=0).tolist())
assert set(trained[:, 0]) == {0.0, np.float32(1.25)}
assert abs(trained.sum(axis=1).mean() - 1) < 0.06
assert (drop(sure, training=False).numpy() == sure).all()

# %% [markdown]
# ## Table 1: what attention costs
#
# Every query meets every key. **Predict:** eight times the length, 512 → 4,096. How many times the
# weights?

# %%
import time

lengths = [32, 64, 128, 256] if QUICK else [32, 64, 128, 256, 512, 1024]
seconds, sizes = [], []
for n in lengths:
    q = tf.constant(random.normal(size=(1, 8, n, 64)), tf.float32)  # (B, H, n, K)
    runs = []
    for _ in range(6):
        started = time.perf_counter()
        _, weights = scaled_dot_product_attention(q, q, q)
        weights.numpy()
        runs.append(time.perf_counter() - started)
    seconds.append(min(runs))
    sizes.append(weights.numpy().nbytes)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 2.8))
left.loglog(lengths, np.array(sizes) / 2**20, "o-", base=2)
left.set(title="weights of one layer, B = 1, H = 8", xlabel="n tokens", ylabel="MiB")
right.loglog(lengths, np.array(seconds) * 1_000, "o-", base=2)
right.set(title="time of one attention", xlabel="n tokens", ylabel="ms")
plt.show()
assert sizes == [1 * 8 * n * n * 4 for n in lengths]
assert seconds[-1] > seconds[0]
print(f"512 → 4,096: {(4096 / 512) ** 2:.0f} times the weights")
print(
    f"B 32, H 8, n 1,024: {32 * 8 * 1024**2 * 4 / 2**30:.0f} GiB a layer; people forget the heads"
)
assert 32 * 8 * 1024**2 * 4 == 2**30

# %% [markdown]
# In return the path between any two tokens has length 1 (a recurrent network: n), and all
# positions are computed at once (a recurrent network: n steps, one after the other).

# %% [markdown]
# ## 3.5 Positions
#
# PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i + 1) = cos(pos / 10000^(2i/D)).


# %% tags=["reference"]
def positions(length, width):
    """Return the sinusoidal encoding (T, D) of positions 0 to T − 1."""
    rates = 10_000.0 ** (-np.arange(0, width, 2) / width)  # (D / 2,)
    angles = np.arange(length)[:, None] * rates  # (T, D / 2)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width]


# %% [markdown]
# **Predict:** which columns change fast, the first or the last? How do the dot products PE(p) ·
# PE(p + k) fall with the distance k? Does it matter where p is?

# %%
from keras_transformer.model.positions import sinusoidal_encoding

table = positions(800, 512)  # (T, D)
print(f"NumPy − Keras: {np.abs(table[:50] - sinusoidal_encoding(50, 512)).max():.0e}")
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
image = left.imshow(positions(50, 64), aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
left.set(title="sinusoidal encoding, D = 64", xlabel="feature", ylabel="position")
fig.colorbar(image, ax=left)
distances = np.arange(-40, 41)
for start in (50, 700):
    products = table[start + distances] @ table[start]
    right.plot(distances, products, label=f"p = {start}", ls="-" if start == 50 else "--")
right.set(title="PE(p) · PE(p + k), D = 512", xlabel="distance k")
right.legend()
plt.show()
assert np.allclose(table[:50], sinusoidal_encoding(50, 512), atol=1e-5)
assert np.isclose(table[50] @ table[50], 256)
assert all(np.isclose(table[p] @ table[p + 1], 249.1, atol=0.05) for p in (50, 700))

# %% [markdown]
# The curves coincide: the dot product depends only on the distance. A longer table changes no row,
# so neighbours do not become more alike.
#
# ### A shift is a rotation
#
# sin(a + b) = sin a cos b + cos a sin b. So PE(pos + k) is a *linear* function of PE(pos), the same
# for every pos. **Predict:** the error of that, in double precision?

# %%
k, width = 7, 64
rates = 10_000.0 ** (-np.arange(0, width, 2) / width)
shift = np.zeros((width, width))
for i, rate in enumerate(rates):
    cos, sin = np.cos(k * rate), np.sin(k * rate)
    shift[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, -sin], [sin, cos]]
small = positions(60, width)
error = np.abs(small[:-k] @ shift - small[k:]).max()
print(f"error of PE(pos) M₇ against PE(pos + 7): {error:.0e}")
assert error < 1e-13

# %% [markdown]
# ### “you I love” and “I love you”
#
# **Predict:** without positions and without a mask, the words are shuffled. What happens to the
# outputs?

# %%
words = ["I", "love", "you"]
x = random.normal(size=(1, 3, 12)).astype("float32")  # (B, T, D)
order = [2, 0, 1]  # you I love
encoding = positions(3, 12)
for name, extra, causal in (
    ("no positions", 0.0, False),
    ("no positions, causal", 0.0, True),
    ("positions", encoding, False),
):
    first, second = (attend(y, y, causal=causal) for y in (x + extra, x[:, order] + extra))
    moved = np.abs(first.numpy()[:, order] - second).max()
    print(f"{name:21} f(P X) − P f(X): {moved:.0e}")
    assert (moved < 1e-6) == (name == "no positions")

# %% [markdown]
# Without positions f(PX) = P f(X): the outputs are shuffled as the inputs were. Each word has the
# same vector as before, so the model only sees a bag of words.
#
# With a causal mask this is no longer so: the first token sees one key, the second two. A decoder
# without positions still knows a little about order.
#
# ### Why add positions, and not append them?
#
# W (x + p) = W x + W p: a matrix can separate them. **Predict:** how often can a linear probe read
# the position from the sum, for words it has not seen?

# %%
vocabulary, length, width = 300, 20, 64
embeddings = random.normal(size=(vocabulary, width))  # after the multiplication by √D
sums = embeddings[:, None] + positions(length, width)  # (V, T, D)
inputs, labels = sums.reshape(-1, width), np.tile(np.arange(length), vocabulary)
known = np.repeat(np.arange(vocabulary) < 250, length)
inputs = np.c_[inputs, np.ones(len(inputs))]
probe = np.linalg.lstsq(inputs[known], np.eye(length)[labels[known]], rcond=None)[0]
guess = (inputs[~known] @ probe).argmax(axis=1)
exact = np.mean(guess == labels[~known])
close = np.mean(np.abs(guess - labels[~known]) <= 2)
print(f"right: {exact:.0%}, at most two off: {close:.0%}; chance: {1 / length:.0%}")
assert exact > 3 / length

# %% [markdown]
# ### Interleaved sines and cosines, or two halves?
#
# The same columns in another order. A model trained with one cannot use the weights of the other,
# but neither is better.

# %%
halves = np.concatenate(
    [np.sin(np.arange(9)[:, None] * rates), np.cos(np.arange(9)[:, None] * rates)], 1
)
permutation = np.arange(64).reshape(2, 32).T.ravel()
assert np.allclose(halves[:, permutation], positions(9, 64))
print("halves, permuted = interleaved")

# %% [markdown]
# ## Exercises
#
# Predict, open the answer, then run the cell that checks it.
#
# **1.** All keys are equal. What is the output?
#
# <details><summary>Answer</summary>
# All scores of a row are equal, so all weights are 1 / S: the output is the mean of the values,
# whatever the query asks.
# </details>

# %%
values = random.normal(size=(5, 3))
output = attention(random.normal(size=(2, 4)), np.ones((5, 4)), values)[0]
assert np.allclose(output, values.mean(axis=0))
print(output[0], "=", values.mean(axis=0))

# %% [markdown]
# **2.** All queries are multiplied by 10. What happens to the largest weight of each row? By 0?
#
# <details><summary>Answer</summary>
# Multiplied by 10 the weights become sharper: the largest grows towards 1. Multiplied by 0 every
# weight is 1 / S. The factor acts like an inverse temperature, as 1 / √d_k does.
# </details>

# %%
queries, keys = random.normal(size=(2, 4, 8))
largest = {factor: attention(factor * queries, keys, keys)[1].max(axis=1) for factor in (0, 1, 10)}
for factor, numbers in largest.items():
    print(f"× {factor:2}:", numbers)
assert (largest[10] > largest[1]).all()
assert (largest[0] == 0.25).all()

# %% [markdown]
# **3.** A look-ahead mask is written with `>` instead of `>=`. Which row has a problem, and what
# does the loss show?
#
# <details><summary>Answer</summary>
# The first query may look at nothing: NaN with −∞, uniform weights (on future tokens too) with
# −1e9, zeros here. The others no longer see their own token, so the decoder does not know its last
# word. The loss stays higher than it should be; no shape is wrong.
# </details>

# %%
strict = np.arange(4)[:, None] > np.arange(4)
print(attention(queries, keys, keys, strict)[1])
assert strict.sum(axis=1).tolist() == [0, 1, 2, 3]
assert not attention(queries, keys, keys, strict)[0][0].any()
