"""Spans of the text of a query, and their line and column for messages."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOWHERE", "Span", "format_position"]


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of characters in the text of a query."""

    start: int
    end: int

    def until(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of the other."""
        return Span(self.start, other.end)


NOWHERE = Span(0, 0)


def format_position(text: str, offset: int) -> str:
    r"""Return line and column of an offset, both from 1.

    >>> format_position("sum(\n  x", 7)
    '2:3'
    """
    offset = min(offset, len(text))
    line_start = text.rfind("\n", 0, offset) + 1
    return f"{text.count(chr(10), 0, offset) + 1}:{offset - line_start + 1}"
