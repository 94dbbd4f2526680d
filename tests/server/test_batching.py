"""Batches of concurrent requests."""

from __future__ import annotations

import asyncio
import random

import numpy as np
import pytest

from keras_transformer.server.batching import Batcher
from keras_transformer.server.decode import PredictRequest
from keras_transformer.server.errors import RestError
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.settings import Settings


@pytest.fixture
def model(scripted, folder):
    return scripted.load(folder)


@pytest.fixture
def batcher():
    made = []

    def make(**settings):
        made.append(Batcher(Settings(**({"batches": 1} | settings)), Metrics("toy")))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(model, *texts, signature="serving_default"):
    inputs = {"text": np.array([text.encode() for text in texts], dtype=object)}
    return PredictRequest(model.signatures[signature], "row", inputs, len(texts))


async def held(batcher, model, scripted):
    """Block the model with a first request, so that further requests queue up."""
    scripted.free.clear()
    job = batcher.submit(model, ask(model, "first"))
    while not scripted.batches:
        await asyncio.sleep(0.001)
    return job


def texts(outputs):
    return [text.decode() for text in outputs["translation"]]


def test_queued_requests_become_one_batch(run, batcher, model, scripted):
    async def main():
        one = batcher()
        first = await held(one, model, scripted)
        jobs = [one.submit(model, ask(model, *words)) for words in (["a", "b"], ["c"], ["d"])]
        assert one.waiting == 4
        scripted.free.set()
        answers = await asyncio.gather(first.outputs, *(job.outputs for job in jobs))
        assert list(map(texts, answers)) == [["FIRST"], ["A", "B"], ["C"], ["D"]]
        assert scripted.batches == [["first"], ["a", "b", "c", "d"]]
        assert (one.waiting, one.running) == (0, 0)

    run(main)


def test_a_large_request_runs_in_chunks_and_lets_others_go_first(run, batcher, model, scripted):
    async def main():
        one = batcher(max_batch_size=3)
        await held(one, model, scripted)
        large = one.submit(model, ask(model, *"abcdefg"))
        small = one.submit(model, ask(model, "x"))
        scripted.free.set()
        assert texts(await small.outputs) == ["X"]
        assert texts(await large.outputs) == list("ABCDEFG")
        assert scripted.batches[1:] == [list("abc"), ["x", "d", "e"], ["f", "g"]]

    run(main)


def test_signatures_with_padding_are_not_joined_but_padded_alike(run, batcher, model, scripted):
    async def main():
        one = batcher(max_batch_size=2)
        await held(one, model, scripted)
        jobs = [
            one.submit(model, ask(model, *words, signature="align"))
            for words in (["a", "bc", "def"], ["gh"])
        ]
        scripted.free.set()
        large, small = [await job.outputs for job in jobs]
        grid = [[b"a", b"", b""], [b"b", b"c", b""], [b"d", b"e", b"f"]]
        assert large["pieces"].tolist() == grid
        assert large["lengths"].tolist() == [1, 2, 3]
        assert small["pieces"].tolist() == [[b"g", b"h"]]
        assert sorted(scripted.batches[1:]) == [["a", "bc"], ["def"], ["gh"]]

    run(main)


def test_signatures_and_versions_are_not_mixed(run, batcher, model, scripted, folder):
    async def main():
        one = batcher()
        await held(one, model, scripted)
        other = scripted.load(folder)
        jobs = [
            one.submit(model, ask(model, "a")),
            one.submit(model, ask(model, "b", signature="align")),
            one.submit(other, ask(model, "c")),
            one.submit(model, ask(model, "d")),
        ]
        scripted.free.set()
        await asyncio.gather(*(job.outputs for job in jobs))
        assert scripted.batches[1:] == [["a", "d"], ["b"], ["c"]]

    run(main)


def test_a_failure_concerns_only_its_own_request(run, batcher, model, scripted):
    async def main():
        one = batcher()
        await held(one, model, scripted)
        jobs = [one.submit(model, ask(model, text)) for text in ("a", "explode", "b")]
        scripted.free.set()
        answers = await asyncio.gather(*(job.outputs for job in jobs), return_exceptions=True)
        assert texts(answers[0]) == ["A"]
        assert isinstance(answers[1], RestError)
        assert "explodes" in str(answers[1])
        assert texts(answers[2]) == ["B"]
        assert scripted.batches[1:] == [["a", "explode", "b"], ["a"], ["explode"], ["b"]]

    run(main)


def test_a_failed_chunk_ends_the_whole_request(run, batcher, model, scripted):
    async def main():
        one = batcher(max_batch_size=1)
        job = one.submit(model, ask(model, "a", "explode", "b", "c"))
        with pytest.raises(RestError, match="explodes"):
            await job.outputs
        await asyncio.sleep(0.05)
        assert scripted.batches == [["a"], ["explode"]]
        assert (one.waiting, one.running) == (0, 0)

    run(main)


def test_outputs_that_cannot_be_joined_concern_only_their_own_request(
    run, batcher, model, scripted, monkeypatch
):
    settle = Batcher._settle

    def failing(self, chunk, result):
        if chunk.job.request.inputs["text"][0] == b"odd" and not isinstance(result, RestError):
            raise ValueError("odd")
        settle(self, chunk, result)

    monkeypatch.setattr(Batcher, "_settle", failing)

    async def main():
        one = batcher()
        await held(one, model, scripted)
        jobs = [one.submit(model, ask(model, text)) for text in ("a", "odd", "b")]
        scripted.free.set()
        answers = await asyncio.gather(*(job.outputs for job in jobs), return_exceptions=True)
        assert texts(answers[0]) + texts(answers[2]) == ["A", "B"]
        assert str(answers[1]) == "odd"
        last = one.submit(model, ask(model, "c"))
        assert texts(await last.outputs) == ["C"]
        assert (one.waiting, one.running) == (0, 0)

    run(main)


def test_the_thread_survives_a_failing_batch(run, batcher, model, monkeypatch):
    def fail(chunks):
        raise MemoryError("no room")

    monkeypatch.setattr("keras_transformer.server.batching.run", fail)

    async def main():
        one = batcher()
        for text in "ab":
            with pytest.raises(RestError, match="no room"):
                await one.submit(model, ask(model, text)).outputs
        assert (one.waiting, one.running) == (0, 0)

    run(main)


def test_a_model_that_loses_rows_is_an_error(run, batcher, model):
    async def main():
        job = batcher().submit(model, ask(model, "a", "b", signature="broken"))
        with pytest.raises(RestError, match="expected 2 rows, got") as caught:
            await job.outputs
        assert caught.value.status == 500

    run(main)


def test_the_queue_is_bounded_in_rows(run, batcher, model, scripted):
    async def main():
        one = batcher(max_queue=3)
        await held(one, model, scripted)
        waiting = one.submit(model, ask(model, "a", "b"))
        with pytest.raises(RestError, match="2 rows are waiting, at most 3") as caught:
            one.submit(model, ask(model, "c", "d"))
        assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
        with pytest.raises(RestError, match="at most 3 rows in a request, got 4") as caught:
            one.submit(model, ask(model, *"cdef"))
        assert caught.value.status == 400
        last = one.submit(model, ask(model, "e"))
        scripted.free.set()
        assert texts(await waiting.outputs) + texts(await last.outputs) == ["A", "B", "E"]

    run(main)


def test_dropped_requests_are_not_run(run, batcher, model, scripted):
    async def main():
        one = batcher()
        first = await held(one, model, scripted)
        jobs = [one.submit(model, ask(model, text)) for text in "abc"]
        one.drop(jobs[1])
        one.drop(first)
        assert one.waiting == 2
        scripted.free.set()
        assert texts(await jobs[2].outputs) == ["C"]
        assert scripted.batches == [["first"], ["a", "c"]]

    run(main)


def test_batches_at_the_same_time(run, batcher, model, scripted):
    async def main():
        one = batcher(batches=2)
        first = await held(one, model, scripted)
        second = one.submit(model, ask(model, "second"))
        while len(scripted.batches) < 2:
            await asyncio.sleep(0.001)
        assert one.running == 2
        scripted.free.set()
        await asyncio.gather(first.outputs, second.outputs)

    run(main)


def test_rows_are_divided_among_free_threads(run, batcher, model, scripted):
    """A request of seven rows on two free threads: four and three, not seven and none."""

    async def main():
        two = batcher(batches=2)
        job = two.submit(model, ask(model, *"abcdefg"))
        assert texts(await job.outputs) == list("ABCDEFG")
        assert sorted(map(len, scripted.batches)) == [3, 4]

    run(main)


def test_the_time_of_every_batch_is_counted(run, batcher, model):
    async def main():
        one = batcher()
        for text in ("a", "b"):
            await one.submit(model, ask(model, text)).outputs
        assert b"keras_transformer_serve_run_seconds_count 2.0" in one.metrics.render()

    run(main)


def test_waiting_for_a_fuller_batch(run, batcher, model, scripted):
    async def main():
        one = batcher(batch_timeout_ms=60_000, max_batch_size=2)
        jobs = [one.submit(model, ask(model, "a"))]
        await asyncio.sleep(0.02)
        assert scripted.batches == []
        jobs.append(one.submit(model, ask(model, "b")))
        await asyncio.wait_for(asyncio.gather(*(job.outputs for job in jobs)), 5)
        assert scripted.batches == [["a", "b"]]
        short = batcher(batch_timeout_ms=10)
        await asyncio.wait_for(short.submit(model, ask(model, "c")).outputs, 5)
        assert scripted.batches[1:] == [["c"]]

    run(main)


def test_many_requests_get_their_own_replies(run, batcher, model, scripted):
    dice = random.Random(5)

    async def one_request(one, number):
        words = [f"r{number}w{word}" for word in range(dice.randint(0, 12))]
        await asyncio.sleep(dice.random() * 0.05)
        job = one.submit(model, ask(model, *words))
        assert texts(await job.outputs) == [word.upper() for word in words]

    async def main():
        scripted.pause = 0.001
        one = batcher(max_batch_size=5, batches=2)
        await asyncio.gather(*(one_request(one, number) for number in range(200)))
        assert max(map(len, scripted.batches)) <= 5
        assert len(scripted.batches) < 300

    run(main)


def test_an_indivisible_request(run, batcher, model):
    async def main():
        inputs = {"a": np.float32(1), "b": np.float32(2)}
        request = PredictRequest(model.signatures["add"], "column", inputs, 1)
        answer = await batcher().submit(model, request).outputs
        assert answer["sum"] == 3

    run(main)


def test_the_event_loop_is_free_while_a_batch_runs(run, batcher, model, scripted):
    async def main():
        scripted.pause = 0.2
        job = batcher().submit(model, ask(model, "a"))
        turns = 0
        while not job.outputs.done():
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 5

    run(main)
