"""Stand-in for a program of the documents' commands: same options, smaller sizes.

  stand_in.py python|curl|tensorboard|stop WORD ...

Training takes a few steps of a tiny network, translations are short, servers run in the
background on a free port. A command is not repeated, and a run or an export
that a command needs is created first. The environment variable STAND_IN names the file with this
state.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PACKAGE = "keras_transformer."
BUILTIN = "builtin:"
SIZES = {
    "model.encoder_layers": 1,
    "model.decoder_layers": 2,
    "model.d_model": 16,
    "model.heads": 2,
    "model.d_ff": 16,
    "train.batch_tokens": 300,
    "train.dev_sentences": 2,
    "train.checkpoint_every": 2,
    "train.max_steps": 2,
}
MORE_STEPS = "3"
SHORT = ["--search.max_extra", "2"]
SMALLER = {
    "translate": SHORT,
    "evaluate": SHORT,
    "export": [*SHORT, "--dev_sentences", "2", "--max_bleu_loss", "100"],
    "score": [],
    "convert": [],
    "visualize": SHORT,
}
GOLDEN = Path(__file__).parents[1] / "convert" / "golden"
FOREIGN_MODELS = {"opennmt": GOLDEN / "opennmt_tf" / "shared", "": GOLDEN / "marian" / "shared"}
"""Models by the beginning of their names."""
PORTS = {"serve": "8501", "tensorboard": "6006"}


class Workspace:
    """State after earlier commands: done commands, ports, processes."""

    def __init__(self) -> None:
        self.path = Path(os.environ["STAND_IN"])
        self.state = json.loads(self.path.read_text(encoding="utf-8"))

    def save(self) -> None:
        self.path.write_text(json.dumps(self.state), encoding="utf-8")

    def port(self, named: str) -> str:
        """Return the free port that is used for a port of the documents."""
        if named not in self.state["ports"]:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.state["ports"][named] = str(free.getsockname()[1])
                self.save()
        return str(self.state["ports"][named])

    def translated(self, words: list[str]) -> list[str]:
        """Return the words with the ports in use."""
        for named in PORTS.values():
            words = [re.sub(rf"\b{named}\b", self.port(named), word) for word in words]
        return words


def main(program: str, words: list[str]) -> int:
    workspace = Workspace()
    if program == "stop":
        stop(workspace)
        return 0
    words = workspace.translated(words)
    if program == "curl":
        return curl(workspace, words)
    if program == "tensorboard":
        command = [sys.executable, "-m", "tensorboard.main", *words]
        port = workspace.port(PORTS["tensorboard"])
        return serve(workspace, [*command, "--port", port], f"http://127.0.0.1:{port}/")
    module = words[1] if words[:1] == ["-m"] else ""
    if not module.startswith(PACKAGE) or "--help" in words:
        make_missing(workspace, "", words)
        return subprocess.call([sys.executable, *words])
    return run(workspace, module.removeprefix(PACKAGE), words[2:])


def curl(workspace: Workspace, words: list[str]) -> int:
    """Call the server of the model, started if it does not run; an error reply is a failure."""
    model = re.search(r"/v1/models/([\w-]+)", " ".join(words))
    if model and workspace.state.get("model") != model[1]:
        require(run(workspace, "serve", [f"export/models/{model[1]}"]))
    program = shutil.which("curl", path=os.defpath) or "curl"
    return subprocess.call([program, "--fail-with-body", "--silent", "--show-error", *words])


def run(workspace: Workspace, name: str, words: list[str]) -> int:
    """Run an entry point, once."""
    if [name, *words] in workspace.state["done"]:
        return 0
    make_missing(workspace, name, words)
    command = [sys.executable, "-m", f"{PACKAGE}{name}", *words]
    if name == "serve":
        model, port = Path(words[0]).name.removeprefix(BUILTIN), workspace.port(PORTS["serve"])
        command += [] if "--port" in words else ["--port", port]
        return serve(workspace, command, f"http://127.0.0.1:{port}/v1/models/{model}")
    status = subprocess.call(
        [*command, *(smaller_training(words) if name == "train" else SMALLER[name])]
    )
    if status == 0:
        workspace.state["done"].append([name, *words])
        workspace.save()
    return status


def smaller_training(words: list[str]) -> list[str]:
    """Return the options of a small training; delete an existing run."""
    if "--resume" in words:
        return ["--train.max_steps", MORE_STEPS] if "--train.max_steps" in words else []
    if "--run" in words:
        shutil.rmtree(words[words.index("--run") + 1], ignore_errors=True)
    else:
        shutil.rmtree("runs/phrasebook", ignore_errors=True)
    corpus = [] if "--data.train" in words or "--config" in words else small_corpus()
    sizes = {
        name: size
        for name, size in SIZES.items()
        # Fine-tuning takes the network of the other run; an LSTM has no heads.
        if not ("--init_from" in words and name.startswith("model."))
        and not ("rnn" in words and name in ("model.heads", "model.d_ff"))
    }
    return [word for name, size in sizes.items() for word in (f"--{name}", str(size))] + corpus


def small_corpus() -> list[str]:
    return ["--data.train", "builtin:phrasebook:dev", "--data.dev", "builtin:phrasebook:dev"]


def make_missing(workspace: Workspace, name: str, words: list[str]) -> None:
    """Make the run, the export or the foreign model that a command needs."""
    if name == "convert":
        folder = Path(words[0]).parts[0]
        if not Path(folder).exists():
            begin = next(begin for begin in FOREIGN_MODELS if folder.startswith(begin))
            shutil.copytree(FOREIGN_MODELS[begin], folder)
        return
    for option in {"--run", "--compare_run", "--init_from"}.intersection(words):
        if option != "--run" or name != "train" or "--resume" in words:
            make_run(workspace, words[words.index(option) + 1])
    if name == "serve" and not words[0].startswith(BUILTIN) and not Path(words[0]).exists():
        path = "runs/phrasebook" if words[0].endswith("zh") else "runs/en-de"
        require(run(workspace, "export", ["--run", path, "--to", words[0]]))


def make_run(workspace: Workspace, path: str) -> None:
    """Make a run unless it exists."""
    if not path.startswith(BUILTIN) and not Path(path).exists():
        corpus = ["--data.train", "data/train", "--data.dev", "data/val", "--data.target", "de"]
        require(run(workspace, "train", ["--run", path, *([] if "phrasebook" in path else corpus)]))


def require(status: int) -> None:
    if status:
        raise SystemExit(status)


def serve(workspace: Workspace, command: list[str], address: str) -> int:
    """Start a server instead of the previous one, and wait until it replies."""
    stop(workspace)
    log = workspace.path.with_name("server.log")
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
        )
    workspace.state |= {"server": process.pid, "model": address.rpartition("/")[2]}
    workspace.save()
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return 0
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    print(log.read_text(), file=sys.stderr)
    return 1


def stop(workspace: Workspace) -> None:
    """End the server that runs, if any."""
    process = workspace.state.pop("server", None)
    workspace.state.pop("model", None)
    if process:
        try:
            os.killpg(process, 15)
        except ProcessLookupError:
            return
        finally:
            workspace.save()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
