"""What is asked of tables: queries from any engine's log, in one form."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Value = str | int | float | bool | bytes | Decimal | date | datetime
Kind = Literal["eq", "in", "range", "prefix", "is_null", "not_null", "other"]


@dataclass(frozen=True)
class Test:
    """What a query asks of one column.

    `column` is a column's name, a nested field's path (`resource.id`) or a key of a map (`attributes['http.route']`).
    A range has a `low`, a `high` or both; `values` are those of `eq`, `in` and `prefix`. `other` is a test that no
    statistics can answer (a regular expression, a function that nobody can turn around): it holds or not, anywhere.
    """

    __test__ = False  # pytest takes classes of this name for tests

    column: str
    kind: Kind
    values: tuple[Value, ...] = ()
    low: Value | None = None
    high: Value | None = None
    low_inclusive: bool = True
    high_inclusive: bool = True
    function: str = ""  # around the column, as the query has it: date_trunc, cast, lower


@dataclass(frozen=True)
class AllOf:
    """Parts that must hold together; none: everything is read."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """Parts of which one must hold."""

    parts: tuple[Filter, ...]


Filter = Test | AllOf | AnyOf


@dataclass(frozen=True)
class TableUse:
    """What one query reads of one table."""

    table: str  # namespace and name, without a catalog
    filter: Filter = field(default_factory=AllOf)
    columns: tuple[str, ...] = ()  # that are read, those of the filter among them
    join_keys: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    limit: int | None = None
    bytes_read: int | None = None  # as the engine counted them; None where it did not


@dataclass(frozen=True)
class Query:
    """A query that was asked and answered."""

    query_id: str
    engine: str  # trino, clickhouse, spark, iceberg or neve
    at: datetime
    text: str
    seconds: float | None
    uses: tuple[TableUse, ...]
    implied: tuple[Test, ...] = ()  # that held for every table with the column, though the text does not say them
