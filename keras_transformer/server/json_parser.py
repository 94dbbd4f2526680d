"""JSON parser that accepts and refuses the same texts as rapidjson 1.1 in TensorFlow Serving.

The first value of a text counts; anything behind it is ignored. Strings are bytes and need not be
UTF-8. ``NaN``, ``Inf`` and ``Infinity`` are numbers. The second half of a surrogate pair may stand
alone, the first half may not. Time and memory are linear in the text, and nesting takes no stack.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

from keras_transformer.server.errors import RestError
from keras_transformer.server.json_numbers import NUMBER, read_number

MAX_DEPTH = 10_000  # of lists and objects; 20,000 lists overflow TensorFlow Serving's stack

_SPACE = rb"[ \t\n\r]*+"
# A string without a backslash is the first alternative, one with backslashes the second.
_STRING = rb'"([^"\\\x00-\x1f]*+)"|"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+)"'
_INTEGER = rb"(-?(?:0|[1-9][0-9]{0,17}+)(?![0-9.eE]))"
_VALUE = re.compile(
    _SPACE + rb"(?:%b|%b|(%b)|(true|false|null)|([\[{]))" % (_STRING, _INTEGER, NUMBER) + _SPACE
)
_PLAIN, _ESCAPED, _SHORT_INTEGER, _NUMBER, _WORD, _OPEN = range(1, 7)  # groups of _VALUE
_KEY = re.compile(_SPACE + rb"(?:" + _STRING + rb")" + _SPACE + rb":")
_SPACES = re.compile(_SPACE)
_COMMA, _END_LIST, _END_OBJECT = b",]}"
_WORDS = {b"true": True, b"false": False, b"null": None}

_ESCAPE = re.compile(rb"((?:\\u[0-9A-Fa-f]{4})+)|\\(.)")
_CONTROL = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_FIRST_HALF = re.compile("[\ud800-\udbff]")


@dataclass(eq=False, slots=True)
class JsonObject:
    """A JSON object.

    Attributes:
        members: Keys and values in their order; keys may be equal.
    """

    members: list[tuple[bytes, Any]] = field(default_factory=list)

    def first_values(self) -> dict[bytes, Any]:
        """Return the values by key; the first of equal keys counts."""
        return dict(reversed(self.members))


def parse_json(body: bytes) -> Any:
    """Parse the first JSON value of a text.

    Returns:
        None, a bool, an int of at most 64 bits, a float, bytes for a string, a list, or a
        JsonObject.

    Raises:
        RestError: It is not valid JSON, or nested too deep.
    """
    if not body:
        raise RestError("the body is empty; expected a JSON object")
    start = 0
    for byte in b"\xef\xbb\xbf":  # rapidjson skips each byte of a byte order mark by itself
        start += body[start : start + 1] == bytes([byte])
    return _Parser(body).parse(start)


class _Parser:
    """State of a parse.

    Attributes:
        body: The text; all places are offsets in it.
        open: The open lists and objects, outermost first.
        keys: For each open object, the key of the value that is being read.
        top: The innermost open list or object.
        root: The finished value.
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.open: list[list[Any] | JsonObject] = []
        self.keys: list[bytes] = []
        self.top: list[Any] | JsonObject | None = None
        self.root: Any = None

    def parse(self, at: int) -> Any:
        """Parse the value at a place."""
        body, match, size = self.body, _VALUE.match, len(self.body)
        while True:
            found = match(body, at)
            if found is None:
                raise self._error("expected a value", at)
            kind, at = found.lastindex, found.end()
            if kind == _OPEN:
                if len(self.open) == MAX_DEPTH:
                    raise self._error(f"nested too deep, expected at most {MAX_DEPTH} levels", at)
                opened: Any = [] if found[_OPEN] == b"[" else JsonObject()
                if at == size or body[at] != (_END_LIST if found[_OPEN] == b"[" else _END_OBJECT):
                    at = self._enter(opened, at)
                    continue
                value, at = opened, _skip_space(body, at + 1)
            elif kind == _PLAIN:
                value = found[_PLAIN]
            elif kind == _SHORT_INTEGER:
                value = int(found[_SHORT_INTEGER])
            else:
                value = self._less_frequent(found)
            if type(self.top) is list and at < size and body[at] == _COMMA:
                self.top.append(value)  # the most frequent case, without a call
                at += 1
                continue
            at = self._finish(value, at)
            if self.top is None:
                return self.root

    def _less_frequent(self, found: re.Match[bytes]) -> Any:
        """Return a string with backslashes, a number that is not a short integer, or a word."""
        kind = found.lastindex
        if kind == _WORD:
            return _WORDS[found[_WORD]]
        if kind == _ESCAPED:
            return self._unescape(found[_ESCAPED], found.start(_ESCAPED))
        try:
            return read_number(found[_NUMBER])
        except OverflowError:
            raise self._error("the number is too large", found.start(_NUMBER)) from None

    def _unescape(self, text: bytes, at: int) -> bytes:
        """Return a string with its escapes replaced."""
        try:
            return cast(str, json.loads(f'"{text.decode()}"')).encode()
        except UnicodeError:
            pass  # invalid UTF-8, or half of a surrogate pair

        def replace(found: re.Match[bytes]) -> bytes:
            if found[2]:
                return _CONTROL.get(found[2], found[2])
            units = bytes.fromhex(found[1].replace(rb"\u", b"").decode())
            characters = units.decode("utf-16-be", "surrogatepass")
            if _FIRST_HALF.search(characters):
                raise self._error("expected both halves of a surrogate pair", at)
            return characters.encode("utf-8", "surrogatepass")

        return _ESCAPE.sub(replace, text)

    def _enter(self, opened: list[Any] | JsonObject, at: int) -> int:
        """Open a non-empty list or object; return the place of its first value."""
        self.open.append(opened)
        self.top = opened
        return at if type(opened) is list else self._key(at)

    def _key(self, at: int) -> int:
        """Read a key; return the place of its value."""
        found = _KEY.match(self.body, at)
        if found is None:
            raise self._error("expected a key and a colon", at)
        key = found[_PLAIN]
        if key is None:
            key = self._unescape(found[_ESCAPED], found.start(_ESCAPED))
        self.keys.append(key)
        return found.end()

    def _finish(self, value: Any, at: int) -> int:
        """Add a complete value to its list or object; return the place of the next value."""
        body, size = self.body, len(self.body)
        while (container := self.top) is not None:
            separator = body[at] if at < size else 0
            if isinstance(container, list):
                container.append(value)
                if separator == _COMMA:
                    return at + 1
                end, name = _END_LIST, "]"
            else:
                container.members.append((self.keys.pop(), value))
                if separator == _COMMA:
                    return self._key(at + 1)
                end, name = _END_OBJECT, "}"
            if separator != end:
                raise self._error(f"expected a comma or '{name}' after a value", at)
            value = self.open.pop()
            self.top = self.open[-1] if self.open else None
            at = _skip_space(body, at + 1)
        self.root = value
        return at

    def _error(self, reason: str, at: int) -> RestError:
        at = _skip_space(self.body, at)
        found = f"at byte {at}" if at < len(self.body) else "at the end"
        return RestError(f"the body is not valid JSON: {reason} {found}")


def _skip_space(body: bytes, at: int) -> int:
    found = _SPACES.match(body, at)
    return found.end() if found else at


def describe(value: Any) -> str:
    """Describe a value of ``parse_json`` in a few words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, bytes):
        return f"the string {value.decode('utf-8', 'replace')[:40]!r}"
    if isinstance(value, int | float):
        return f"the number {value if abs(value) < 1e20 else f'{float(value):g}'}"
    return "a list" if isinstance(value, list) else "an object"
