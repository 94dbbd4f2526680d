"""TensorFlow's C API through ctypes: libraries, errors, tensors; TensorFlow is not imported."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

# tensorflow::DisableXlaCompilation(), which a server calls at its start unless it has the option
# --xla_cpu_compilation_enabled.
_DISABLE_XLA = "_ZN10tensorflow21DisableXlaCompilationEv"

# Values of TF_DataType. NumPy has no bfloat16: it is read as the upper half of a float32.
_STRING, _BFLOAT16 = 7, 14
_NUMBERS: dict[int, type[np.generic]] = {
    1: np.float32,
    2: np.float64,
    3: np.int32,
    4: np.uint8,
    5: np.int16,
    6: np.int8,
    9: np.int64,
    10: np.bool_,
    _BFLOAT16: np.uint16,
    17: np.uint16,
    19: np.float16,
    22: np.uint32,
    23: np.uint64,
}
_TSTRING = 24  # bytes of a TF_TString


class CApiError(Exception):
    """Libraries, a model or a request that cannot be used."""


class Buffer(ctypes.Structure):
    """TF_Buffer: bytes owned by TensorFlow."""

    _fields_ = (("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p))


class Output(ctypes.Structure):
    """TF_Output: an operation and the index of an output."""

    _fields_ = (("operation", c_void_p), ("index", c_int))


_OPTIONS = (c_void_p, c_void_p)
_VALUES = (POINTER(Output), POINTER(c_void_p), c_int)

# Result and argument types by function name. Handles are void pointers.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    _DISABLE_XLA: (None, ()),
    "TF_Version": (c_char_p, ()),
    "TF_LoadLibrary": (c_void_p, (c_char_p, c_void_p)),
    "TF_NewStatus": (c_void_p, ()),
    "TF_DeleteStatus": (None, (c_void_p,)),
    "TF_GetCode": (c_int, (c_void_p,)),
    "TF_Message": (c_char_p, (c_void_p,)),
    "TF_NewBuffer": (POINTER(Buffer), ()),
    "TF_DeleteBuffer": (None, (POINTER(Buffer),)),
    "TF_NewGraph": (c_void_p, ()),
    "TF_DeleteGraph": (None, (c_void_p,)),
    "TF_GraphOperationByName": (c_void_p, (c_void_p, c_char_p)),
    "TF_NewSessionOptions": (c_void_p, ()),
    "TF_DeleteSessionOptions": (None, (c_void_p,)),
    # options, run options, folder, tags and their number, graph, meta graph, status
    "TF_LoadSessionFromSavedModel": (
        c_void_p,
        (*_OPTIONS, c_char_p, POINTER(c_char_p), c_int, c_void_p, POINTER(Buffer), c_void_p),
    ),
    # session, run options; inputs, their values and number; outputs, their values and number;
    # targets and their number; run metadata, status
    "TF_SessionRun": (
        None,
        (*_OPTIONS, *_VALUES, *_VALUES, c_void_p, c_int, c_void_p, c_void_p),
    ),
    "TF_CloseSession": (None, (c_void_p, c_void_p)),
    "TF_DeleteSession": (None, (c_void_p, c_void_p)),
    "TF_AllocateTensor": (c_void_p, (c_int, POINTER(c_int64), c_int, c_size_t)),
    "TF_DeleteTensor": (None, (c_void_p,)),
    "TF_TensorType": (c_int, (c_void_p,)),
    "TF_NumDims": (c_int, (c_void_p,)),
    "TF_Dim": (c_int64, (c_void_p, c_int)),
    "TF_TensorData": (c_void_p, (c_void_p,)),
    "TF_StringInit": (None, (c_void_p,)),
    "TF_StringCopy": (None, (c_void_p, c_char_p, c_size_t)),
    "TF_StringDealloc": (None, (c_void_p,)),
    "TF_StringGetSize": (c_size_t, (c_void_p,)),
    "TF_StringGetDataPointer": (c_void_p, (c_void_p,)),
}


class Runtime:
    """TensorFlow's C++ runtime with TensorFlow Text's operations and without XLA.

    A process can have only one, and must not have imported TensorFlow.

    Args:
        libraries: A site-packages folder with ``tensorflow`` and ``tensorflow_text``.

    Raises:
        CApiError: The libraries are missing or do not load, or TensorFlow is imported.
    """

    def __init__(self, libraries: Path) -> None:
        if "tensorflow" in sys.modules:
            raise CApiError("expected a process that has not imported TensorFlow")
        try:
            for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
                # Global, so that the libraries of TensorFlow Text find the symbols.
                library = ctypes.CDLL(str(libraries / "tensorflow" / name), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise CApiError(f"{libraries}: expected TensorFlow's libraries: {error}") from None
        self._library = library
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self.call(_DISABLE_XLA)
        operations = sorted((libraries / "tensorflow_text" / "python" / "ops").glob("*.so"))
        if not operations:
            raise CApiError(f"{libraries}: expected the package tensorflow_text, found none")
        for path in operations:
            self.checked("TF_LoadLibrary", os.fsencode(path))

    @property
    def version(self) -> str:
        """Version of TensorFlow, such as ``2.20.0``."""
        return str(self.call("TF_Version").decode())

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the C API that has no status."""
        return getattr(self._library, name)(*arguments)

    def checked(self, name: str, *arguments: Any) -> Any:
        """Call a function of the C API that has a status as its last argument.

        Raises:
            CApiError: The call failed; the message is TensorFlow's.
        """
        status = self.call("TF_NewStatus")
        try:
            result = self.call(name, *arguments, status)
            if self.call("TF_GetCode", status):
                raise CApiError(self.call("TF_Message", status).decode(errors="replace"))
            return result
        finally:
            self.call("TF_DeleteStatus", status)

    @contextlib.contextmanager
    def tensor(self, values: Any, dtype: int) -> Iterator[int]:
        """Yield a tensor with the given values, freed at the end.

        Args:
            values: An array or nested lists; text as bytes.
            dtype: Its TF_DataType.

        Raises:
            CApiError: The values do not fit the type, or the lists are of unequal length.
        """
        array = _as_array(values, dtype)
        size = _TSTRING * array.size if dtype == _STRING else array.nbytes
        shape = (c_int64 * array.ndim)(*array.shape)
        tensor = self.call("TF_AllocateTensor", dtype, shape, array.ndim, size)
        data = self.call("TF_TensorData", tensor)
        texts = range(data, data + size, _TSTRING) if dtype == _STRING and size else ()
        try:
            if dtype != _STRING and size:
                ctypes.memmove(data, np.ascontiguousarray(array).ctypes.data, size)
            for place, text in zip(texts, array.flat, strict=False):
                self.call("TF_StringInit", place)
                self.call("TF_StringCopy", place, text, len(text))
            yield tensor
        finally:
            for place in texts:
                self.call("TF_StringDealloc", place)
            self.call("TF_DeleteTensor", tensor)

    def take(self, tensor: int | None) -> np.ndarray:
        """Return the values of a tensor and free it.

        Returns:
            An array: dtype object with ``bytes`` for text, float32 for bfloat16.

        Raises:
            CApiError: The type is neither text nor a number.
        """
        try:
            dtype = self.call("TF_TensorType", tensor)
            dimensions = range(self.call("TF_NumDims", tensor))
            shape = tuple(self.call("TF_Dim", tensor, axis) for axis in dimensions)
            count = int(np.prod(shape, dtype=np.int64))
            data = self.call("TF_TensorData", tensor)
            if dtype == _STRING:
                array = np.empty(count, object)
                for index in range(count):
                    place = data + index * _TSTRING
                    start = self.call("TF_StringGetDataPointer", place)
                    array[index] = ctypes.string_at(start, self.call("TF_StringGetSize", place))
                return array.reshape(shape)
            if dtype not in _NUMBERS:
                raise CApiError(f"output: expected text or numbers, got TF_DataType {dtype}")
            size = count * np.dtype(_NUMBERS[dtype]).itemsize
            # A tensor without elements may have no memory.
            array = np.frombuffer(ctypes.string_at(data, size) if size else b"", _NUMBERS[dtype])
            if dtype == _BFLOAT16:
                array = (array.astype(np.uint32) << 16).view(np.float32)
            return array.reshape(shape)
        finally:
            self.call("TF_DeleteTensor", tensor)


def _as_array(values: Any, dtype: int) -> np.ndarray:
    """Return the values as an array of bytes or numbers."""
    try:
        if dtype != _STRING:
            given = np.asarray(values)
            # An integer may become a float32, but 0.5 no int32.
            if given.size and not np.can_cast(given.dtype, _NUMBERS[dtype], "same_kind"):
                raise ValueError(f"got {given.dtype}")
            return np.asarray(values, _NUMBERS[dtype])
        array = np.asarray(values, object)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        expected = np.dtype(_NUMBERS[dtype]).name if dtype in _NUMBERS else f"TF_DataType {dtype}"
        raise CApiError(f"input: expected an array of {expected}: {error}") from None
    for text in array.flat:
        if not isinstance(text, bytes):
            raise CApiError(f"input: expected an array of text, got {type(text).__name__}")
    return array
