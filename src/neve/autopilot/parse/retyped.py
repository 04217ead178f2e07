"""Filters that a log tells without SQL, in the types of the table's columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.autopilot.parse.typed import typed
from neve.autopilot.parse.values import Unknown
from neve.autopilot.workload import AllOf, AnyOf, Test

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from neve.autopilot.parse.tables import Tables
    from neve.autopilot.workload import Filter, Value


def retyped(found: Filter, table: str, tables: Tables) -> Filter:
    """The same filter, its values typed; a test whose values do not fit its column can't be answered."""
    if isinstance(found, AllOf):
        return AllOf(tuple(retyped(part, table, tables) for part in found.parts))
    if isinstance(found, AnyOf):
        return AnyOf(tuple(retyped(part, table, tables) for part in found.parts))
    spelled, of = tables.path(table, found.column.split("."))
    try:
        return _typed(replace(found, column=".".join(spelled)), of)
    except Unknown:
        return Test(".".join(spelled), "other", function=found.function)


def _typed(test: Test, of: IcebergType | None) -> Test:
    def one(value: Value | None) -> Value | None:
        return None if value is None else typed(value, of)

    values = tuple(typed(value, of) for value in test.values)
    return replace(test, values=values, low=one(test.low), high=one(test.high))
