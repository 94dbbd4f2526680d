"""The whole application, with scripted models."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from keras_transformer.server import app
from keras_transformer.server.settings import ServeError, Settings

PREDICT = "/v1/models/toy:predict"


def instances(*texts):
    return json.dumps({"instances": texts}).encode()


def wait_for(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_concurrent_requests_share_a_batch(client, scripted):
    toy = client()
    scripted.free.clear()
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(toy.post, PREDICT, content=instances("first"))
        wait_for(lambda: scripted.batches)
        rest = [pool.submit(toy.post, PREDICT, content=instances(text)) for text in "abcd"]
        wait_for(lambda: toy.service.batcher.waiting == 4)
        scripted.free.set()
        replies = [future.result().json()["predictions"] for future in [first, *rest]]
    assert [reply[0]["translation"] for reply in replies] == ["FIRST", "A", "B", "C", "D"]
    assert [len(batch) for batch in scripted.batches] == [1, 4]


def test_an_error_inside_the_model(client):
    reply = client().post(PREDICT, content=instances("explode"))
    assert (reply.status_code, reply.json()) == (500, {"error": "the text explodes"})


def test_a_full_queue(client, scripted):
    toy = client(max_queue=1)
    scripted.free.clear()
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(toy.post, PREDICT, content=instances("a"))]
        wait_for(lambda: scripted.batches)
        futures.append(pool.submit(toy.post, PREDICT, content=instances("b")))
        wait_for(lambda: toy.service.batcher.waiting == 1)
        reply = toy.post(PREDICT, content=instances("c"))
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert toy.post(PREDICT, content=instances("c", "d")).status_code == 400
        scripted.free.set()
        assert [future.result().status_code for future in futures] == [200, 200]


def test_time_limit(client, scripted):
    toy = client(timeout_s=0.1)
    scripted.free.clear()
    reply = toy.post(PREDICT, content=instances("a"))
    assert (reply.status_code, reply.json()) == (504, {"error": "no answer within 0.1 s"})
    reply = toy.post(PREDICT, content=instances("b"))  # it waits, and is dropped unstarted
    assert reply.status_code == 504
    scripted.free.set()
    wait_for(lambda: toy.service.batcher.running == 0)
    assert scripted.batches == [["a"]]


def test_body_limit(client):
    toy = client(max_body_mb=0.001)
    reply = toy.post(PREDICT, content=instances("a" * 1100))
    assert reply.status_code == 413
    assert "at most 1048 bytes" in reply.json()["error"]
    chunks = (piece for piece in [b"a" * 600] * 3)  # no Content-Length
    assert toy.post(PREDICT, content=chunks).status_code == 413
    assert toy.post(PREDICT, content=instances("a" * 900)).status_code == 200


def test_text_limit(client):
    """100,000 characters are translated, whatever they are; a longer text is refused."""
    toy = client()
    assert toy.post(PREDICT, content=instances("🙂" * 100_000, "a")).status_code == 200
    reply = toy.post(PREDICT, content=instances("a", "b" * (512 * 1024 + 1)))
    assert reply.status_code == 413
    message = "text: expected texts of at most 524288 bytes, got one of 524289"
    assert message in reply.json()["error"]
    small = client(max_text_kb=1)
    assert small.post(PREDICT, content=instances(*["a" * 1024] * 9)).status_code == 200
    body = {"signature_name": "align", "inputs": {"text": ["ä" * 513]}}
    assert small.post(PREDICT, json=body).status_code == 413
    body = {"signature_name": "add", "inputs": {"a": 1, "b": 2.5}}  # no text at all
    assert small.post(PREDICT, json=body).status_code == 200


def test_a_large_request_is_joined_again(client, scripted):
    words = [f"w{number}" for number in range(200)]
    reply = client().post(PREDICT, content=instances(*words))
    assert [row["translation"] for row in reply.json()["predictions"]] == [
        word.upper() for word in words
    ]
    assert [len(batch) for batch in scripted.batches] == [64, 64, 64, 8]


def test_long_texts(client):
    words = ["x" * 70_000, "y" * 3]
    reply = client().post(PREDICT, content=instances(*words))
    assert [row["translation"] for row in reply.json()["predictions"]] == ["X" * 70_000, "YYY"]


def test_scalars_by_column_only(client):
    toy = client()
    body = {"signature_name": "add", "inputs": {"a": 1, "b": 2.5}}
    assert toy.post(PREDICT, json=body).json() == {"outputs": 3.5}
    body = {"signature_name": "add", "instances": [{"a": 1, "b": 2.5}]}
    assert toy.post(PREDICT, json=body).status_code == 400


def test_a_new_version_is_switched_to(client, folder, add_version):
    toy = client()
    add_version(folder, 2)
    wait_for(lambda: toy.get("/page/model.json").json()["version"] == 2)
    assert toy.get("/v1/models/toy/versions/2").status_code == 200


def test_headers_on_every_reply(client):
    toy = client()
    for path in ("/", "/v1/models/toy", "/v1/x", "/nothing", "/monitoring/prometheus/metrics"):
        headers = toy.get(path).headers
        assert headers["server"].startswith("keras_transformer-serve")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["cache-control"] == "no-cache"
        assert "access-control-allow-origin" not in headers


def test_the_page(client, monkeypatch, tmp_path):
    page = tmp_path / "page"
    page.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    for name in ("index.html", "page.css", "page.js"):
        (page / name).write_text(name)
    monkeypatch.setattr(app, "PAGE", page)
    toy = client()
    types = {
        name: toy.get(name).headers["content-type"].partition(";")[0]
        for name in ("/", "/page/index.html", "/page/page.css", "/page/page.js")
    }
    assert list(types.values())[:3] == ["text/html", "text/html", "text/css"]
    assert types["/page/page.js"] in ("text/javascript", "application/javascript")
    assert toy.get("/").text == "index.html"
    for path in (
        "/missing",
        "/page/missing",
        "/page/../../secret.txt",
        "/page/%2e%2e/secret.txt",
        "/page/page.js/x",
        "/page/%00",
    ):
        reply = toy.get(path)
        assert (reply.status_code, list(reply.json())) == (404, ["error"])
    assert toy.post("/", content=b"x").status_code == 405


def test_description_of_the_model_for_the_page(shout, client):
    model = shout.get("/page/model.json").json()
    assert model["name"] == "shout"
    assert model["version"] == 1
    assert model["languages"] == {"source": "en", "target": "EN"}
    assert model["search"] == {"beam": 4, "n_best": 2}
    assert model["limits"]["timeout_s"] == 30
    bare = client().get("/page/model.json").json()  # a model without a card
    assert {"name": "toy", "version": 1}.items() <= bare.items()
    assert "languages" not in bare


def test_metrics(client):
    toy = client()
    toy.post(PREDICT, content=instances("a", "b", "c"))
    toy.post(PREDICT, content=b"{}")
    assert toy.post("/v1/models/other:predict", content=instances("a")).status_code == 404
    assert toy.get("/v1/models/other").status_code == 404  # no prediction was asked for
    reply = toy.get("/monitoring/prometheus/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    lines = reply.text.splitlines()
    for line in (
        ':tensorflow:serving:request_count{model_name="toy",status="OK"} 1.0',
        ':tensorflow:serving:request_count{model_name="toy",status="INVALID_ARGUMENT"} 1.0',
        ':tensorflow:serving:request_count{model_name="(unknown)",status="NOT_FOUND"} 1.0',
        ':tensorflow:serving:request_example_counts_sum{model="toy"} 3.0',
        'keras_transformer_serve_batch_rows_sum{signature="serving_default"} 3.0',
        "keras_transformer_serve_queue_rows 0.0",
        "keras_transformer_serve_version 1.0",
        'keras_transformer_serve_replies_total{code="200"} 1.0',
    ):
        assert line in lines
    latency = ':tensorflow:serving:request_latency_count{API="Predict",entrypoint="REST"'
    assert f'{latency},model_name="toy"}} 1.0' in lines


def test_an_error_of_the_server_itself(client, monkeypatch):
    toy = client()
    monkeypatch.setattr(toy.service.metrics, "render", lambda: 1 / 0)
    reply = toy.get("/monitoring/prometheus/metrics")
    assert reply.status_code == 500
    assert reply.json() == {"error": "the server failed: ZeroDivisionError"}


def test_an_address_that_is_taken():
    with app.listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=f"cannot listen on 127.0.0.1, port {port}: Address"):
            app.listen("127.0.0.1", port)
    with pytest.raises(ServeError, match="cannot listen on no.such.host.invalid"):
        app.listen("no.such.host.invalid", 0)


def test_small_packets_are_sent_at_once():
    with app.listen("127.0.0.1", 0) as taken:
        assert taken.proto == socket.IPPROTO_TCP  # asyncio asks this before TCP_NODELAY


def test_threads_do_not_pile_up(client):
    toy = client()
    before = threading.active_count()
    for _ in range(50):
        assert toy.post(PREDICT, content=instances("a")).status_code == 200
    assert threading.active_count() <= before + 2


def test_the_log_has_no_texts_and_no_queries(folder, scripted, caplog):
    caplog.set_level("INFO")
    service = app.Service(folder, Settings(name="toy"), None, scripted.load, log_requests=True)
    with TestClient(service.app()) as toy:
        assert toy.post(PREDICT, content=instances("private")).status_code == 200
        toy.get("/v1/models/toy/metadata?key=secret")
        toy.post(PREDICT, content=b'{"instances": [["private"]]}')
    logs = [record for record in caplog.records if record.name == "keras_transformer.serve"]
    text = "\n".join(record.getMessage() for record in logs)
    assert f"POST {PREDICT} 200 " in text
    assert f"POST {PREDICT} 400 " in text
    assert "GET /v1/models/toy/metadata " in text
    assert "secret" not in text
    assert "private" not in text
