"""Export cursors: the position of each destination in the log of decisions, in the state store.

A cursor moves after a batch was delivered, and not before. A process that dies in between delivers the batch again:
every kept trace arrives at least once. Each destination has its own cursor, so that an unavailable destination does
not delay the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import xxhash

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.state.documents import Documents


@dataclass(frozen=True, order=True)
class Position:
    """Position in the log of decisions, which is ordered by snapshot and then by trace.

    All up to it is delivered. `sequence` is the sequence number of the snapshot of decisions, `trace_id` the trace in
    hex. An empty `trace_id` is before the first trace, so `Position(n + 1)` means that all of snapshot n is delivered.
    A trace that is too large for one batch is delivered in parts, numbered from 0.
    """

    sequence: int
    trace_id: str = ""
    part: int = 0

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Position:
        """Parse a position from a document."""
        return cls(**{field.name: document[field.name] for field in fields(cls) if field.name in document})

    @property
    def document(self) -> dict[str, object]:
        """The position as a document of the state store."""
        return asdict(self)


def build_batch_id(selector: str, after: Position | None, until: Position) -> str:
    """Return the id of the batch between two positions, which is the same if and only if the batch is the same.

    The id includes the start: an exporter that starts over with larger batches delivers more up to the same end.

    >>> build_batch_id("main", None, Position(7, "ab")) == build_batch_id("main", Position(6), Position(7, "ab"))
    False
    """
    text = "\0".join((selector, repr(after), repr(until)))
    return f"{until.sequence:010d}-{xxhash.xxh3_128_hexdigest(text.encode())}"


SPACE = "tail_cursors"


class CursorMoved(LakeError):
    """Raised when a cursor is not where its owner left it: two processes export to the same destination."""


class ExportCursors:
    """Cursors of one selector."""

    def __init__(self, documents: Documents, selector: str) -> None:
        self._documents, self._selector = documents, selector

    def cursor(self, destination: str) -> Cursor:
        """Load the cursor of a destination."""
        return Cursor(self._documents, self._selector, destination)

    def positions(self) -> dict[str, Position]:
        """Return the position of every destination with a cursor, including those that are no longer configured."""
        prefix = f"{self._selector}/"
        entries = self._documents.entries(SPACE, prefix)
        return {key.removeprefix(prefix): Position.of(document) for key, document in entries}

    def delete(self, destination: str) -> None:
        """Delete a cursor, so that a destination of that name receives everything from the beginning."""
        self._documents.delete(SPACE, f"{self._selector}/{destination}")


class Cursor:
    """Position of one destination in the log of decisions, as it was last read or moved."""

    def __init__(self, documents: Documents, selector: str, destination: str) -> None:
        self._documents, self._selector, self._destination = documents, selector, destination
        self._key = f"{selector}/{destination}"
        self._document = documents.get(SPACE, self._key)

    @property
    def position(self) -> Position | None:
        """Position up to which everything is delivered, or `None` if nothing is."""
        return None if self._document is None else Position.of(self._document)

    def batch_id(self, until: Position) -> str:
        """Return the id of the batch between the cursor and a position."""
        return build_batch_id(self._selector, self.position, until)

    def move(self, until: Position) -> None:
        """Record that everything up to a position is delivered.

        Raises `CursorMoved` if another process moved the cursor in between.
        """
        current = self.position
        if current is not None and until < current:
            raise ValueError(f"the cursor of {self._destination} is at {current}, and can't go back to {until}")
        moved = until.document
        if not self._documents.swap(SPACE, self._key, self._document, moved):
            raise CursorMoved(
                f"the cursor of {self._destination} is no longer at {current}, where selector {self._selector} left it",
                hint="two processes export for one selector; stop one of them",
            )
        self._document = moved
