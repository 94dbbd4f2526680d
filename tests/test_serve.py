from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from keras_transformer.serve import main, read_options
from keras_transformer.server.settings import Address, ServeError, Settings, parse_labels

SHOUTER = """
import sys
import tensorflow as tf

class Shouter(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def shout(self, text):
        turns = tf.where(tf.reduce_any(tf.equal(text, "slow")), 40_000, 0)
        turns = tf.where(tf.reduce_any(tf.equal(text, "endless")), 2**31 - 1, turns)
        turn = tf.while_loop(lambda i: i < turns, lambda i: [i + 1], [0])[0]
        mark = tf.strings.as_string(turn - turns)  # 0, and the loop has to run for it
        return {"translation": tf.strings.upper(text) + sys.argv[2] + mark}

shouter = Shouter()
tf.saved_model.save(shouter, sys.argv[1], {"serving_default": shouter.shout})
"""


@pytest.fixture
def folder(tmp_path):
    """A model's folder with a version that cannot be loaded, but looks like one."""
    (tmp_path / "toy" / "3").mkdir(parents=True)
    (tmp_path / "toy" / "3" / "saved_model.pb").touch()
    return tmp_path / "toy"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["DIR/3"], r"this is one version of a model .* name the folder .*, .*toy\n"),
        (["DIR/none"], "expected a folder with versions of a model, found nothing there"),
        (["DIR/3/saved_model.pb"], "found a file"),
        (["DIR/empty"], "there is no version of a model in it; expected a folder such as"),
        (["DIR/empty"], r"empty/9: there is no saved_model\.pb in it\n"),
        (["DIR/empty"], "empty/9223372036854775808: expected a number of at most"),
        (["DIR", "--max_text_kb", "0"], "max_text_kb: expected 1 to 1048576, got 0"),
        ([], "DIR is missing: the folder of an exported model"),
        (["builtin:none"], "expected a run folder or builtin:phrasebook, got 'builtin:none'"),
        (["DIR", "more"], "unexpected argument 'more'"),
        (["DIR", "--prot", "1"], "unknown option --prot; did you mean --port"),
        (["DIR", "--port", "x"], "port: expected a whole number, got 'x'"),
        (["DIR", "--port", "70000"], "port: expected 0 to 65535, got 70000"),
        (["DIR", "--max_queue", "0"], "max_queue: expected 1 to 1000000, got 0"),
        (["DIR", "--timeout_s", ".inf"], "timeout_s: expected 0.001 to 86400, got inf"),
        (["DIR", "--threads", "99999999999"], "threads: expected 1 to 1024, got 99999999999"),
        (["DIR", "--poll_s", "1:30"], "poll_s: expected a number, got '1:30'"),
        (["DIR", "--versions", "9" * 5000], "versions: expected latest, all or numbers"),
        (["DIR", "--label", "a=" + "9" * 5000], "label: expected a name and a version"),
        (["DIR", "--versions", "newest"], "versions: expected latest, all or numbers"),
        (["DIR", "--label", "stable"], "label: expected a name and a version such as stable=3"),
        (["DIR", "--label", "a=1", "--label", "a=2"], "label: 'a' is given twice"),
        (["DIR", "--name", "a/b"], "name: expected a name without spaces"),
        (["DIR/my model"], "the folder's name is the model's; .* rename it, or give --name"),
        (["DIR", "--upstream", "http://h:1"], "expected DIR or --upstream, got both"),
        (["--upstream", "h:8501"], "upstream: expected http://HOST:PORT, got 'h:8501'"),
        (["--upstream", "http://h:x"], "upstream: expected http://HOST:PORT"),
        (["--upstream", "http://h:1/path"], "upstream: expected http://HOST:PORT"),
        (["--upstream", "http://me:secret@h:1"], r"got 'http://\.\.\.@h:1'"),
        (["--upstream", "http://h:1", "--threads", "2"], "threads: has no effect with --upstream"),
        (["--upstream", "http://h:1", "--label", "a=1"], "label: has no effect with --upstream"),
    ],
)
def test_mistakes_end_with_status_2(folder, capsys, words, message):
    (folder / "empty" / "9").mkdir(parents=True)
    (folder / "empty" / str(2**63)).mkdir()
    shutil.copytree(folder / "3", folder / "my model" / "3")
    assert main([word.replace("DIR", str(folder)) for word in words]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert "Traceback" not in error


def test_a_port_in_use(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([str(folder), "--port", str(port)]) == 2
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in (
        capsys.readouterr().err
    )


def test_options(folder):
    words = [str(folder), "--versions", "3", "--label", "a=3", "--label=b=1", "--log_requests"]
    assert read_options(words) == (
        folder,
        Settings(name="toy", versions="3"),
        {"a": 3, "b": 1},
        True,
    )
    assert read_options([str(folder), "--name", "other"])[1] == Settings(name="other")
    found, settings, *_ = read_options(["builtin:phrasebook"])
    assert (str(found), settings) == ("builtin:phrasebook", Settings(name="phrasebook"))


def test_the_folder_may_be_named_by_a_dot(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert read_options(["."])[1].name == "toy"
    monkeypatch.chdir(folder / "3")
    with pytest.raises(ServeError, match=re.escape(str(folder))):
        read_options(["."])


def test_a_folder_whose_name_is_no_model_name_needs_another_name(folder):
    folder = folder.rename(folder.parent / "my model")
    assert read_options([str(folder), "--name", "toy"])[1].name == "toy"


def test_a_gateway_needs_no_folder():
    folder, settings, labels, _ = read_options(["--upstream", "http://tf:8501", "--poll_s", "2"])
    assert (folder, settings.upstream, settings.poll_s, labels) == (None, "http://tf:8501", 2, {})


@pytest.mark.parametrize(
    ("text", "address", "header"),
    [
        ("http://tf", Address("tf", 80), b"tf:80"),
        ("https://tf/", Address("tf", 443, tls=True), b"tf:443"),
        ("http://[::1]:8501", Address("::1", 8501), b"[::1]:8501"),
        ("http://b\u00fccher:8501", Address("b\u00fccher", 8501), b"xn--bcher-kva:8501"),
    ],
)
def test_addresses_of_the_upstream(text, address, header):
    assert Address.parse(text) == address
    assert address.header == header


def test_labels():
    assert parse_labels([]) == {}
    with pytest.raises(ServeError, match="stable=3, got 'a=x'"):
        parse_labels(["a=x"])


def test_help_is_a_manual(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for part in ("for one machine", "curl -d", "--max_batch_size", "127.0.0.1", "SIGTERM"):
        assert part in text


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two versions of a model that returns upper case; their replies end with ! and ?."""
    place = tmp_path_factory.mktemp("models")
    for version, mark in (("1", "!"), ("2", "?")):
        command = [sys.executable, "-c", SHOUTER, str(place / version), mark]
        subprocess.run(command, check=True, capture_output=True)
    return place


class Server:
    """``python -m keras_transformer.serve`` in a new process."""

    def __init__(self, folder, *options, **environment):
        command = [sys.executable, "-m", "keras_transformer.serve", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--poll_s", "0.1", *options],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
        )
        self.lines = []
        self.address = None
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.wait_for("page: http")
        self.address = re.search(r"serving (http\S+)", "".join(self.lines))[1]

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_for(self, part):
        end = time.monotonic() + 120
        while not any(part in line for line in list(self.lines)):
            assert time.monotonic() < end, self.lines
            assert self.process.poll() is None, self.lines
            time.sleep(0.02)

    def predict(self, *texts):
        body = json.dumps({"instances": texts}).encode()
        with urllib.request.urlopen(f"{self.address}:predict", body, timeout=60) as reply:
            return json.load(reply)["predictions"]

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(60)

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()


@pytest.fixture
def serve(models, tmp_path):
    """Starts a server of version 1: ``serve("--grace_s", "1")``."""
    started = []
    shutil.copytree(models / "1", tmp_path / "toy" / "1")

    def start(*options):
        started.append(Server(tmp_path / "toy", *options))
        return started[-1]

    yield start
    for server in started:
        server.close()


def hammer(server, stop, answers, failures):
    while not stop.is_set():
        try:
            answers.append(server.predict("a", "b"))
        except OSError as error:
            failures.append(error)


@pytest.mark.slow
def test_versions_change_under_load_and_accepted_requests_are_finished(serve, models, tmp_path):
    """Predict, switch to a new version under load, and end while requests are running."""
    server = serve("--log_requests")
    assert server.predict("hello", "") == ["HELLO!0", "!0"]
    stop, answers, failures = threading.Event(), [], []
    clients = [
        threading.Thread(target=hammer, args=(server, stop, answers, failures)) for _ in range(4)
    ]
    for client in clients:
        client.start()
    shutil.copytree(models / "2", tmp_path / "toy" / "2.part")
    (tmp_path / "toy" / "2.part").rename(tmp_path / "toy" / "2")
    server.wait_for("version 1 retired")
    count = len(answers)
    while len(answers) < count + 20:
        time.sleep(0.01)
    stop.set()
    for client in clients:
        client.join()
    assert failures == []
    assert {tuple(answer) for answer in answers} == {("A!0", "B!0"), ("A?0", "B?0")}
    assert answers[-1] == ["A?0", "B?0"]

    slow = []
    requests = [
        threading.Thread(target=lambda: slow.append(server.predict("slow"))) for _ in range(3)
    ]
    for request in requests:
        request.start()
    time.sleep(0.3)
    assert server.end() == 0
    for request in requests:
        request.join()
    assert slow == [["SLOW?0"]] * 3
    log = "".join(server.lines)
    assert "stopped\n" in log
    assert re.search(r"POST /v1/models/toy:predict 200 \d+\.\d ms", log)
    assert "Traceback" not in log


@pytest.mark.slow
def test_a_damaged_newest_version_does_not_keep_the_server_down(serve, models, tmp_path):
    shutil.copytree(models / "2", tmp_path / "toy" / "2")
    file = tmp_path / "toy" / "2" / "saved_model.pb"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    server = serve()
    assert server.predict("hello") == ["HELLO!0"]
    log = "".join(server.lines)
    assert "starting TensorFlow" in log
    assert "loading version 2 of toy" in log
    assert "WARNING version 2 is not served; version 1 is used" in log
    file.write_bytes(whole)
    server.wait_for("version 1 retired")
    assert server.predict("hello") == ["HELLO?0"]
    assert server.end() == 0


@pytest.mark.slow
def test_the_server_ends_after_the_grace_period(serve):
    server = serve("--grace_s", "1")
    body = json.dumps({"instances": ["endless"]}).encode()

    def ask():
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{server.address}:predict", body, timeout=60)

    client = threading.Thread(target=ask)
    client.start()
    time.sleep(1)
    started = time.monotonic()
    assert server.end(signal.SIGINT) == 1
    assert 1 <= time.monotonic() - started < 20
    client.join()
    assert "unfinished requests are lost" in "".join(server.lines)


@pytest.mark.slow
def test_the_built_in_model_is_served_from_a_temporary_folder(tmp_path):
    server = Server("builtin:phrasebook", TMPDIR=str(tmp_path))
    try:
        [folder] = tmp_path.glob("keras_transformer.*/phrasebook/1")
        assert (folder / "saved_model.pb").is_file()
        assert server.address.endswith("/v1/models/phrasebook")
        [reply] = server.predict("I love you.")
        assert reply["translation"] == "我爱你。"
        page = server.address.partition("/v1/")[0]
        with urllib.request.urlopen(page, timeout=60) as response:
            assert b"<html" in response.read()
        assert server.end() == 0
        assert list(tmp_path.iterdir()) == []
    finally:
        server.close()


@pytest.mark.slow
def test_a_stop_during_the_temporary_export_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.serve", "builtin:phrasebook", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with process:
        next(line for line in process.stderr if "writing version 1 of phrasebook" in line)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_broken_model_ends_with_status_2(folder):
    result = subprocess.run(
        [sys.executable, "-m", "keras_transformer.serve", str(folder), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 2
    assert "no version of the model can be served\nversion 3: " in result.stderr
    assert "Traceback" not in result.stderr
