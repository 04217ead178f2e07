"""Patterns such as `<ip> - - <_> "<method> <path>"`: parsers, and line filters."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.logql.pipeline.entry import Entry, Hints

__all__ = ["PatternParser", "parse_line_pattern", "parse_pattern", "test_line"]

_CAPTURE = re.compile(r"<([a-zA-Z_][a-zA-Z0-9_]*)>")


@dataclass(frozen=True, slots=True)
class Capture:
    """Part of a pattern that takes any text. `_` has no name."""

    name: str


Parts = tuple[str | Capture, ...]


def _split(pattern: str) -> Parts:
    parts: list[str | Capture] = []
    at = 0
    for found in _CAPTURE.finditer(pattern):
        if found.start() > at:
            parts.append(pattern[at : found.start()])
        parts.append(Capture(found[1]))
        at = found.end()
    if at < len(pattern):
        parts.append(pattern[at:])
    for left, right in itertools.pairwise(parts):
        if isinstance(left, Capture) and isinstance(right, Capture):
            raise ValueError(f"found consecutive capture '<{left.name}><{right.name}>': invalid expression")
    return tuple(parts)


def parse_pattern(pattern: str) -> Parts:
    """Return the parts of a parser's pattern. Raises `ValueError`."""
    parts = _split(pattern)
    names = [one.name for one in parts if isinstance(one, Capture) and one.name != "_"]
    if not names:
        raise ValueError("at least one capture is required")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"duplicate capture name ({twice}): invalid expression")
    return parts


def parse_line_pattern(pattern: str) -> Parts:
    """Return the parts of a line filter's pattern. Raises `ValueError`."""
    parts = _split(pattern)
    named = next((one.name for one in parts if isinstance(one, Capture) and one.name != "_"), None)
    if named is not None:
        raise ValueError(f"named captures are not allowed: found '<{named}>'")
    return parts


def test_line(parts: Parts, line: str) -> bool:
    """Return whether a line has the form of a pattern, with a text that is not empty for each capture."""
    if not line or not parts:
        return not line and not parts
    at = 0
    for place, part in enumerate(parts):
        if isinstance(part, Capture):
            continue
        found = line.find(part, at)
        if found < 0 or (place and found == at):
            return False
        at = found + len(part)
    return isinstance(parts[-1], Capture) == (at != len(line))


def _match(parts: Parts, line: str) -> list[str]:
    """Return the texts of the captures from the left. A literal that is absent ends the match."""
    found: list[str] = []
    if not line:
        return found
    first = parts[0]
    if isinstance(first, str):
        if not line.startswith(first):
            return found
        line, parts = line[len(first) :], parts[1:]
    for place in range(0, len(parts), 2):
        capture = parts[place]
        literal = parts[place + 1] if place + 1 < len(parts) else None
        end = line.find(literal) if isinstance(literal, str) else -1
        text = line if end < 0 else line[:end]
        if isinstance(capture, Capture) and capture.name != "_":
            found.append(text)
        if end < 0 or not isinstance(literal, str):
            return found
        line = line[end + len(literal) :]
    return found


@dataclass(frozen=True, slots=True)
class PatternParser:
    """Labels of the named captures."""

    parts: Parts
    hints: Hints

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Parse lines."""
        names = [one.name for one in self.parts if isinstance(one, Capture) and one.name != "_"]
        for entry in entries:
            if entry.is_complete(self.hints):
                continue
            for name, text in zip(names, _match(self.parts, entry.line), strict=False):
                free = entry.name_for(name, self.hints)
                if free is not None:
                    entry.set(free, text)
        return entries
