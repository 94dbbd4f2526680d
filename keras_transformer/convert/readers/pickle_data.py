"""Pickles read as plain data: no name is imported, nothing is called.

A small interpreter takes the place of `pickle.load`. It knows the operations that build numbers,
texts, lists, tuples, sets and dictionaries. A name becomes a `Global`, and what a pickle would call
or create becomes a `Record` of that name, if the reader allows the name; all others are refused.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from keras_transformer.convert.errors import ConvertError

# Lists of some thousand tensors take a few 100,000 opcodes; a bomb takes more.
MAX_OPCODES = 20_000_000
_KEYS = (str, int, float, bytes, type(None))
_MARK = object()


@dataclass(frozen=True)
class Global:
    """The name of a class or function that a pickle refers to, such as "torch.FloatStorage"."""

    name: str


@dataclass(eq=False, repr=False)
class Record:
    """An object of a pickle as data: the name of its class and its contents.

    Args:
        name: The class or function that would have made it.
        arguments: Arguments of that call.
        state: Its attributes, if the pickle has any.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None


def dictionary(pairs: Iterable[Any]) -> dict[Hashable, Any]:
    """Return a dictionary of pairs, if its keys are plain: nested ones could take for ever to hash.

    Raises:
        ValueError: A key is neither a number, a text nor a tuple of them.
    """
    result: dict[Hashable, Any] = {}
    for key, value in pairs:
        items = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(item, _KEYS) for item in items):
            raise ValueError(f"a dictionary key of type {type(key).__name__}")
        result[key] = value
    return result


class PickleData:
    """Interpreter of one pickle.

    Args:
        stream: A stream in memory at the start of the pickle; afterwards it is at its end.
        file: The file, for messages.
        allows: Return whether a global name is harmless data.
        persistent: Return the value of a persistent id.
        reduce: Return the value of a call of an allowed name, or a Record.

    Raises:
        ConvertError: The pickle is damaged, too large, or refers to a name that is not allowed.
    """

    def __init__(
        self,
        stream: io.BytesIO,
        file: object,
        allows: Callable[[str], bool],
        persistent: Callable[[Any], Any] | None = None,
        reduce: Callable[[str, tuple[Any, ...]], Any] = Record,
    ) -> None:
        self._stream = stream
        self._file = file
        self._allows = allows
        self._persistent = persistent
        self._reduce = reduce
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self.value: Any = None
        """What the pickle holds."""
        self._run()

    def _run(self) -> None:
        try:
            for count, (opcode, argument, _) in enumerate(pickletools.genops(self._stream)):
                if count >= MAX_OPCODES:
                    raise ConvertError(
                        f"{self._file}: expected at most {MAX_OPCODES:,} pickle operations"
                    )
                if opcode.name == "STOP":
                    self.value = self._pop()
                    return
                self._step(opcode.name, argument)
        except ConvertError:
            raise
        # pickletools raises these, and the stack operations where the pickle is inconsistent.
        except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
            raise ConvertError(
                f"{self._file}: expected a complete pickle, got damaged data ({error})"
            ) from error
        raise ConvertError(f"{self._file}: expected a complete pickle, its end is missing")

    def _step(self, name: str, argument: Any) -> None:
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _IGNORED:
            raise ConvertError(f"{self._file}: the pickle operation {name} is refused")

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("a mark in place of a value")
        return value

    def _pop_mark(self) -> list[Any]:
        """Return the values above the last mark, and remove them with the mark."""
        start = len(self._stack) - 1
        while self._stack[start] is not _MARK:
            start -= 1
            if start < 0:
                raise ValueError("no mark")
        values = self._stack[start + 1 :]
        del self._stack[start:]
        return values

    def _discard(self) -> None:
        self._stack.pop()

    def _discard_to_mark(self) -> None:
        self._pop_mark()

    def _dict(self) -> None:
        items = self._pop_mark()
        self._stack.append({})
        self._set_items(items)

    def _append_value(self, value: Any) -> None:
        self._stack.append(value)

    def _put(self, index: Any) -> None:
        self._memo[len(self._memo) if index is None else int(index)] = self._stack[-1]

    def _get(self, index: Any) -> None:
        self._stack.append(self._memo[int(index)])

    def _tuple(self, size: int | None) -> None:
        values = self._pop_mark() if size is None else [self._pop() for _ in range(size)][::-1]
        self._stack.append(tuple(values))

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, Record):  # a dictionary of a class of its own
            target.state = target.state if isinstance(target.state, dict) else {}
            target = target.state
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("items without a dictionary")
        target.update(dictionary(zip(items[::2], items[1::2], strict=True)))

    def _extend(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, Record):
            return  # a list of a class of its own
        if not isinstance(target, list):
            raise ValueError("values without a list")
        target.extend(values)

    def _add_items(self) -> None:
        values = self._pop_mark()
        if not isinstance(self._stack[-1], list):  # sets are read as lists
            raise ValueError("items without a set")
        self._stack[-1].extend(values)

    def _global(self, module: Any, name: Any) -> None:
        full = f"{module}.{name}"
        if not (isinstance(module, str) and isinstance(name, str) and self._allows(full)):
            raise ConvertError(
                f"{self._file}: expected only weights and plain data, the file refers to "
                f"{full[:100]}; nothing of it was run"
            )
        self._stack.append(Global(full))

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        self._global(module, name)

    def _call(self) -> None:
        arguments, function = self._pop(), self._pop()
        if not isinstance(function, Global) or not isinstance(arguments, tuple):
            raise ValueError("a call of something else than a name")
        self._stack.append(self._reduce(function.name, arguments))

    def _call_with_keywords(self) -> None:
        self._pop()
        self._call()

    def _build(self) -> None:
        state = self._pop()
        target = self._stack[-1]
        if isinstance(target, Record):
            target.state = state
        # Attributes of dictionaries and tensors (PyTorch's _metadata) are of no use.

    def _persistent_id(self) -> None:
        if self._persistent is None:
            raise ValueError("an unexpected persistent id")
        self._stack.append(self._persistent(self._pop()))


_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
}
_IGNORED = {"PROTO", "FRAME"}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
    "MARK": lambda: _MARK,
}
_ACTIONS: dict[str, Callable[[PickleData, Any], None]] = {
    "TUPLE": lambda reader, _: reader._tuple(None),
    "TUPLE1": lambda reader, _: reader._tuple(1),
    "TUPLE2": lambda reader, _: reader._tuple(2),
    "TUPLE3": lambda reader, _: reader._tuple(3),
    "LIST": lambda reader, _: reader._append_value(reader._pop_mark()),
    "FROZENSET": lambda reader, _: reader._append_value(reader._pop_mark()),
    "APPEND": lambda reader, _: reader._extend([reader._pop()]),
    "APPENDS": lambda reader, _: reader._extend(reader._pop_mark()),
    "ADDITEMS": lambda reader, _: reader._add_items(),
    "SETITEM": lambda reader, _: reader._set_items([reader._pop(), reader._pop()][::-1]),
    "SETITEMS": lambda reader, _: reader._set_items(reader._pop_mark()),
    "POP": lambda reader, _: reader._discard(),
    "POP_MARK": lambda reader, _: reader._discard_to_mark(),
    "DICT": lambda reader, _: reader._dict(),
    "DUP": lambda reader, _: reader._append_value(reader._stack[-1]),
    "PUT": PickleData._put,
    "BINPUT": PickleData._put,
    "LONG_BINPUT": PickleData._put,
    "MEMOIZE": PickleData._put,
    "GET": PickleData._get,
    "BINGET": PickleData._get,
    "LONG_BINGET": PickleData._get,
    # pickletools separates module and name by a space.
    "GLOBAL": lambda reader, text: reader._global(*str(text).split(" ", 1)),
    "STACK_GLOBAL": lambda reader, _: reader._stack_global(),
    "REDUCE": lambda reader, _: reader._call(),
    "NEWOBJ": lambda reader, _: reader._call(),
    "NEWOBJ_EX": lambda reader, _: reader._call_with_keywords(),
    "BUILD": lambda reader, _: reader._build(),
    "BINPERSID": lambda reader, _: reader._persistent_id(),
}
