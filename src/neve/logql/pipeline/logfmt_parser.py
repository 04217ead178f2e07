"""Parser of logfmt lines: `key=value key="quoted value"`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed lacks it
from typing import TYPE_CHECKING

from neve.logql.pipeline.entry import Entry, Hints, sanitize_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.logql.language.syntax import Logfmt

__all__ = ["LogfmtExpressions", "LogfmtParser", "parse_key", "read_pairs"]

LOGFMT_ERROR = "LogfmtParserErr"
_GARBAGE = re.compile(r"[\x00-\x20]*")
_KEY_END = re.compile(r'[\x00-\x20="]')
_SPACE = re.compile(r"[\x00-\x20]")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_EXPRESSION = re.compile(r'\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|"([^"\]]*)["\]]?)\s*')
# Lines without mistakes, escapes and characters that are replaced, and the pairs of such a line.
_PLAIN_PAIR = re.compile(r'([^\x00-\x20="]+)(?:=(?:"([^"\\]*)"|([^\x00-\x20="]*)))?(?:[\x00-\x20]+|$)')
_PLAIN_LINE = re.compile(
    r'[\x00-\x20]*(?:[^\x00-\x20="\ufffd]++(?:=(?:"[^"\\\ufffd]*+"|[^\x00-\x20="\ufffd]*+))?(?:[\x00-\x20]++|$))*+'
)
_sanitize = lru_cache(maxsize=10_000)(sanitize_name)


@dataclass(frozen=True, slots=True)
class Pair:
    """Key and value, or the error at a place."""

    key: str
    value: str
    error: str = ""


def read_pairs(line: str) -> Iterator[Pair]:
    """Yield the pairs of a line, and its errors."""
    at, size = 0, len(line)
    while True:
        garbage = _GARBAGE.match(line, at)
        at = garbage.end() if garbage else at
        if at >= size:
            return
        found = _KEY_END.search(line, at)
        end = found.start() if found else size
        key, mark = line[at:end], line[end : end + 1]
        if mark == '"' or (mark == "=" and end == at):
            yield _describe_unexpected(mark, end)
            at = _skip(line, end)
        elif "\ufffd" in key:
            yield Pair("", "", f"logfmt syntax error at pos {end + 1} : invalid key")
            at = _skip(line, end) if mark == "=" else end
        elif mark != "=":
            yield Pair(key, "")
            at = end
        else:
            pair, at = _read_value(line, key, end + 1)
            yield pair


def _describe_unexpected(mark: str, at: int) -> Pair:
    return Pair("", "", f"logfmt syntax error at pos {at + 1} : unexpected '{mark}'")


def _skip(line: str, at: int) -> int:
    found = _SPACE.search(line, at)
    return found.start() if found else len(line)


def _read_value(line: str, key: str, at: int) -> tuple[Pair, int]:
    mark = line[at : at + 1]
    if not mark or mark <= " ":
        return Pair(key, ""), at
    if mark == '"':
        return _read_quoted(line, key, at)
    found = _KEY_END.search(line, at)
    end = found.start() if found else len(line)
    if line[end : end + 1] in {"=", '"'}:
        return _describe_unexpected(line[end], end), _skip(line, end)
    return Pair(key, line[at:end]), end


def _read_quoted(line: str, key: str, at: int) -> tuple[Pair, int]:
    found = _QUOTED.match(line, at)
    if found is None:
        return Pair("", "", f"logfmt syntax error at pos {len(line) + 1} : unterminated quoted value"), len(line)
    text = found[0]
    if "\\" not in text:
        return Pair(key, text[1:-1]), found.end()
    try:
        value, _ = scanstring(text, 1, True)
    except ValueError:
        return Pair("", "", f"logfmt syntax error at pos {found.end() + 1} : invalid quoted value"), found.end()
    return Pair(key, value), found.end()


@dataclass(frozen=True, slots=True)
class LogfmtParser:
    """Labels of all pairs. Mistakes are skipped, or with `is_strict` end the line with an error."""

    is_strict: bool
    keeps_empty: bool
    hints: Hints

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        for entry in entries:
            if not entry.is_complete(self.hints):
                self._read(entry)
        return entries

    def _read_plain(self, entry: Entry) -> bool:
        """Read a line of the usual form, and return whether it has it."""
        line = entry.line
        if not _PLAIN_LINE.fullmatch(line):
            return False
        for key, quoted, plain in _PLAIN_PAIR.findall(line):
            value = quoted or plain
            name = _sanitize(key)
            free = entry.name_for(name, self.hints) if name and (value or self.keeps_empty) else None
            if free is not None:
                entry.set(free, value)
                if self.hints.required is not None and entry.is_complete(self.hints):
                    break
        return True

    def _read(self, entry: Entry) -> None:
        if self._read_plain(entry):
            return
        for pair in read_pairs(entry.line):
            if pair.error:
                if self.is_strict:
                    entry.fail(LOGFMT_ERROR, pair.error, self.hints)
                    return
                continue
            name = sanitize_name(pair.key)
            free = entry.name_for(name, self.hints) if name else None
            if free is None or (not pair.value and not self.keeps_empty):
                continue
            entry.set(free, pair.value.replace("\ufffd", " "))
            if entry.is_complete(self.hints):
                return


def parse_key(expression: str) -> str:
    """Return the key of an expression of `logfmt`. Raises `ValueError`.

    >>> parse_key('"a"'), parse_key("b")
    ('a', 'b')
    """
    found = _EXPRESSION.fullmatch(expression)
    if not found:
        raise ValueError(f"cannot parse expression [{expression}]: syntax error")
    return found[1] if found[1] is not None else found[2]


@dataclass(frozen=True, slots=True)
class LogfmtExpressions:
    """Labels of some keys. A key that is absent gives an empty label."""

    keys: tuple[tuple[str, str], ...]  # label, key
    is_strict: bool
    hints: Hints

    @staticmethod
    def make(stage: Logfmt, hints: Hints) -> LogfmtExpressions:
        """Return the parser of some extractions. Raises `ValueError`."""
        keys = tuple((one.name, parse_key(one.expression)) for one in stage.extractions)
        return LogfmtExpressions(keys, stage.is_strict, hints)

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        for entry in entries:
            if not entry.is_complete(self.hints):
                self._read(entry)
        return entries

    def _read(self, entry: Entry) -> None:
        labels = dict(self.keys)
        by_key = {key: label for label, key in reversed(self.keys)}
        for label in labels:
            if not entry.has_below(label):
                entry.set(label, "")
        for pair in read_pairs(entry.line):
            if pair.error:
                if self.is_strict:
                    entry.fail(LOGFMT_ERROR, pair.error, self.hints)
                    return
                continue
            name = sanitize_name(pair.key)
            name = by_key.get(name, name)
            if name not in labels:
                continue
            if entry.has_below(name):
                name = f"{name}_extracted"
                if name in entry.extracted or not self.hints.wants(name):
                    break
            entry.set(name, "" if "\ufffd" in pair.value else pair.value)
