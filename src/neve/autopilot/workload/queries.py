"""Queries of a workload in one form for all engines: the tables that they use and the filter on each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.predicate.filters import AllOf

if TYPE_CHECKING:
    from datetime import datetime

    from neve.predicate.filters import Filter, Test


@dataclass(frozen=True)
class TableUse:
    """Use of one table by one query."""

    table: str  # namespace and name, without a catalog
    filter: Filter = field(default_factory=AllOf)
    columns: tuple[str, ...] = ()  # columns that are read, including those of the filter
    join_keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    bytes_read: int | None = None  # as counted by the engine; None if it was not


@dataclass(frozen=True)
class Query:
    """A query that was run to its end."""

    query_id: str
    engine: str  # trino, clickhouse, spark, iceberg or neve
    at: datetime
    text: str
    seconds: float | None
    uses: tuple[TableUse, ...]
    implied: tuple[Test, ...] = ()  # conditions on every table with the column, which the text doesn't contain
