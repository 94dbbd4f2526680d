# %% [markdown]
# # 6 Export and call
#
# A trained model is a folder of numbers. A program on another machine wants something else: it
# sends a sentence and wants a sentence back. In between lies the **SavedModel**: tokenizer,
# network and beam search in one graph that needs neither Python nor this package.
#
# This notebook takes the model that comes with the package, exports it, serves it, and calls it as
# a program would.
#
# **Afterwards you can** read the signatures of a SavedModel, write a request by row and by column,
# tell apart the errors that come back, draw an alignment, measure latency, and start TensorFlow
# Serving with the same folder.
#
# In each section there is a question first. Write down your guess, then run the cell.

# %% tags=["skip-execution"]
# Skip this cell where the package is installed. It replaces nothing that Colab ships; red lines
# about other packages are harmless.
# %pip install "keras-translate[plots,serve]"

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
import json
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from IPython.display import display

from keras_transformer import visualize

# %% [markdown]
# ## 1 Export: one command
#
# `shell` runs a command as a terminal does, and stops the notebook if it fails. The commands work
# unchanged in a terminal; in a notebook of your own you can also write `!python -m …`.


# %%
def shell(command, status=0):
    """Run a command and show what it prints."""
    print(f"$ {command}", flush=True)
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8"
    ) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
    assert process.returncode == status, f"exit status {process.returncode}, expected {status}"


dev_sentences = 20 if QUICK else 200
shell(
    "python -m keras_transformer.export --run builtin:phrasebook --to export/models/en-zh"
    f" --search.n_best 3 --dev_sentences {dev_sentences}"
)

# %% [markdown]
# `builtin:phrasebook` is the model of the package. Put your own run folder in its place: `--run
# runs/en-de`.
#
# **Predict:** The run has about 1.3 million weights of four bytes. How large will the largest
# file be, and which file holds the vocabulary?

# %%
version = Path("export/models/en-zh/1")
for path in sorted(version.rglob("*")):
    if path.is_file():
        print(f"{path.stat().st_size:>10,} bytes  {path.relative_to(version)}")

card = json.loads((version / "export.json").read_text(encoding="utf-8"))
print()
for name in ("parameters", "search", "dev"):
    print(f"{name:>12}: {card.get(name)}")

weights = (version / "variables" / "variables.data-00000-of-00001").stat().st_size
assert abs(weights / (4 * card["parameters"]) - 1) < 0.1  # float32, nothing else
assert not list(version.rglob("*.model"))  # no vocabulary file: it is a constant in the graph

# %% [markdown]
# The weights take four bytes each; an optimizer would have tripled them. The vocabulary is inside
# `saved_model.pb`, as a constant of the tokenizer's operation. So nothing can be forgotten when the
# folder is copied.
#
# The folder is called `1` because it is version 1 of the model `en-zh`. The next export becomes
# `2`, and a server switches to it without losing a request.
#
# ## 2 What can be asked: signatures
#
# A *signature* is a function with a name, fixed types and named inputs and outputs: everything
# that a caller can use.
#
# **Predict:** `translate` takes a list of sentences. What shape does the output `attention` of
# `align` have, if sentences and translations have different lengths?

# %%
import tensorflow_text  # noqa: F401, the operations of the tokenizer

loaded = tf.saved_model.load(str(version))  # nothing of keras_transformer


def shape(spec):
    return "(" + ", ".join("?" if size is None else str(size) for size in spec.shape) + ")"


for name, function in sorted(loaded.signatures.items()):
    inputs = function.structured_input_signature[1]
    print(name)
    for direction, specs in (("in ", inputs), ("out", function.structured_outputs)):
        for key, spec in sorted(specs.items()):
            print(f"    {direction}  {key:<16}{spec.dtype.name:<9}{shape(spec)}")

# %% [markdown]
# Every first dimension is the batch; a `?` may be any number. `attention` is (batch, target pieces,
# source pieces), padded with 0 to the longest row of the batch.
#
# Strings go in and strings come out. The graph does the rest, exactly as the Python code of the
# package does:

# %%
sentences = ["I love you.", "My brother wants to buy a new car tomorrow."]
translate = loaded.signatures["translate"]
answer = translate(text=tf.constant(sentences))
in_python = kt.Translator.from_run("builtin:phrasebook").translate(sentences)
for row, python in enumerate(in_python):
    text, score = answer["translation"][row].numpy().decode(), float(answer["score"][row])
    print(f"graph: {text} {score:.4f}    Python: {python.text} {python.score:.4f}")
    assert text == python.text
    assert abs(score - python.score) < 1e-4

graph = translate.graph.as_graph_def()
operations = {node.op for node in graph.node}
for function in graph.library.function:
    operations |= {node.op for node in function.node_def}
print("\ntokenizer:  ", sorted(name for name in operations if "Sentencepiece" in name))
print("search loop:", sorted(name for name in operations if "While" in name))
print("Python:     ", sorted(name for name in operations if name.startswith("PyFunc")))

assert any("Sentencepiece" in name for name in operations)
assert any("While" in name for name in operations)
assert not any(name.startswith("PyFunc") for name in operations)  # no Python is needed to run it

# %% [markdown]
# ## 3 A server
#
# The local server has the REST interface of TensorFlow Serving. It starts in a separate process;
# loading a model takes some seconds.
#
# **Predict:** A client calls while the model is still loading. What should it get: a wait, an
# empty answer, or an error?

# %%
import atexit
import socket

with socket.socket() as probe:  # a free port
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]

command = f"python -m keras_transformer.serve export/models/en-zh --port {port}"
print(f"$ {command.replace(str(port), 'PORT')}")
with Path("server.log").open("w", encoding="utf-8") as log:
    server = subprocess.Popen(
        [sys.executable, *command.split()[1:]], stdout=log, stderr=subprocess.STDOUT
    )
atexit.register(server.kill)  # it ends with the notebook in any case

MODEL = f"http://127.0.0.1:{port}/v1/models/en-zh"
# A server on this machine is called directly, whatever proxy the environment names.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(url, body=None):
    """Send a GET, or a POST with a body; return the status and the reply."""
    data = body.encode() if isinstance(body, str) else body and json.dumps(body).encode()
    try:
        with opener.open(urllib.request.Request(url, data), timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except urllib.error.URLError as error:
        return None, {"error": str(error.reason)}


seen = []
for _ in range(1200):
    status, reply = call(MODEL)
    message = reply.get("error") or reply["model_version_status"][0]["state"]
    if (status, message) not in seen:
        seen.append((status, message))
        print(f"status {status}: {message}")
    if status == 200 and message == "AVAILABLE":
        break
    assert server.poll() is None, Path("server.log").read_text(encoding="utf-8")
    time.sleep(0.1)

assert seen[-1] == (200, "AVAILABLE")
assert len(seen) > 1  # the first calls came too early

# %% [markdown]
# Too early is an error, at once: the client decides whether to wait. A program that monitors
# servers asks this address, and sends requests only when it says `AVAILABLE`.
#
# Open the address of the server in a browser to see its page: translations, their attention and
# the request behind them. (In Colab: `from google.colab import output;
# output.serve_kernel_port_as_window(port)`.)
#
# ## 4 By row and by column
#
# There are two ways to write the same request: **by row**, one object for each sentence, or **by
# column**, one list for each input.
#
# **Predict:** Both requests below ask the same. In which reply is it easier to find the score of
# the second sentence?

# %%
by_row = {"signature_name": "translate", "instances": [{"text": text} for text in sentences]}
by_column = {"signature_name": "translate", "inputs": {"text": sentences}}

replies = {}
for name, body in (("row", by_row), ("column", by_column)):
    status, replies[name] = call(f"{MODEL}:predict", body)
    print(f"--- by {name}: status {status}")
    print(json.dumps(body, ensure_ascii=False))
    print(json.dumps(replies[name], ensure_ascii=False, indent=2))
    assert status == 200

rows, columns = replies["row"]["predictions"], replies["column"]["outputs"]
assert [row["translation"] for row in rows] == columns["translation"]
assert np.allclose([row["score"] for row in rows], columns["score"])

# %% [markdown]
# By row, the second sentence is `predictions[1]` and everything about it is together. By column,
# all scores are `outputs["score"]`: one array for NumPy. The results are the same.
#
# The same request in a terminal:

# %%
text = json.dumps({"instances": [sentences[0]]})
print(f"curl -d '{text}' http://127.0.0.1:8501/v1/models/en-zh:predict")

# %% [markdown]
# ## 5 A batch as it comes
#
# Real input is not clean. **Predict:** What comes back for an empty line? For an emoji? And does
# one of them change the translation of its neighbours?

# %%
batch = [
    "I love you.",
    "",
    "I love you 😀.",
    "   ",
    "The triceratops is in the kitchen.",
    "I love you. " * 60,
]
status, reply = call(f"{MODEL}:predict", {"instances": batch})
assert status == 200
for text, row in zip(batch, reply["predictions"], strict=True):
    shown = repr(text if len(text) < 40 else text[:30] + "…")
    found = row["translation"]
    found = found if len(found) < 30 else found[:24] + "…"
    print(f"{shown:<38} {found:<30} score {row['score']:8.3f}  truncated {row['truncated']}")

alone = call(f"{MODEL}:predict", {"instances": batch[:1]})[1]["predictions"][0]
together = reply["predictions"][0]
assert (reply["predictions"][1]["translation"], reply["predictions"][1]["score"]) == ("", 0)
assert alone["translation"] == together["translation"]
assert abs(alone["score"] - together["score"]) < 1e-4  # rounding; nothing of the neighbours

# %% [markdown]
# - A blank line stays blank, with score 0. Line numbers of a file stay as they are.
# - The emoji is not in the vocabulary. The tokenizer spells it as four bytes, so the request is
#   valid; the model never saw these bytes, so its translation of them is unpredictable.
# - A text that is too long is truncated, and `truncated` says so. The model knows sentences: split
#   a text before you send it.
# - Neighbours do not matter: alone and in a batch the sentence has the same translation, since the
#   mask hides the padding.
#
# ## 6 Errors that come back
#
# **Predict:** Which of these requests fail, and with which status: 400 (the request is wrong) or
# 404 (there is no such thing)?

# %%
wrong = {
    "not JSON": (f"{MODEL}:predict", "translate this please"),
    "unknown signature": (f"{MODEL}:predict", {"signature_name": "tranlsate", "instances": ["a"]}),
    "unknown input": (f"{MODEL}:predict", {"instances": [{"txet": "I love you."}]}),
    "wrong type": (f"{MODEL}:predict", {"instances": [{"text": 7}]}),
    "no rows": (f"{MODEL}:predict", {"instances": []}),
    "unknown model": (f"{MODEL}-typo:predict", {"instances": ["I love you."]}),
    "unknown version": (f"{MODEL}/versions/9:predict", {"instances": ["I love you."]}),
}
statuses = {}
for name, (url, body) in wrong.items():
    statuses[name], reply = call(url, body)
    print(f"{name:<18} {statuses[name]}  {reply['error'][:100]}")

assert all(
    statuses[name] == (404 if "model" in name or "version" in name else 400) for name in wrong
)
assert call(f"{MODEL}:predict", by_row)[0] == 200  # the server is unharmed

# %% [markdown]
# 400 and 404 stay the same however often you ask: correct the request. 429, 503 and 504 mean "not
# now": wait, then try again, each time twice as long. The clients in `export/` of the repository
# do this.
#
# ## 7 How sure is the model?
#
# `nbest` returns the best hypotheses of the beam, `score` the probability of a translation that
# *you* give.
#
# **Predict:** Below is a right translation, one with a wrong word, and one without its last
# character. To which one does the model give the lowest probability?

# %%
source = "I love you."
body = {"signature_name": "nbest", "instances": [source]}
(best,) = call(f"{MODEL}:predict", body)[1]["predictions"]
print("nbest:")
for text, score in zip(best["translations"], best["scores"], strict=True):
    print(f"  {score:8.3f}  {text}")

given = ["我爱你。", "我爱他。", "我爱你", "你爱我。"]
rows = [{"source": source, "target": target} for target in given]
body = {"signature_name": "score", "instances": rows}
scored = call(f"{MODEL}:predict", body)[1]["predictions"]
print("score:")
for target, row in zip(given, scored, strict=True):
    row["by hand"] = row["log_probability"] / ((5 + row["tokens"]) / 6) ** 0.6
    probability = np.exp(row["log_probability"])
    print(f"  {row['score']:8.3f}  {target:<6}\tP = {probability:.2g}, {row['tokens']} tokens")

with visualize.use_fonts():
    fig, axis = plt.subplots(figsize=(6, 2.4))
    colors = ["tab:green", *["tab:gray"] * (len(given) - 1)]
    axis.barh(given, [np.exp(row["log_probability"]) for row in scored], color=colors)
    axis.set(xscale="log", xlabel=f"P(translation | {source}), logarithmic")
    axis.invert_yaxis()
    plt.show()

# The score is the log-probability over the length penalty ((5 + n) / 6)^0.6 (section 6.1).
assert np.allclose([row["by hand"] for row in scored], [row["score"] for row in scored], rtol=1e-4)
assert max(scored, key=lambda row: row["score"]) is scored[0]  # the right one
assert best["scores"] == sorted(best["scores"], reverse=True)

# %% [markdown]
# All numbers are small: P is the probability of *exactly* this sequence of tokens. Compare scores
# of the same source only; a long sentence has a lower probability than a short one without being
# worse.
#
# ## 8 Where did it look?
#
# `align` returns the cross-attention of the penultimate layer, averaged over its heads.
#
# **Predict:** English puts *tomorrow* last, Chinese puts 明天 near the front. What will the map
# look like: a diagonal?

# %%
source = "My brother wants to buy a new car tomorrow."
body = {"signature_name": "align", "instances": [source]}
(row,) = call(f"{MODEL}:predict", body)[1]["predictions"]
attention = np.array(row["attention"])  # (target pieces, source pieces)
print(row["translation"])

pieces = row["target_pieces"], row["source_pieces"]
with visualize.use_fonts():
    display(visualize.heatmap(attention, *pieces, title="all pieces: each row sums to 1"))
    words = attention[:-1, :-1] / attention[:-1, :-1].sum(axis=1, keepdims=True)
    without_end = [side[:-1] for side in pieces]
    display(visualize.heatmap(words, *without_end, title="without </s>, scaled to 1"))

assert attention.shape == (len(row["target_pieces"]), len(row["source_pieces"]))
assert np.allclose(attention.sum(axis=1), 1, atol=1e-4)

# %% [markdown]
# The row of 明天 looks to the end of the sentence: the order has changed, and the map shows it.
#
# Read such maps with care. Some weight rests on the end token or the full stop, where there is
# nothing to translate: a head that is not needed in a step puts its weight there. That is why the
# second map leaves `</s>` out. And a map shows where information may have come *from*, not why a
# word was chosen.
#
# ## 9 How long does it take?
#
# **Predict:** One sentence takes some milliseconds. How long do 32 sentences take in one request:
# 32 times as long? And 32 requests at the same time?

# %%
from keras_transformer.data import phrasebook

rounds = 3 if QUICK else 15
texts = [english for english, _ in phrasebook.pairs("test")[:32]]


def send(batch):
    status, _ = call(f"{MODEL}:predict", {"instances": batch})
    assert status == 200


def measure(action):
    """Return the shortest of some rounds, in milliseconds: least disturbed by other programs."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return 1000 * min(seconds)


def one_by_one():
    for text in texts:
        send([text])


def at_once():
    with ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(send, [[text] for text in texts]))


times = {
    "1 sentence": measure(lambda: send(texts[:1])),
    "32 in one request": measure(lambda: send(texts)),
    "32 requests at the same time": measure(at_once),
    "32 requests one by one": measure(one_by_one),
}
for name, milliseconds in times.items():
    count = 1 if name.startswith("1 ") else 32
    print(f"{name:<30} {milliseconds:7.0f} ms, {milliseconds / count:6.1f} ms a sentence")

figure, axes = plt.subplots(figsize=(7, 2.4))
bars = axes.barh(list(times), list(times.values()), color="tab:blue")
axes.bar_label(bars, fmt="%.0f ms", padding=3)
axes.set(xlabel="milliseconds", xlim=(0, 1.18 * max(times.values())))
axes.invert_yaxis()
plt.show()

assert times["32 in one request"] < 32 * times["1 sentence"]

# %% [markdown]
# A batch is much cheaper than its sentences one by one: each step of the search multiplies one
# large matrix instead of 32 small ones. Simultaneous requests profit too: the server waits for a
# moment and puts them into one batch (*dynamic batching*). So send all your texts in one request,
# and do not worry about many clients.
#
# ## 10 TensorFlow Serving
#
# The local server is made for one machine. In production the same folder goes to TensorFlow
# Serving, a program in C++:

# %%
print("docker run --rm --init -p 127.0.0.1:8500:8500 -p 127.0.0.1:8501:8501 \\")
print('    -v "$PWD/export/models:/models:ro" -e MODEL_NAME=en-zh tensorflow/serving:2.20.0')

# %% [markdown]
# Port 8501 takes the requests of this notebook, unchanged. Port 8500 takes **gRPC**: the same
# signatures as binary messages (`PredictionService.Predict`), less to parse for large tensors.
# `export/grpc_client.py` in the repository is a complete client. Its core:
#
# ```python
# stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel("localhost:8500"))
# request = predict_pb2.PredictRequest()
# request.model_spec.name, request.model_spec.signature_name = "en-zh", "translate"
# request.inputs["text"].CopyFrom(tf.make_tensor_proto(["I love you."]))
# reply = stub.Predict(request, timeout=10)  # always with a deadline
# ```
#
# Use version 2.20 or newer: older servers lack the tokenizer's operations.
#
# The next cell is optional. If the program `tensorflow_model_server` is installed, it starts it
# with our folder; if not, it says why.

# %%
import shutil

program = shutil.which("tensorflow_model_server")
folder = Path("export/models/en-zh").resolve()  # TensorFlow Serving wants an absolute path
if program is None:
    print("tensorflow_model_server could not start: no such program on this machine")
    print("Colab has no Docker. The package tensorflow-model-server (apt) needs Google's package")
    print("source, and a C library that fits. The docker command above is the safe way.")
else:
    options = ["--rest_api_port=8601", "--model_name=en-zh", f"--model_base_path={folder}"]
    with Path("serving.log").open("w", encoding="utf-8") as output:
        real = subprocess.Popen([program, *options], stdout=output, stderr=subprocess.STDOUT)
    url = "http://127.0.0.1:8601/v1/models/en-zh"
    for _ in range(60):
        if real.poll() is not None or call(url)[0] == 200:
            break
        time.sleep(1)
    if real.poll() is None:
        print(call(f"{url}:predict", {"instances": ["I love you."]}))
        real.terminate()
    else:
        last = Path("serving.log").read_text(encoding="utf-8").strip().splitlines()[-1:]
        print(f"tensorflow_model_server ended with status {real.returncode}: {last}")

# %% [markdown]
# Finally, stop the local server. It finishes the requests that it has accepted.

# %%
server.terminate()
print("exit status", server.wait(timeout=60))
assert server.returncode in (0, 143, -15)

# %% [markdown]
# ## Exercises
#
# **1.** `options` takes `alpha`, the strength of the length penalty, for each sentence. Predict
# what `alpha` 0 and `alpha` 5 do to the length of a translation, then ask the server (start it
# again first).
#
# <details><summary>Answer</summary>
#
# The score is log P divided by ((5 + n) / 6)^α. Each further token makes log P smaller; the
# denominator makes up for it. With α = 0 the beam prefers short hypotheses, with α = 5 long ones:
#
# ```python
# rows = [{"text": "I love you.", "alpha": alpha, "max_extra": 50} for alpha in (0.0, 0.6, 5.0)]
# call(f"{MODEL}:predict", {"signature_name": "options", "instances": rows})
# ```
#
# A model that is as sure as this one keeps its translation for a wide range of α; only the scores
# change. Try a sentence that it does not know.
#
# </details>
#
# **2.** Why does the emoji not end in an error or in "unknown"?
#
# <details><summary>Answer</summary>
#
# The vocabulary holds a token for each of the 256 bytes. A character that is not in the vocabulary
# is spelled in UTF-8: 😀 is the four tokens `<0xF0> <0x9F> <0x98> <0x80>`. Every text can be
# encoded, and decoding gives it back. Whether the model copies it is a matter of training: these
# four embeddings never had a gradient from real text.
#
# </details>
#
# **3.** Export the model once more while the server runs. Which version answers, and what happens
# to a request in progress?
#
# <details><summary>Answer</summary>
#
# The new folder is `2`; it appears under its name only when it is complete. The server sees it
# within a second or two, loads it beside version 1, answers requests in progress with version 1
# and new ones with version 2, then frees version 1. `GET` of the model's address shows both
# states.
#
# </details>
#
# **4.** Where does the time of one sentence go? Compare beam 1 and beam 4: export with
# `--search.beam 1` to another folder and measure.
#
# <details><summary>Answer</summary>
#
# The encoder runs once, the decoder once for each token of the translation. Beam 4 keeps four
# hypotheses, so each step has four rows instead of one. With one sentence the rows hardly fill the
# processor, and the steps cost nearly the same; with 32 sentences they do, and beam 1 is clearly
# faster.
#
# </details>
