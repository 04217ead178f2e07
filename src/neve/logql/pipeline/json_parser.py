"""Parsers of JSON lines: `json` with and without expressions, and `unpack`.

Lines are read from the left, so that the values before a mistake count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import TYPE_CHECKING, Any

from neve.logql.pipeline.entry import Entry, Hints, sanitize_name

if TYPE_CHECKING:
    from neve.logql.language.syntax import Extraction

__all__ = ["JsonExpressions", "JsonParser", "UnpackParser", "parse_path"]

JSON_ERROR = "JSONParserErr"
_MAX_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"true|false|null|-?[0-9][0-9.eE+-]*")
_INVALID = "Malformed JSON error"
_PATH = re.compile(
    r'\s*(?:(?P<dot>\.)?\s*(?P<field>[a-zA-Z_][a-zA-Z0-9_]*)|\[\s*(?:"(?P<key>[^"\]]*)"?|(?P<index>[0-9]+))\s*\])'
)
_STARTS = ('"', "{", "[")


class JsonError(ValueError):
    """Raised when a line is not JSON object."""


@dataclass(frozen=True, slots=True)
class JsonValue:
    """Value in a line: its kind (string, number, boolean, null, object, array) and its place."""

    kind: str
    start: int
    end: int
    text: str = ""  # of scalars


def _reject(text: str) -> str:
    raise ValueError(f"{text} is not JSON")


# Objects become tuples of pairs in the order of the line, and numbers keep their text.
_DECODER = JSONDecoder(object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=_reject, strict=False)
_BOOLEANS = {True: "true", False: "false"}
_INVALID_TEXT = re.compile("[\ud800-\udfff\ufffd]")


@lru_cache(maxsize=10_000)
def _join_name(prefix: str, key: str) -> str:
    """Return the name of a member, with the name of its object before it."""
    return sanitize_name(f"{prefix}_{key.strip()}" if prefix and key.strip() else prefix or key)


Visit = Callable[[str, JsonValue], bool]  # key and value; whether reading goes on


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _read_string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = scanstring(text, at + 1, False)
    except ValueError as error:
        raise JsonError(_INVALID) from error
    return value if value.isascii() else _INVALID_TEXT.sub(" ", value), end


def read_value(text: str, at: int, depth: int = 0) -> JsonValue:
    """Return the value that begins at a place."""
    if depth > _MAX_DEPTH:
        raise JsonError(f"nested deeper than {_MAX_DEPTH} levels")
    at = _skip_space(text, at)
    char = text[at : at + 1]
    if char == '"':
        value, end = _read_string(text, at)
        return JsonValue("string", at, end, value)
    if char == "{":
        return JsonValue("object", at, read_object(text, at, lambda _key, _value: True, depth + 1))
    if char == "[":
        return JsonValue("array", at, _read_array(text, at, lambda _value: True, depth + 1))
    found = _SCALAR.match(text, at)
    if not found:
        raise JsonError(_INVALID)
    kind = {"t": "boolean", "f": "boolean", "n": "null"}.get(found[0][0], "number")
    return JsonValue(kind, at, found.end(), found[0])


def read_object(text: str, at: int, visit: Visit, depth: int = 0) -> int:
    """Call `visit` for each member of the object at a place, and return its end."""
    at = _skip_space(text, at)
    if text[at : at + 1] != "{":
        raise JsonError("Value looks like object, but can't find closing '}' symbol" if not text[at:] else _INVALID)
    at = _skip_space(text, at + 1)
    if text[at : at + 1] == "}":
        return at + 1
    while True:
        if text[at : at + 1] != '"':
            raise JsonError(_INVALID)
        key, at = _read_string(text, at)
        at = _skip_space(text, at)
        if text[at : at + 1] != ":":
            raise JsonError(_INVALID)
        value = read_value(text, at + 1, depth)
        if not visit(key, value):
            return value.end
        at = _skip_space(text, value.end)
        mark = text[at : at + 1]
        if mark == "}":
            return at + 1
        if mark != ",":
            raise JsonError(_INVALID)
        at = _skip_space(text, at + 1)


def _read_array(text: str, at: int, visit: Callable[[JsonValue], bool], depth: int) -> int:
    at = _skip_space(text, at + 1)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        value = read_value(text, at, depth)
        if not visit(value):
            return value.end
        at = _skip_space(text, value.end)
        mark = text[at : at + 1]
        if mark == "]":
            return at + 1
        if mark != ",":
            raise JsonError(_INVALID)
        at += 1


@dataclass(frozen=True, slots=True)
class JsonParser:
    """Labels of all values. Keys of nested objects are joined by `_`, arrays and nulls are left out."""

    hints: Hints

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        for entry in entries:
            if entry.is_complete(self.hints):
                continue
            try:
                if not self._read_valid(entry):
                    self._read(entry, entry.line, 0, "", 0)
            except JsonError as error:
                entry.fail(JSON_ERROR, str(error), self.hints)
        return entries

    def _read_valid(self, entry: Entry) -> bool:
        """Read a line that is valid JSON, which is the common case, and return whether it is."""
        try:
            members = _DECODER.decode(entry.line)
        except (ValueError, RecursionError):
            return False
        if type(members) is not tuple:
            return False
        self._set_members(entry, members, "", 0)
        return True

    def _set_members(self, entry: Entry, members: tuple[tuple[str, Any], ...], prefix: str, depth: int) -> bool:
        """Set the labels of an object's members, and return whether other labels are needed."""
        if depth > _MAX_DEPTH:
            raise JsonError(f"nested deeper than {_MAX_DEPTH} levels")
        for key, value in members:
            name = _join_name(prefix, key)
            if type(value) is tuple:
                if self.hints.wants_prefix(name) and not self._set_members(entry, value, name, depth + 1):
                    return False
                continue
            if value is None or type(value) is list or not name:
                continue
            free = entry.name_for(name, self.hints)
            if free is not None:
                text = _BOOLEANS[value] if type(value) is bool else value
                entry.set(free, text if text.isascii() else _INVALID_TEXT.sub(" ", text))
                if self.hints.required is not None and entry.is_complete(self.hints):
                    return False
        return True

    def _read(self, entry: Entry, text: str, at: int, prefix: str, depth: int) -> bool:
        """Read one object, and return whether other labels are needed."""
        goes_on = True

        def visit(key: str, value: JsonValue) -> bool:
            nonlocal goes_on
            name = _join_name(prefix, key)
            if value.kind == "object":
                if self.hints.wants_prefix(name):
                    goes_on = self._read(entry, text, value.start, name, depth + 1)
                return goes_on
            if value.kind in {"string", "number", "boolean"} and name:
                free = entry.name_for(name, self.hints)
                if free is not None:
                    entry.set(free, value.text)
            goes_on = not entry.is_complete(self.hints)
            return goes_on

        read_object(text, at, visit, depth)
        return goes_on


def parse_path(expression: str) -> tuple[str | int, ...]:
    """Return the steps of a path such as `a.b[0]["c d"]`. Raises `ValueError`.

    >>> parse_path('a.b[0]["c d"]')
    ('a', 'b', 0, 'c d')
    """
    steps: list[str | int] = []
    at = 0
    while at < len(expression.rstrip()):
        found = _PATH.match(expression, at)
        if not found or (found["field"] and bool(steps) != bool(found["dot"])):
            raise ValueError(f"cannot parse expression [{expression}]: syntax error")
        if found["index"] is not None:
            steps.append(int(found["index"][:9]))
        else:
            steps.append(found["key"] if found["key"] is not None else found["field"])
        at = found.end()
    if not steps:
        raise ValueError(f"cannot parse expression [{expression}]: syntax error")
    return tuple(steps)


def find_value(text: str, path: tuple[str | int, ...]) -> JsonValue | None:
    """Return the value at a path, or `None`."""
    value: JsonValue | None = JsonValue(
        {"{": "object", "[": "array"}.get(text.lstrip()[:1], "string"), _skip_space(text, 0), len(text)
    )
    for step in path:
        if value is None:
            return None
        value = _step(text, value, step)
    return value


def _step(text: str, value: JsonValue, step: str | int) -> JsonValue | None:
    found: list[JsonValue] = []
    if value.kind == "object" and isinstance(step, str):

        def visit(key: str, member: JsonValue) -> bool:
            if key == step:
                found.append(member)
            return key != step

        read_object(text, value.start, visit)
    elif value.kind == "array" and isinstance(step, int):
        place = -1

        def count(member: JsonValue) -> bool:
            nonlocal place
            place += 1
            if place == step:
                found.append(member)
            return place != step

        _read_array(text, value.start, count, 1)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class JsonExpressions:
    """Labels with the values at some paths. A value that is absent gives an empty label."""

    paths: tuple[tuple[str, tuple[str | int, ...]], ...]
    hints: Hints

    @staticmethod
    def make(extractions: tuple[Extraction, ...], hints: Hints) -> JsonExpressions:
        """Return the parser of some extractions. Raises `ValueError`."""
        return JsonExpressions(tuple((one.name, parse_path(one.expression)) for one in extractions), hints)

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        for entry in entries:
            if not entry.line or entry.is_complete(self.hints):
                continue
            if not entry.line.startswith(_STARTS):
                entry.fail(JSON_ERROR, "", self.hints)
                continue
            self._read(entry)
        return entries

    def _read(self, entry: Entry) -> None:
        found = 0
        for name, path in self.paths:
            try:
                value = find_value(entry.line, path)
            except JsonError:
                continue
            if value is None:
                continue
            found += 1
            free = f"{name}_extracted" if entry.has_below(name) else name
            raw = entry.line[value.start : value.end]
            text = {"null": "", "object": raw, "array": raw}.get(value.kind, value.text)
            entry.set(free, text)
        if found < len(self.paths):
            for name, _ in self.paths:
                if entry.get(name) is None:
                    entry.set(name, "")


@dataclass(frozen=True, slots=True)
class UnpackParser:
    """Labels and line of a packed entry: text members, and `_entry` for the line."""

    hints: Hints

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        for entry in entries:
            if not entry.line or entry.is_complete(self.hints):
                continue
            if entry.line[0] != "{":
                entry.fail(JSON_ERROR, "expecting json object(6), but it is not", self.hints)
                continue
            try:
                self._read(entry)
            except JsonError as error:
                entry.fail(JSON_ERROR, str(error), self.hints)
        return entries

    def _read(self, entry: Entry) -> None:
        labels: list[tuple[str, str]] = []
        packed: list[str] = []

        def visit(key: str, value: JsonValue) -> bool:
            if value.kind != "string":
                return True
            if key == "_entry":
                packed.append(value.text)
                return True
            free = entry.name_for(key, self.hints)
            if free is not None:
                labels.append((sanitize_name(free), value.text))
            return True

        read_object(entry.line, 0, visit)
        if packed:
            entry.line = packed[-1]
            for name, text in labels:
                entry.set(name, text)
