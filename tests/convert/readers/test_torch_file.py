"""PyTorch's files, written by hand."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_transformer.convert.errors import ConvertError
from keras_transformer.convert.readers import torch_file
from keras_transformer.convert.readers.pickle_data import PickleData, Record
from tests.support import torch_files
from tests.support.torch_files import Call, Name, Stored, View, namespace, tensor

Save = Callable[[Any, Path], None]
BOTH = pytest.mark.parametrize("save", [torch_files.save, torch_files.save_old])


@BOTH
def test_tensors_have_their_numbers_shapes_and_types(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    ones = tensor([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]])
    halves = tensor([0.5, -2], np.float16)
    # bfloat16 has the upper half of a float32: 1 is 0x3f80, -2 is 0xc000.
    short = tensor([0x3F80, 0xC000], np.uint16)
    save({"model": {"a": ones, "b": halves, "c": short, "step": 7}}, path)
    model = torch_file.TorchTensors(torch_file.load(path)["model"])
    assert list(model) == ["a", "b", "c"]
    assert model["a"].tolist() == [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]
    assert (model["b"].dtype, model["b"].tolist()) == (np.float16, [0.5, -2])
    assert (model["c"].dtype, model["c"].tolist()) == (np.float32, [1, -2])


@BOTH
def test_views_share_a_storage(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    storage = Stored(np.arange(12, dtype=np.float32))
    views = {
        "row": View(storage, 4, (4,), (1,)),
        "transposed": View(storage, 0, (4, 3), (1, 4)),
        "column": View(storage, 1, (3, 1), (4, 99)),
        "number": View(storage, 11, (), ()),
        "none": View(storage, 0, (0, 4), (4, 1)),
    }
    save(OrderedDict(views), path)
    read = torch_file.TorchTensors(torch_file.load(path))
    assert read["row"].tolist() == [4, 5, 6, 7]
    assert read["transposed"].tolist() == np.arange(12).reshape(3, 4).T.tolist()
    assert read["column"].tolist() == [[1], [5], [9]]
    assert read["number"] == 11
    assert read["none"].shape == (0, 4)


@BOTH
def test_a_namespace_is_plain_data(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save({"args": namespace(arch="transformer", encoder_layers=6, betas=(0.9, 0.98))}, path)
    args = torch_file.load(path)["args"]
    assert (args.name, args.arguments) == ("argparse.Namespace", ())
    assert args.state == {"arch": "transformer", "encoder_layers": 6, "betas": (0.9, 0.98)}


def test_a_parameter_and_attributes_of_a_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    parameter = Call(Name("torch._utils", "_rebuild_parameter"), tensor([3.0]), True, {})
    values = Call(Name("collections", "OrderedDict"), [["a", parameter]], state={"_metadata": {}})
    torch_files.save(values, path)
    assert torch_file.load(path)["a"].read().tolist() == [3]


def test_other_names_need_permission(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch_files.save([Call(Name("fairseq.meters", "AverageMeter"), state={"sum": 3})], path)
    with pytest.raises(ConvertError, match=r"model.pt.*refers to fairseq.meters.AverageMeter"):
        torch_file.load(path)
    (meter,) = torch_file.load(path, records=lambda name: name.startswith("fairseq."))
    assert (meter.name, meter.state) == ("fairseq.meters.AverageMeter", {"sum": 3})


HOSTILE = {
    "posix.system": Call(Name("posix", "system"), "touch ran"),
    "os.system": Call(Name("os", "system"), "touch ran"),
    "builtins.eval": Call(Name("builtins", "eval"), "open('ran', 'w')"),
    "builtins.getattr": [Call(Name("builtins", "getattr"), {}, "items")],
    "torch.load": {"model": Call(Name("torch", "load"), "other.pt")},
    "torch.OsStorage": Name("torch", "OsStorage"),
    "collections.OrderedDict.fromkeys": Name("collections", "OrderedDict.fromkeys"),
}


@pytest.mark.parametrize("name", HOSTILE)
@BOTH
def test_hostile_pickles_run_nothing(
    save: Save, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(HOSTILE[name], tmp_path / "model.pt")
    before = set(sys.modules)
    with pytest.raises(ConvertError, match=f"refers to {name}; nothing of it was run"):
        torch_file.load(tmp_path / "model.pt")
    assert set(sys.modules) == before
    assert os.listdir(tmp_path) == ["model.pt"]


def _read(data: bytes) -> Any:
    return PickleData(io.BytesIO(data), "file", lambda name: name == "a.b").value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02",  # no end
        b"\x80\x02.",  # nothing on the stack
        b"\x80\x02(.",  # a mark as the value
        b"\x80\x02}K\x01s.",  # a key without a value
        b"\x80\x02]}X\x01\x00\x00\x00aK\x01sK\x02a.",  # a value for a dictionary
        b"\x80\x02}K\x01K\x02R.",  # a call of a number
        b"\x80\x02K\x01K\x02b.",  # attributes of a number: accepted by nobody
        b"\x80\x02h\x05.",  # an unknown memo
        b"\x80\x02X\xff\xff\xff\x7fa.",  # a text beyond the end
        b"\x80\x02Q.",  # a persistent id without a value
        b"\x80\x05\x97.",  # a buffer of protocol 5
        b"\x82\x01.",  # an extension
        b"ia\nb\n.",  # an instance of protocol 0
        pickle.dumps({(1, (2, 3)): 4}),  # a nested key
        b"(" * 100_000 + b".",
    ],
)
def test_damaged_pickles_are_refused(data: bytes) -> None:
    if data == b"\x80\x02K\x01K\x02b.":
        assert _read(data) == 1  # attributes are dropped
    else:
        with pytest.raises(ConvertError):
            _read(data)


def test_a_nested_bomb_costs_no_more_than_its_size() -> None:
    # 200 tuples, each of twice the one before: 2^200 leaves if anyone walked through them.
    bomb = b"\x80\x02K\x01q\x00" + b"h\x00h\x00\x86q\x00" * 200
    assert len(_read(bomb + b".")) == 2
    with pytest.raises(ConvertError, match="key of type tuple"):
        _read(bomb + b"}h\x00K\x01s.")
    deep = b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b"."
    assert len(_read(deep)) == 1


def test_a_call_becomes_a_record() -> None:
    class Any_:
        def __reduce__(self) -> Any:
            return Name("a", "b"), (1, "two"), {"three": 3}

    file = io.BytesIO()
    torch_files._Pickler(file, {}, False).dump([Any_()])
    (record,) = _read(file.getvalue())
    assert isinstance(record, Record)
    assert (record.name, record.arguments, record.state) == ("a.b", (1, "two"), {"three": 3})


def test_all_plain_types_survive() -> None:
    value = [
        *(None, True, False, 0, 255, 65_535, -1, 2**40, -(2**70), 1.5, "é", "", (), (1,)),
        *((1, 2), (1, 2, 3), (1, 2, 3, 4), [], [[1], 2], {}, {"a": {1: None}, 2.5: (3,)}),
    ]
    for protocol in range(6):
        assert _read(pickle.dumps(value, protocol)) == value
    assert sorted(_read(pickle.dumps({3, 1, 2}, 4))) == [1, 2, 3]


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (View(Stored(np.zeros(4, np.float32)), 0, (5,), (1,)), "lies outside its storage of 4"),
        (View(Stored(np.zeros(4, np.float32)), 2, (2, 2), (1, 1)), "lies outside its storage"),
        (View(Stored(np.zeros(4, np.float32)), -1, (2,), (1,)), "got damaged ones"),
        (View(Stored(np.zeros(4, np.float32)), 0, (2,), (-1,)), "got damaged ones"),
        (View(Stored(np.zeros(4, np.float32)), 0, (2,), (1, 1)), "got damaged ones"),
    ],
)
@BOTH
def test_tensors_outside_their_storage_are_refused(
    save: Save, view: View, message: str, tmp_path: Path
) -> None:
    save({"a": view}, tmp_path / "model.pt")
    with pytest.raises(ConvertError, match=message):
        torch_file.load(tmp_path / "model.pt")


def test_repeated_elements_are_refused_when_read(tmp_path: Path) -> None:
    view = View(Stored(np.zeros(4, np.float32)), 0, (1 << 30, 1 << 20), (0, 0))
    torch_files.save({"a": view}, tmp_path / "model.pt")
    with pytest.raises(ConvertError, match="expected at most 4 elements"):
        torch_file.load(tmp_path / "model.pt")["a"].read()


def test_big_endian_files_are_refused(tmp_path: Path) -> None:
    torch_files.save({"a": tensor([1.0])}, tmp_path / "new.pt", byte_order="big")
    torch_files.save_old({"a": tensor([1.0])}, tmp_path / "old.pt", little=False)
    for name in ("new.pt", "old.pt"):
        with pytest.raises(ConvertError, match="little-endian"):
            torch_file.load(tmp_path / name)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    for content in (b"", b"text", pickle.dumps({"a": 1}), b"\x80\x02K\x07."):
        path.write_bytes(content)
        assert not torch_file.is_torch_file(path)
        with pytest.raises(ConvertError, match=r"model.pt: expected"):
            torch_file.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other", "text")
    with pytest.raises(ConvertError, match="one data.pkl"):
        torch_file.load(path)
    with pytest.raises(ConvertError, match="cannot be read"):
        torch_file.load(tmp_path / "missing.pt")
    with pytest.raises(ConvertError, match="cannot be read"):
        torch_file.load(tmp_path)


def test_compressed_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch_files.save({"a": tensor(np.zeros(1000))}, path, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ConvertError, match="expected it uncompressed"):
        torch_file.load(path)


def test_large_pickles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_file, "MAX_PICKLE_BYTES", 1000)
    torch_files.save(["x" * 2000], tmp_path / "model.pt", compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ConvertError, match="expected at most 1,000 bytes"):
        torch_file.load(tmp_path / "model.pt")


@BOTH
def test_half_copied_files_are_refused(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    save({"a": tensor(np.arange(300)), "b": tensor(np.arange(300))}, path)
    whole = path.read_bytes()
    assert torch_file.is_torch_file(path)
    for size in range(20, len(whole), 97):
        path.write_bytes(whole[:size])
        with pytest.raises(ConvertError):
            torch_file.load(path)["b"].read()


@BOTH
def test_damaged_bytes_never_end_in_another_error(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    value = {"model": OrderedDict(a=tensor([[1.0, 2], [3, 4]])), "args": namespace(a=[1], b="c")}
    save(value, path)
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for position in range(0, len(whole), 23):
        damaged = bytearray(whole)
        damaged[position] = random.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(ConvertError):
            found = torch_file.load(path)
            if isinstance(found, dict) and isinstance(found.get("model"), dict):
                dict(torch_file.TorchTensors(found["model"]))


@pytest.mark.slow
@pytest.mark.parametrize("old", [False, True])
def test_files_of_pytorch(old: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    values = {
        "base": base,
        "view": base[1:3, ::2].t(),
        "half": torch.tensor([0.1], dtype=torch.float16),
        "bfloat": torch.tensor([0.1, -7.5], dtype=torch.bfloat16),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "long": torch.tensor(3),
    }
    path = tmp_path / "model.pt"
    torch.save({"model": values}, path, _use_new_zipfile_serialization=not old)
    read = torch_file.TorchTensors(torch_file.load(path)["model"])
    assert set(read) == set(values)
    for name, value in values.items():
        expected = value.detach()
        expected = expected.float() if expected.dtype == torch.bfloat16 else expected
        assert np.array_equal(read[name], expected.numpy())
