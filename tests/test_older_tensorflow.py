"""The oldest supported TensorFlow and Keras: train, resume, translate, export and load.

``make test-slow`` installs them into ``tensorflow-2.20`` in the virtual environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARIES = Path(sys.prefix) / "tensorflow-2.20"

STEPS = """
import json
import sys

from keras_transformer import export, train, translate

SMALL = ["--model.encoder_layers=1", "--model.decoder_layers=1", "--model.d_model=16",
         "--model.heads=2", "--model.d_ff=32", "--data.vocabulary_size=500",
         "--train.batch_tokens=500", "--train.checkpoint_every=2", "--train.dev_sentences=4",
         "--search.beam=2", "--search.max_extra=5"]
assert train.main(["--run", "run", *SMALL, "--train.max_steps=2"]) == 0
assert train.main(["--run", "run", "--resume", "--train.max_steps=4"]) == 0
steps = [json.loads(line)["step"] for line in open("run/metrics.jsonl")]
assert steps == [2, 2, 4, 4], steps
open("in.txt", "w").write("I love you.\\n\\nShe is reading a book.\\n")
assert translate.main(["--run", "run", "in.txt", "--output", "out.txt"]) == 0
assert export.main(["--run", "run", "--to", "models/en-zh", "--dev_sentences=4"]) == 0

import keras
import tensorflow as tf

served = tf.saved_model.load("models/en-zh/1").signatures["serving_default"]
reply = served(text=tf.constant(["I love you.", "", "She is reading a book."]))
translations = [text.decode() for text in reply["translation"].numpy()]
assert translations == open("out.txt").read().split("\\n")[:3], translations
assert (tf.__version__, keras.__version__) == ("2.20.0", "3.13.2")
"""


@pytest.mark.slow
@pytest.mark.skipif(not LIBRARIES.is_dir(), reason=f"no {LIBRARIES}: make test-slow installs it")
def test_train_resume_translate_export_and_load(tmp_path: Path) -> None:
    path = os.pathsep.join([str(LIBRARIES), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
