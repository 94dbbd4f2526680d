"""The run folder: atomic creation, and contents for later commands."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import h5py
import keras
import numpy as np
import pytest
import yaml
from sentencepiece import sentencepiece_model_pb2

from keras_transformer import formats
from keras_transformer.config import Config, ConfigError, from_dict, to_dict
from keras_transformer.data.errors import DataError
from keras_transformer.formats import FormatError
from keras_transformer.model import transformer
from keras_transformer.run import Run, RunError
from keras_transformer.system import FileError
from tests.support.disk import file_size_limit


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Return a configuration of a minimal model on a corpus of a few words."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, lines in (("train", 30), ("dev", 3)):
        for language in ("a", "b"):
            text = "".join(f"{language} {language * (n % 5 + 1)}\n" for n in range(lines))
            (folder / f"{name}.{language}").write_text(text)
    values = {
        "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": 4, "heads": 1, "d_ff": 4},
        "data": {
            "train": str(folder / "train"),
            "dev": str(folder / "dev"),
            "source": "a",
            "target": "b",
            "vocabulary_size": 300,
        },
    }
    return from_dict(values)


def create(path: Path, config: Config) -> Run:
    return Run.create(path, config, lambda line: None)[0]


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory, config: Config) -> Run:
    return create(tmp_path_factory.mktemp("runs") / "run", config)


@pytest.fixture
def run(created: Run, tmp_path: Path) -> Run:
    """A copy that a test may change."""
    return Run.open(shutil.copytree(created.path, tmp_path / "run"))


# Creating


def test_a_suppressed_piece_that_is_unknown_is_refused(tmp_path: Path, config: Config) -> None:
    search = dataclasses.replace(config.search, suppress=(">>xx<<",))
    with pytest.raises(ConfigError, match=r"search\.suppress: .* got '>>xx<<'"):
        create(tmp_path / "run", dataclasses.replace(config, search=search))
    assert not (tmp_path / "run").exists()


def test_a_new_run_describes_itself(tmp_path: Path, config: Config) -> None:
    lines: list[str] = []
    run, prepared = Run.create(tmp_path / "some" / "run", config, lines.append)
    assert {path.name for path in run.path.iterdir()} == {
        "config.yaml",
        "versions.json",
        "tokenizer",
        "data",
    }
    assert os.listdir(tmp_path / "some") == ["run"]
    assert any("vocabulary size" in line for line in lines)
    size = prepared.tokenizer.source.size
    assert (
        run.config.model.source_vocabulary_size == run.config.model.target_vocabulary_size == size
    )
    assert dataclasses.replace(run.config, model=config.model) == config
    assert json.loads((run.path / "versions.json").read_text())["keras"] == keras.__version__
    opened = Run.open(run.path)
    assert opened == run
    assert opened.tokenizer().fingerprint == prepared.tokenizer.fingerprint
    assert len(opened.prepared(lines.append).train) == len(prepared.train) == 30


def files(run: Run) -> dict[Path, bytes]:
    paths = [path for name in ("data", "tokenizer") for path in sorted((run.path / name).iterdir())]
    return {path.relative_to(run.path): path.read_bytes() for path in paths}


def no_link(source: str, target: str) -> None:
    raise OSError(18, "Invalid cross-device link")


@pytest.mark.parametrize("links", [True, False])
def test_runs_share_prepared_data(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    before, lines = files(run), list[str]()
    other = dataclasses.replace(run.config, train=dataclasses.replace(run.config.train, seed=9))

    second, prepared = Run.create(tmp_path / "second", other, lines.append, prepared_in=run.path)

    assert lines == [f"data: shared with {run.path}"]
    assert second.config.train.seed == 9
    assert files(second) == before
    inodes = [(folder.path / "data" / "train.json").stat().st_ino for folder in (run, second)]
    assert (inodes[0] == inodes[1]) is links
    # Neither preparing again nor removing the first run changes the second.
    (run.path / "data" / "dev.json").unlink()
    run.prepare_again(lines.append)
    assert files(second) == before
    shutil.rmtree(run.path)
    assert Run.open(second.path).prepared(lines.append).dev_pairs == prepared.dev_pairs


def test_data_of_another_configuration_are_not_shared(run: Run, tmp_path: Path) -> None:
    data = dataclasses.replace(run.config.data, max_tokens=7)
    config = dataclasses.replace(run.config, data=data)
    with pytest.raises(DataError, match=r"expected data.max_tokens \d+, got 7"):
        Run.create(tmp_path / "new", config, print, prepared_in=run.path)
    with pytest.raises(DataError, match="nowhere"):
        Run.create(tmp_path / "new", run.config, print, prepared_in=tmp_path / "nowhere")
    assert not (tmp_path / "new").exists()


def test_a_run_uses_a_given_tokenizer(run: Run, tmp_path: Path, config: Config) -> None:
    data = dataclasses.replace(config.data, algorithm="bpe")
    other, _ = Run.create(tmp_path / "one", dataclasses.replace(config, data=data), print)
    assert other.tokenizer().fingerprint != run.tokenizer().fingerprint
    second, _ = Run.create(tmp_path / "two", config, print, tokenizer=other.tokenizer())
    assert second.tokenizer().fingerprint == other.tokenizer().fingerprint
    assert second.config.model.source_vocabulary_size == other.tokenizer().source.size
    with pytest.raises(DataError, match="the same tokenizer, got another one"):
        Run.create(
            tmp_path / "x", config, print, tokenizer=run.tokenizer(), prepared_in=second.path
        )


def test_a_library_under_another_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_LIBRARIES", ("numpy", "no-such-tensorflow"))
    found = formats.versions()
    assert found["numpy"] == np.__version__
    assert found["no-such-tensorflow"] == "not installed under this name"


def test_an_empty_folder_may_be_there(tmp_path: Path, config: Config) -> None:
    (tmp_path / "run").mkdir()
    assert create(tmp_path / "run", config).best_weights.parent == tmp_path / "run"


def test_existing_files_are_not_touched(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("1")
    (tmp_path / "file").write_text("2")
    (tmp_path / "link").symlink_to("nowhere")
    for name, message in (
        ("full", "full: expected a new or an empty folder, found precious; choose another --run"),
        ("file", "file: expected a new folder, found a file or link"),
        ("link", "link: expected a new folder, found a file or link"),
        ("file/run", "file/run: cannot be written: "),
        (".", "expected the name of a new folder"),
        ("..", "expected the name of a new folder"),
        ("/", "expected the name of a new folder"),
    ):
        with pytest.raises((RunError, FileError), match=message):
            create(Path(name), config)
    assert sorted(os.listdir(tmp_path)) == ["file", "full", "link"]
    assert (tmp_path / "full" / "precious").read_text() == "1"


def test_a_run_is_not_overwritten(run: Run) -> None:
    with pytest.raises(RunError, match="run: exists already; continue it with --resume, or cho"):
        create(run.path, run.config)


@pytest.mark.parametrize("kind", ["folder", "link", "volume"])
def test_an_empty_folder_is_filled_not_replaced(tmp_path: Path, config: Config, kind: str) -> None:
    """It may be a mount point, or the target of a link; renaming over either is an error."""
    folder = tmp_path / "empty"
    folder.mkdir()
    path = folder
    if kind == "link":
        path = tmp_path / "link"
        path.symlink_to("empty")
    if kind == "volume":
        (folder / "lost+found").mkdir()
    inode = folder.stat().st_ino
    run = create(path, config)
    assert Run.open(path) == run
    assert run.path == path
    assert folder.stat().st_ino == inode
    assert set(os.listdir(folder)) - {"lost+found"} == {
        "config.yaml",
        "versions.json",
        "tokenizer",
        "data",
    }
    assert path.is_symlink() == (kind == "link")


def test_a_failed_start_leaves_an_empty_folder_empty(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it fails while the files are moved into the folder."""
    (tmp_path / "run" / "lost+found").mkdir(parents=True)
    replace = os.replace

    def failing(source: Path, target: Path) -> None:
        if Path(target) == tmp_path / "run" / "config.yaml":  # the last one
            assert set(os.listdir(tmp_path / "run")) > {"tokenizer", "data", "versions.json"}
            raise OSError("failed")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(FileError, match="run: cannot be written: failed"):
        create(tmp_path / "run", config)
    assert os.listdir(tmp_path / "run") == ["lost+found"]


@pytest.mark.slow
def test_a_mount_point_becomes_a_run(tmp_path: Path, config: Config) -> None:
    """A file system is mounted in a mount namespace of its own."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace here")
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(to_dict(config)))
    run = tmp_path / "run"
    run.mkdir()
    code = (
        "import sys, yaml\n"
        "from pathlib import Path\n"
        "from keras_transformer.config import from_dict\n"
        "from keras_transformer.run import Run\n"
        "run = Path(sys.argv[1])\n"
        "config = from_dict(yaml.safe_load(run.with_name('config.yaml').read_text()))\n"
        "Run.create(run, config, print)\n"
        "print(sorted(path.name for path in run.iterdir()))\n"
    )
    script = 'mount -t tmpfs none "$1" && exec "$2" -c "$3" "$1"'
    words = ["unshare", "-m", "bash", "-c", script, "bash", str(run), sys.executable, code]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = ["config.yaml", "data", "tokenizer", "versions.json"]
    assert done.stdout.splitlines()[-1] == str(names)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("data", {"dev": "nowhere/dev"}, "nowhere/dev: expected nowhere/dev.a"),
        (
            "model",
            {"source_vocabulary_size": 5000, "target_vocabulary_size": 5000},
            r"model\.source_vocabulary_size: expected 0 or the tokenizer's \d+, got 5000",
        ),
    ],
)
def test_a_start_that_fails_leaves_nothing(
    tmp_path: Path, config: Config, section: str, change: dict, message: str
) -> None:
    part = dataclasses.replace(getattr(config, section), **change)
    with pytest.raises((DataError, RunError), match=message):
        create(tmp_path / "run", dataclasses.replace(config, **{section: part}))
    assert os.listdir(tmp_path) == []


def test_an_interrupted_start_leaves_nothing(
    tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_transformer.run.versions", interrupt)
    with pytest.raises(KeyboardInterrupt):
        create(tmp_path / "run", config)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, config: Config) -> None:
    with file_size_limit(100), pytest.raises(FileError, match="cannot be written"):
        create(tmp_path / "run", config)
    assert os.listdir(tmp_path) == []


def test_leftovers_of_a_killed_start_are_removed(tmp_path: Path, config: Config) -> None:
    left = tmp_path / ".run.partial"
    (left / "data").mkdir(parents=True)
    (left / "data" / "fingerprint.json").write_text("{}")
    (left / "log.txt").write_text("old")
    assert not (create(tmp_path / "run", config).path / "log.txt").exists()
    assert os.listdir(tmp_path) == ["run"]


def test_two_processes_cannot_create_one_run(tmp_path: Path, config: Config) -> None:
    staging = tmp_path / ".run.partial"
    staging.mkdir()
    with Run(staging, config).locked(), pytest.raises(FileError, match="another process"):
        create(tmp_path / "run", config)
    assert staging.is_dir()  # it belongs to the other process
    create(tmp_path / "run", config)


# Opening


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected a run folder with config.yaml, found none"),
        (b"model: {", "config.yaml, line 1: not YAML: while parsing"),
        (b"\xff", "cannot read .*config.yaml: expected UTF-8"),
        (b"", "config.yaml: expected fields such as .*, found nothing"),
        (
            b"model: {d_modl: 3}",
            r"config.yaml, line 1: unknown field model\.d_modl; did",
        ),
        (b"model: {d_model: wide}", r"model\.d_model: expected a whole number, got 'wide'"),
        (b"model: {d_model: 0}", r"config.yaml: model\.d_model: expected 1 to 65536, got 0"),
    ],
)
def test_an_invalid_run_folder_is_named(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "config.yaml").write_bytes(content)
    with pytest.raises(RunError, match=message) as caught:
        Run.open(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_changed_configuration_is_written(run: Run) -> None:
    train = dataclasses.replace(run.config.train, max_steps=7)
    dataclasses.replace(run, config=dataclasses.replace(run.config, train=train)).write_config()
    assert Run.open(run.path).config.train.max_steps == 7


def hold(path: str, config: Config, held: Callable[[], None], free: Callable[[], None]) -> None:
    with Run(Path(path), config).locked():
        held()
        free()


def test_the_lock_holds_between_processes_and_ends_with_them(run: Run) -> None:
    context = multiprocessing.get_context("fork")
    held, free = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(run.path), run.config, held.set, free.wait))
    other.start()
    try:
        assert held.wait(30)
        with pytest.raises(FileError, match="in use by another process"), run.locked():
            pass
    finally:
        other.kill()  # without any cleanup
        other.join()
    with run.locked():
        pass


# Weights


def constant_model(config: Config, value: float) -> keras.Model:
    model = transformer.build(config.model)
    model.set_weights([np.full(weight.shape, value) for weight in model.get_weights()])
    return model


def test_saved_best_weights_are_loaded(run: Run) -> None:
    with pytest.raises(RunError, match="no best.weights.h5 yet; it comes with the first check"):
        run.model()
    model = constant_model(run.config, 0.5)
    model.compile(optimizer="adam")
    model.optimizer.build(model.trainable_variables)
    run.save_best(model)
    assert not list(run.path.glob(".partial.*"))
    for weight in Run.open(run.path).model().get_weights():
        np.testing.assert_array_equal(weight, 0.5)
    with h5py.File(run.best_weights) as file:  # Adam's moments would triple the size
        assert "optimizer" not in file


def test_weights_can_be_loaded_in_bfloat16(run: Run) -> None:
    run.save_best(constant_model(run.config, 1 / 3))
    for weight in run.model("bfloat16").weights:
        assert weight.dtype == "bfloat16"
        # Eight binary digits: 171 / 512.
        np.testing.assert_array_equal(keras.ops.cast(weight, "float32"), 0.333984375)


@pytest.mark.filterwarnings("ignore:Skipping nested container")  # the error message is clearer
@pytest.mark.parametrize(
    ("saved", "opened"),
    [
        ({"d_ff": 8}, {}),
        ({}, {"encoder_layers": 2}),  # the file has fewer weights than the model
        ({"encoder_layers": 2}, {}),  # the file has more weights
        ({}, {"positions": "learned"}),
        ({"norm": "pre"}, {}),
    ],
)
def test_weights_of_another_architecture_are_refused(run: Run, saved: dict, opened: dict) -> None:
    def changed(change: dict) -> Config:
        return dataclasses.replace(
            run.config, model=dataclasses.replace(run.config.model, **change)
        )

    run.save_best(constant_model(changed(saved), 0.5))
    with pytest.raises(RunError, match=r"best\.weights\.h5: (cannot be loaded|expected the)"):
        dataclasses.replace(run, config=changed(opened)).model()


@pytest.mark.parametrize("keep", [0, 1000])
def test_damaged_weights_are_refused(run: Run, keep: int) -> None:
    run.save_best(constant_model(run.config, 0.5))
    run.best_weights.write_bytes(run.best_weights.read_bytes()[:keep])
    with pytest.raises(RunError, match=r"best\.weights\.h5: cannot be loaded"):
        run.model()


def test_a_full_disk_keeps_the_earlier_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.save_best(constant_model(run.config, 0.5))
    run.write_dev_translations(["eins"])
    with file_size_limit(2000), pytest.raises(FileError, match="translations.txt: cannot be wr"):
        run.write_dev_translations(["x" * 3000])
    # No limit of the file size, which would crash HDF5.
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=2**20))
    with pytest.raises(FileError, match=r"0\.0 MB are to be written, 1\.0 MB are free"):
        run.save_best(constant_model(run.config, 0.25))
    assert not list(run.path.glob(".partial.*"))
    assert run.model().get_weights()[0].flat[0] == 0.5
    assert (run.path / "dev.translations.txt").read_text() == "eins\n"


def test_weights_of_the_best_checkpoints_are_kept(run: Run) -> None:
    model = constant_model(run.config, 0.5)
    for step in (2, 4):
        run.save_checkpoint_weights(model, step)
    run.delete_checkpoint_weights_except({4, 6})
    assert os.listdir(run.path / "best") == ["4.weights.h5"]


def test_a_changed_corpus_is_prepared_again(tmp_path: Path, config: Config) -> None:
    folder = Path(shutil.copytree(Path(config.data.train).parent, tmp_path / "corpus"))
    data = dataclasses.replace(config.data, train=str(folder / "train"), dev=str(folder / "dev"))
    run = create(tmp_path / "run", dataclasses.replace(config, data=data))
    lines: list[str] = []
    assert len(run.prepare_again(lines.append).train) == 30
    assert "as prepared before" in lines[0]  # it has not changed yet

    for language in ("a", "b"):
        with (folder / f"train.{language}").open("a") as file:
            file.write(f"{language}\n")
    with pytest.raises(DataError, match=r"train\.a unchanged, got a file of other content"):
        run.prepared(lines.append)
    assert len(run.prepare_again(lines.append).train) == 31
    assert len(run.prepared(lines.append).train) == 31
    assert {path.name for path in run.path.iterdir()} == {
        "config.yaml",
        "versions.json",
        "tokenizer",
        "data",
    }


def test_a_cut_configuration_is_refused(run: Run) -> None:
    """Cut after a section, it is valid YAML; other fields would have their defaults."""
    whole = (run.path / "config.yaml").read_text()
    (run.path / "config.yaml").write_text(whole[: whole.index("search:")])
    with pytest.raises(RunError, match=r"config\.yaml: expected '\.\.\.' as its last line"):
        Run.open(run.path)


# Formats


def test_a_run_of_a_later_version_names_the_version_that_reads_it(run: Run) -> None:
    """Whatever its configuration looks like."""
    (run.path / "config.yaml").write_text("model: {new_option: 1}\n")
    values = {"format_number": 2, "keras-translate": "0.3.1"}
    (run.path / "versions.json").write_text(json.dumps(values))
    with pytest.raises(FormatError, match="got format 2, .* install keras-translate 0.3.1 or lat"):
        Run.open(run.path)


@pytest.mark.parametrize("stored", [None, '{"keras": "3.13.2"}'])
def test_a_run_without_a_number_is_of_the_first_format(run: Run, stored: str | None) -> None:
    text = (run.path / "config.yaml").read_text().removesuffix("...\n")
    (run.path / "config.yaml").write_text(text)
    (run.path / "versions.json").unlink()
    if stored:
        (run.path / "versions.json").write_text(stored)
    assert Run.open(run.path) == run


@pytest.mark.parametrize("stored", ["", "[1]", '{"format_number": "1"}', '{"format_number": 0}'])
def test_a_damaged_format_is_refused(run: Run, stored: str) -> None:
    (run.path / "versions.json").write_text(stored)
    with pytest.raises(FormatError, match=r"versions\.json: "):
        Run.open(run.path)


def test_weights_of_another_tokenizer_are_refused(run: Run, tmp_path: Path) -> None:
    """The models have the same shapes, so that only the fingerprint tells them apart."""
    run.save_best(constant_model(run.config, 0.5))
    shutil.copytree(run.path, tmp_path / "other")
    proto = sentencepiece_model_pb2.ModelProto.FromString(run.tokenizer().source.proto)
    proto.pieces[-1].piece, proto.pieces[-2].piece = proto.pieces[-2].piece, proto.pieces[-1].piece
    (run.path / "tokenizer" / "joint.model").write_bytes(proto.SerializeToString())
    with pytest.raises(RunError, match="expected weights trained with the tokenizer in .*tokeniz"):
        run.model()
    assert Run.open(tmp_path / "other").model().count_params()
    with h5py.File(run.best_weights, "a") as file:  # of an earlier version
        del file.attrs["tokenizer"]
    assert run.model().count_params()


def test_the_written_configuration_is_plain_yaml(run: Run) -> None:
    text = (run.path / "config.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == to_dict(run.config)
