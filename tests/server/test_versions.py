"""Discovery, switching and retirement of versions."""

from __future__ import annotations

import asyncio
import os
import shutil
import weakref
from types import SimpleNamespace

import pytest

from keras_transformer.server.errors import RestError
from keras_transformer.server.metrics import Metrics
from keras_transformer.server.settings import ServeError, Settings
from keras_transformer.server.versions import Versions


@pytest.fixture
def versions(folder, scripted, monkeypatch):
    # Scripted models have no cycles, and a full collection takes long in a large test process.
    monkeypatch.setattr("keras_transformer.server.versions.gc", SimpleNamespace(collect=list))
    made = []

    def make(labels=None, **settings):
        settings = {"name": "toy", "poll_s": 0.01} | settings
        made.append(
            Versions(folder, Settings(**settings), labels or {}, Metrics("toy"), scripted.load)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def states(versions):
    return {item.number: item.state.value for item in versions.status()}


def test_the_newest_is_switched_to_and_the_old_one_finishes_its_requests(
    run, versions, folder, add_version
):
    async def main():
        one = versions()
        await one.start()
        with one.get().use():
            add_version(folder, 2)
            await one.poll()
            await asyncio.sleep(0.01)
            assert one.get().number == 2
            assert states(one) == {1: "UNLOADING", 2: "AVAILABLE"}
            with pytest.raises(RestError, match="version 1 is not loaded"):
                one.get(1)
        await until(lambda: states(one)[1] == "END")
        assert states(one) == {1: "END", 2: "AVAILABLE"}

    run(main)


def test_a_retired_version_is_freed(run, versions, folder, add_version):
    async def main():
        one = versions()
        await one.start()
        with one.get().use() as servable:
            seen = weakref.ref(servable)
        del servable
        add_version(folder, 2)
        await one.poll()
        await until(lambda: states(one)[1] == "END")
        await asyncio.sleep(0)
        await until(lambda: seen() is None)

    run(main)


def test_a_broken_version_is_skipped_and_retried(run, versions, folder, add_version):
    async def main():
        one = versions()
        await one.start()
        add_version(folder, 2)
        (folder / "2" / "broken").touch()
        await one.poll()
        assert one.get().number == 1
        (failed,) = one.status(2)
        assert (failed.state.value, failed.code) == ("END", "UNKNOWN")
        assert failed.message == "2 is broken"
        (folder / "2" / "broken").unlink()
        await one.poll()
        assert one.get().number == 2
        assert one.status(2)[0].message == ""

    run(main)


def test_a_broken_version_is_retried_only_when_its_files_change(
    run, versions, folder, scripted, add_version, monkeypatch
):
    tried = []
    load = scripted.load

    def counting(place):
        tried.append(place.name)
        return load(place)

    monkeypatch.setattr(scripted, "load", counting)

    async def main():
        add_version(folder, 2)
        (folder / "2" / "broken").touch()
        one = versions()
        await one.start()
        for _ in range(3):
            await one.poll()
        assert tried == ["2", "1"]
        (folder / "2" / "variables").mkdir()
        (folder / "2" / "variables" / "more").touch()
        await one.poll()
        await one.poll()
        assert tried == ["2", "1", "2"]

    run(main)


def test_the_newest_that_can_be_loaded_is_served_from_the_start(
    run, versions, folder, add_version, caplog
):
    async def main():
        for number in (2, 3, 4):
            add_version(folder, number)
        for number in (3, 4):
            (folder / f"{number}" / "broken").touch()
        one = versions()
        await one.start()
        assert states(one) == {4: "END", 3: "END", 2: "AVAILABLE"}
        assert one.get().number == 2
        (folder / "3" / "broken").unlink()
        await one.poll()
        assert one.get().number == 3
        await until(lambda: states(one)[2] == "END")

    run(main)
    lines = [record.getMessage() for record in caplog.records if record.levelname != "INFO"]
    assert lines == [
        "version 4 cannot be loaded, and is tried again when its files change: 4 is broken",
        "version 3 cannot be loaded, and is tried again when its files change: 3 is broken",
        "version 4 is not served; version 2 is used",
        "version 3 is not served; version 2 is used",
    ]


def test_broken_versions_stay_in_the_status(run, versions, folder, add_version, monkeypatch):
    monkeypatch.setattr("keras_transformer.server.versions._MAX_RETIRED", 1)

    async def main():
        for number in (2, 3, 4):
            add_version(folder, number)
            (folder / f"{number}" / "broken").touch()
        one = versions()
        await one.start()
        await one.poll()
        assert states(one) == {4: "END", 3: "END", 2: "END", 1: "AVAILABLE"}

    run(main)


def test_ignored_folders_are_logged_once(run, versions, folder, add_version, caplog):
    caplog.set_level("WARNING")

    async def main():
        (folder / "2").mkdir()
        (folder / "3.bad").mkdir()
        add_version(folder, 2**63)
        one = versions()
        await one.start()
        await one.poll()
        assert states(one) == {1: "AVAILABLE"}
        assert [record.getMessage() for record in caplog.records] == [
            f"{folder / '2'} is ignored: there is no saved_model.pb in it",
            f"{folder / '9223372036854775808'} is ignored: expected a number of at most "
            "9223372036854775807 for a name",
        ]
        caplog.clear()
        (folder / "2").rmdir()
        await one.poll()
        (folder / "2").mkdir()
        await one.poll()
        assert len(caplog.records) == 1

    run(main)


def replace_between_polls(folder):
    shutil.rmtree(folder / "2")
    (folder / "2").mkdir()
    (folder / "2" / "saved_model.pb").touch()


def rewrite_in_place(folder):
    (folder / "2" / "saved_model.pb").write_bytes(b"another model")


def replace_by_same_size_and_time(folder):
    file = folder / "2" / "saved_model.pb"
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    (folder / "new").touch()
    (folder / "new").replace(file)
    os.utime(file, ns=times)


def add_a_file(folder):
    (folder / "2" / "variables").mkdir()


@pytest.mark.parametrize(
    "change",
    [replace_between_polls, rewrite_in_place, replace_by_same_size_and_time, add_a_file],
)
def test_changed_files_of_a_loaded_version_are_reported_once(
    run, versions, folder, add_version, caplog, change
):
    caplog.set_level("WARNING")

    async def main():
        add_version(folder, 2)
        one = versions()
        await one.start()
        await one.poll()
        assert caplog.records == []
        change(folder)
        await one.poll()
        await one.poll()
        assert [record.getMessage() for record in caplog.records] == [
            f"version 2: the files in {folder / '2'} have changed; the model loaded before stays "
            "in use (for the new one: give it a new version number, or restart the server)"
        ]
        assert states(one) == {2: "AVAILABLE"}

    run(main)


def test_a_version_that_comes_back_after_its_retirement_is_loaded(
    run, versions, folder, add_version, caplog
):
    """Version 2 is deleted, version 1 serves, and another model becomes version 2."""
    caplog.set_level("INFO")

    async def main():
        add_version(folder, 2)
        one = versions()
        await one.start()
        shutil.rmtree(folder / "2")
        await one.poll()
        await until(lambda: states(one) == {1: "AVAILABLE", 2: "END"})
        add_version(folder, 2)
        await one.poll()
        assert one.get().number == 2
        loads = [record.getMessage() for record in caplog.records]
        assert loads.count("loading version 2 of toy") == 2

    run(main)


def test_the_only_version_replaced_while_it_serves_is_reported(
    run, versions, folder, add_version, caplog
):
    caplog.set_level("WARNING")

    async def main():
        one = versions()
        await one.start()
        shutil.rmtree(folder / "1")
        await one.poll()  # nothing is there: the loaded version stays
        add_version(folder, 1)
        await one.poll()
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == 2
        assert messages[1].startswith(f"version 1: the files in {folder / '1'} have changed")

    run(main)


def test_a_removed_broken_version_is_not_in_the_status(run, versions, folder, add_version):
    async def main():
        one = versions()
        await one.start()
        add_version(folder, 2)
        (folder / "2" / "broken").touch()
        await one.poll()
        shutil.rmtree(folder / "2")
        await one.poll()
        assert states(one) == {1: "AVAILABLE"}

    run(main)


def test_policies(run, versions, folder, add_version):
    async def main():
        add_version(folder, 2)
        add_version(folder, 3)
        (folder / "4.part").mkdir()
        (folder / "5").mkdir()  # no SavedModel in it yet
        for policy, wanted in {"latest": {3}, "all": {1, 2, 3}, "1,2,9": {1, 2}}.items():
            one = versions(versions=policy)
            await one.start()
            assert set(states(one)) == wanted
            assert one.get().number == max(wanted)

    run(main)


def test_removing_the_newest_version_serves_the_one_before(run, versions, folder, add_version):
    async def main():
        add_version(folder, 2)
        one = versions()
        await one.start()
        shutil.rmtree(folder / "2")
        await one.poll()
        assert one.get().number == 1

    run(main)


def test_loaded_versions_stay_if_the_folder_becomes_empty(run, versions, folder):
    async def main():
        one = versions()
        await one.start()
        shutil.rmtree(folder)
        await one.poll()
        assert one.get().number == 1

    run(main)


def test_labels(run, versions, folder, add_version):
    async def main():
        add_version(folder, 2)
        one = versions({"stable": 1, "old": 7}, versions="all")
        await one.start()
        assert one.get(label="stable").number == 1
        with pytest.raises(RestError, match="version 7 is not loaded") as caught:
            one.get(label="old")
        assert caught.value.status == 404
        with pytest.raises(RestError, match="no label 'new'") as caught:
            one.get(label="new")
        assert caught.value.status == 400

    run(main)


def test_nothing_to_serve(run, versions, folder):
    async def main():
        with pytest.raises(ServeError, match="none of the wanted versions is there, only 1"):
            await versions(versions="3").start()
        (folder / "1" / "broken").touch()
        with pytest.raises(ServeError, match="version 1: 1 is broken"):
            await versions().start()

    run(main)


def test_only_the_last_retired_versions_stay_in_the_status(
    run, versions, folder, add_version, monkeypatch
):
    monkeypatch.setattr("keras_transformer.server.versions._MAX_RETIRED", 2)

    async def main():
        one = versions()
        await one.start()
        for number in range(2, 6):
            add_version(folder, number)
            await one.poll()
            await until(lambda: "UNLOADING" not in states(one).values())
        await one.poll()
        assert states(one) == {5: "AVAILABLE", 4: "END", 3: "END"}

    run(main)
