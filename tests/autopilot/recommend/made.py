"""Iceberg tables with files of chosen rows, and filters as pyiceberg's own expressions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.transforms import parse_transform

from neve.autopilot.workload.queries import Query, TableUse
from neve.lake.commit.append import append_once
from neve.lake.write.data_file_writer import DataFileOptions, DataFileWriter
from neve.lake.write.file_schema import build_file_schema, conform_to_schema
from neve.lake.write.layout import split_partitions
from neve.lake.write.table_writer import Target
from neve.predicate.filters import AllOf, Test

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyiceberg.table import Table

    from neve.predicate.filters import Filter

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def catalog_in(folder: Path) -> SqlCatalog:
    """A catalog with one namespace in a folder."""
    catalog = SqlCatalog("made", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("t")
    return catalog


def table_of(
    catalog: SqlCatalog,
    name: str,
    rows: pa.Table,
    *,
    partition: Sequence[tuple[str, str]] = (),
    rows_per_file: int,
    properties: Mapping[str, str] | None = None,
) -> Table:
    """A table whose files hold so many rows each, in the order in which they come."""
    table = catalog.create_table(f"t.{name}", rows.schema, properties=dict(properties or {}))
    if partition:
        with table.update_spec() as update:
            for column, transform in partition:
                update.add_field(column, parse_transform(transform))
    add_rows(table, rows, rows_per_file)
    return table.refresh()


def add_rows(table: Table, rows: pa.Table, rows_per_file: int) -> None:
    """Append rows as files of so many each."""
    table.refresh()
    target = Target.of(table)
    metadata = target.metadata
    shaped = conform_to_schema(rows, build_file_schema(metadata.schema(), rows.schema))
    files = []
    for piece in split_partitions(shaped, metadata.schema(), metadata.spec(), metadata.sort_order()):
        with DataFileWriter(
            metadata, target.io, piece.key, DataFileOptions(None, rows_per_file=rows_per_file)
        ) as writer:
            writer.write(piece.rows)
        files += writer.files
    append_once(table, files, batch_id=f"b{len(table.metadata.snapshots)}", operation="test")


def expression(node: Filter) -> BooleanExpression:
    """A filter as pyiceberg writes it."""
    if isinstance(node, Test):
        return _test(node)
    parts = [expression(part) for part in node.parts]
    if not parts:
        return AlwaysTrue()
    whole = parts[0]
    for part in parts[1:]:
        whole = And(whole, part) if isinstance(node, AllOf) else Or(whole, part)
    return whole


def _test(test: Test) -> BooleanExpression:
    values = [_literal(value) for value in test.values]
    if test.kind == "range":
        return _range(test)
    if test.kind in {"is_null", "not_null"}:
        return _made(IsNull if test.kind == "is_null" else NotNull, test.column)
    if test.kind == "in":
        return _made(In, test.column, values)
    return _made(EqualTo if test.kind == "eq" else StartsWith, test.column, values[0])


def _made(shape: Callable[..., BooleanExpression], *parts: object) -> BooleanExpression:
    """An expression, made as pyiceberg's pages show it; its types say another thing."""
    return shape(*parts)


def _range(test: Test) -> BooleanExpression:
    ends: list[BooleanExpression] = []
    if test.low is not None:
        ends.append(_made(GreaterThanOrEqual if test.low_inclusive else GreaterThan, test.column, _literal(test.low)))
    if test.high is not None:
        ends.append(_made(LessThanOrEqual if test.high_inclusive else LessThan, test.column, _literal(test.high)))
    return And(*ends) if len(ends) == 2 else ends[0]


def _literal(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def asked(table: str, *uses: TableUse | Filter, at: datetime = NOW) -> list[Query]:
    """Queries of a log, one for each use or filter."""
    whole = [use if isinstance(use, TableUse) else TableUse(table, use) for use in uses]
    return [Query(str(number), "trino", at, "", 1.0, (use,)) for number, use in enumerate(whole)]
