"""How far each destination is: cursors in the state store.

A cursor moves after a batch was delivered, and not before. Whoever dies in between brings the batch again: every kept
trace arrives at least once, and none is passed over. Each destination has a cursor of its own, so that one that is away
holds up no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.tail.export.position import Position, batch_id

if TYPE_CHECKING:
    from neve.lake.documents import Documents

SPACE = "tail_cursors"


class CursorMoved(LakeError):
    """Raised when a cursor is not where its owner left it: two processes export to the same destination."""


class Outbox:
    """The cursors of one selector."""

    def __init__(self, documents: Documents, selector: str) -> None:
        self._documents, self._selector = documents, selector

    def cursor(self, destination: str) -> Cursor:
        """How far a destination is now."""
        return Cursor(self._documents, self._selector, destination)

    def positions(self) -> dict[str, Position]:
        """How far every destination is that ever got something, those that are no longer configured included."""
        prefix = f"{self._selector}/"
        entries = self._documents.entries(SPACE, prefix)
        return {key.removeprefix(prefix): Position.of(document) for key, document in entries}

    def forget(self, destination: str) -> None:
        """Drop a cursor: under that name, everything is brought from the beginning."""
        self._documents.delete(SPACE, f"{self._selector}/{destination}")


class Cursor:
    """One destination's place in the log of decisions, as it was read or moved last."""

    def __init__(self, documents: Documents, selector: str, destination: str) -> None:
        self._documents, self._selector, self._destination = documents, selector, destination
        self._key = f"{selector}/{destination}"
        self._document = documents.get(SPACE, self._key)

    @property
    def position(self) -> Position | None:
        """All until there is delivered; none where nothing is."""
        return None if self._document is None else Position.of(self._document)

    def batch_id(self, until: Position) -> str:
        """The id of what lies between the cursor and a position."""
        return batch_id(self._selector, self.position, until)

    def move(self, until: Position) -> None:
        """All until there is delivered now; raises `CursorMoved` where another one moved the cursor meanwhile."""
        here = self.position
        if here is not None and until < here:
            raise ValueError(f"the cursor of {self._destination} is at {here}, and can't go back to {until}")
        moved = until.document
        if not self._documents.swap(SPACE, self._key, self._document, moved):
            raise CursorMoved(
                f"the cursor of {self._destination} is no longer at {here}, where selector {self._selector} left it",
                hint="two processes export for one selector; let one of them do it",
            )
        self._document = moved
