"""Rows of the lake for one request, and values as JSON can express them."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Parameters = Sequence[Any] | Mapping[str, Any]

__all__ = ["MAX_EXACT", "Context", "RecordSource", "cut_text", "to_json_value"]

MAX_EXACT = 2**53 - 1  # larger integers change in a browser
READ_SHARE = 4  # of the memory of a query is for the rows of one statement
ID_LENGTHS = (8, 16)


class Context(Protocol):
    """The part of a worker's context that these programs use."""

    @property
    def memory_bytes(self) -> int:
        """Return the memory of the query."""

    def read(
        self,
        sql: str,
        parameters: Parameters,
        since: datetime | None,
        until: datetime | None,
        *,
        only_new_files: bool = False,
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range. Its rows are read before the next statement starts."""

    def check(self) -> None:
        """Raise an error if the query was interrupted."""


@dataclass(frozen=True)
class RecordSource:
    """Source of rows within a half-open time range. Statements see the rows of one organization only."""

    context: Context
    since: datetime | None = None
    until: datetime | None = None
    has_service_edges: bool = False  # whether the lake has the service map, and trace summaries

    def widen(self, since: datetime | None, until: datetime | None) -> RecordSource:
        """Return the source of rows within another time range."""
        return replace(self, since=since, until=until)

    def table(self, sql: str, parameters: Parameters = (), *, only_new_files: bool = False) -> pa.Table:
        """Run a statement and return its rows. Raises `LimitExceeded` if they are too large.

        With `only_new_files`, `spans` are those that trace summaries have not seen.
        """
        more = {"only_new_files": True} if only_new_files else {}
        reader = self.context.read(sql, parameters, self.since, self.until, **more)
        most = self.context.memory_bytes // READ_SHARE
        batches, size = [], 0
        for batch in reader:
            self.context.check()
            size += batch.nbytes
            if size > most:
                raise LimitExceeded(f"the records are larger than {most:,} bytes", limit="memory")
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    def rows(self, sql: str, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """Run a statement and return its rows as JSON objects."""
        found: list[dict[str, Any]] = self.table(sql, parameters).to_pylist(maps_as_pydicts="lossy")
        return [{name: to_json_value(value) for name, value in row.items()} for row in found]

    def one(self, sql: str, parameters: Parameters = ()) -> dict[str, Any]:
        """Run a statement that has one row."""
        return self.rows(sql, parameters)[0]


def to_json_value(value: Any) -> Any:
    """Return a value as JSON: ids as hex, times with their offset, integers that a browser would round as text.

    >>> to_json_value({"id": bytes(8), "nanos": 1_760_000_000_123_456_789, "count": 3})
    {'id': '0000000000000000', 'nanos': '1760000000123456789', 'count': 3}
    """
    match value:
        case dict():
            return {key: to_json_value(one) for key, one in value.items()}
        case list():
            return [to_json_value(one) for one in value]
        case int() | float():
            return _exact_number(value)
        case bytes():
            return value.hex() if len(value) in ID_LENGTHS else base64.b64encode(value).decode()
        case datetime():
            return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    return value


def _exact_number(value: float) -> int | float | str | None:
    if isinstance(value, int):
        return value if -MAX_EXACT <= value <= MAX_EXACT else str(value)
    return value if isfinite(value) else None


def cut_text(column: str, most: int) -> str:
    """Return the SQL of a text of at most `most` characters, and of a mark if it was cut."""
    mark = f"left({column}, {most}) || '… (cut: it has ' || length({column}) || ' characters)'"
    return f"CASE WHEN length({column}) <= {most} THEN {column} ELSE {mark} END"
