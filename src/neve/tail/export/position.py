"""How far an export is: a place in the log of decisions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import xxhash

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, order=True)
class Position:
    """A trace in the log of decisions, which is ordered by snapshot and, within one, by trace; all until it is done.

    `sequence` is the sequence number of the snapshot of decisions, `trace_id` the trace in hex: empty stands before the
    first one, so that `Position(n + 1)` says that all of snapshot n is done. A trace that is too large for one batch
    comes in parts, numbered from 0.
    """

    sequence: int
    trace_id: str = ""
    part: int = 0

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Position:
        """The position that a document tells."""
        return cls(**{field.name: document[field.name] for field in fields(cls) if field.name in document})

    @property
    def document(self) -> dict[str, object]:
        """The position as the state store keeps it."""
        return asdict(self)


def batch_id(selector: str, after: Position | None, until: Position) -> str:
    """The id of what lies between two positions: the same whenever, and only when, the same is brought again.

    Where it begins is part of it: who starts over with larger batches brings more under the same end.

    >>> batch_id("main", None, Position(7, "ab")) == batch_id("main", Position(6), Position(7, "ab"))
    False
    """
    said = "\0".join((selector, repr(after), repr(until)))
    return f"{until.sequence:010d}-{xxhash.xxh3_128_hexdigest(said.encode())}"
