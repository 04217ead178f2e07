"""How DuckDB reads the planned files: the same rows as through Iceberg, and no more of them than is needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from neve.lake.config import S3Config
from neve.lake.duckdb import connect, scan_sql
from neve.predicate.expressions import ANY_ROW
from neve.query.planning.duckdb_source import duckdb_source
from neve.query.planning.file_planner import FilePlan, FilePlanner
from neve.query.planning.scans import Scan
from neve.query.request import TimeRange
from tests.query.deleting import delete_rows
from tests.query.lakes import ACME, OTHER, fork_lake
from tests.query.test_files import START, append, span

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from neve.lake.lake import Lake

ANY = TimeRange()


@pytest.fixture
def plain() -> duckdb.DuckDBPyConnection:
    """A DuckDB without any extension."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET autoload_known_extensions = false")
    return connection


@pytest.fixture
def own(lake: Lake, tmp_path: Path, iceberg: None) -> Table:
    """A table of spans that a test may change."""
    table = fork_lake(lake, tmp_path).table("spans")
    append(table, [span(ACME, hour, hour) for hour in range(40)], "own")
    return table


def plan(table: Table, organization: str = ACME, time: TimeRange = ANY) -> FilePlan:
    """All files of an organization within a range of time."""
    return FilePlanner().plan(table, Scan(0, table.name()[-1], ANY_ROW), organization, time)


def source(table: Table, organization: str = ACME, time: TimeRange = ANY) -> str:
    """The SQL that reads them."""
    return duckdb_source(table, plan(table, organization, time), organization, time)


def rows(connection: duckdb.DuckDBPyConnection, relation: str) -> list[str]:
    """All rows of a relation in an order of their own."""
    return sorted(map(repr, connection.execute(f"SELECT * FROM {relation}").to_arrow_table().to_pylist()))


def expected(table: Table, organization: str = ACME) -> list[str]:
    """The rows as DuckDB's own reader of Iceberg sees them."""
    iceberg = connect(S3Config(), on_s3=False, threads=1)
    return rows(iceberg, f"(SELECT * FROM {scan_sql(table)} WHERE organization_id = '{organization}')")


def profile(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """What DuckDB did for a query."""
    return str(connection.execute(f"EXPLAIN ANALYZE {sql}").fetchall()[0][1])


@pytest.mark.parametrize("organization", [ACME, OTHER])
@pytest.mark.parametrize("name", ["spans", "logs", "metrics"])
def test_the_same_rows_as_through_iceberg(
    lake: Lake, plain: duckdb.DuckDBPyConnection, name: str, organization: str
) -> None:
    """In the order of the table's columns, with the same types."""
    table = lake.table(name)
    said = source(table, organization)
    assert rows(plain, said) == expected(table, organization)
    iceberg = connect(S3Config(), on_s3=False, threads=1)
    types = [column[:2] for column in iceberg.execute(f"DESCRIBE SELECT * FROM {scan_sql(table)}").fetchall()]
    assert [column[:2] for column in plain.execute(f"DESCRIBE SELECT * FROM {said}").fetchall()] == types


def test_a_table_without_files_has_its_columns(lake: Lake, plain: duckdb.DuckDBPyConnection) -> None:
    """With their types, as if there were rows."""
    table = lake.table("logs")
    empty = duckdb_source(table, replace(plan(table), files=()), ACME, ANY)
    assert rows(plain, empty) == []
    described = plain.execute(f"DESCRIBE SELECT * FROM {empty}").fetchall()
    assert described == plain.execute(f"DESCRIBE SELECT * FROM {source(table)}").fetchall()


def test_a_range_of_time_holds_for_rows(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """Not only for files: the end is not part of it."""
    time = TimeRange(START + timedelta(hours=10, minutes=10), START + timedelta(hours=20, minutes=20))
    found = plain.execute(
        f"SELECT min(duration_ms), max(duration_ms), count(*) FROM {source(own, ACME, time)}"
    ).fetchone()
    assert found == (10, 19, 10)


def test_the_range_of_time_is_looked_for_only_where_it_may_fail(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """Files that lie within it are read without their timestamps; a plan for another range is not believed."""
    time = TimeRange(START, START + timedelta(hours=30))
    said = source(own, ACME, time)
    assert said.count("read_parquet") == 2
    assert said.count('"timestamp" <') == 1
    [[found]] = plain.execute(f"SELECT count(*) FROM {said}").fetchall()
    assert found == 30
    wider = plan(own, ACME, ANY)
    [[found]] = plain.execute(f"SELECT count(*) FROM {duckdb_source(own, wider, ACME, time)}").fetchall()
    assert found == 30


@pytest.mark.lake
def test_an_organization_is_text_whatever_it_looks_like(
    lake: Lake, tmp_path: Path, plain: duckdb.DuckDBPyConnection
) -> None:
    """Names of folders are not read as values, quotes are quoted and signs of patterns are no patterns."""
    table = fork_lake(lake, tmp_path).table("spans")
    names = ["007", "it's", "a*b", "[x]", "a/b", "1' OR '1'='1", "", "ü"]
    append(table, [span(name, 1, 1) for name in names], "names")
    for name in names:
        found = plain.execute(f"SELECT organization_id FROM {source(table, name)}").fetchall()
        assert found == [(name,)]


def test_deleted_rows_are_left_out(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """Of files with deletes; the others are read without looking for any."""
    first, second, *_ = sorted(
        (task.file for task in own.scan().plan_files() if task.file.partition[0] == ACME),
        key=lambda file: -file.record_count,
    )
    before = expected(own)
    delete_rows(own, first, [0, first.record_count - 1])
    delete_rows(own, second, [0])
    deleted = 1 + len({0, first.record_count - 1})
    assert len(rows(plain, source(own))) == len(before) - deleted
    assert rows(plain, source(own)) == expected(own)
    assert rows(plain, source(own, OTHER)) == expected(own, OTHER)


def test_columns_are_found_by_their_ids(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """Renamed, widened, moved and added ones; a new column with the name of an old one is another column."""
    with own.update_schema() as update:
        update.rename_column("operation_name", "name")
        update.update_column("status_code", LongType())
        update.add_column("extra", MapType(1, StringType(), 2, LongType()))
        update.move_first("span_id")
    with own.update_schema() as update:
        update.add_column("operation_name", StringType())
        update.delete_column("trace_state")
    said = source(own)
    assert rows(plain, said) == expected(own)
    described = plain.execute(f"DESCRIBE SELECT * FROM {said}").fetchall()
    assert [column[0] for column in described] == [column.name for column in own.schema().fields]
    found = plain.execute(f"SELECT DISTINCT operation_name, extra, typeof(status_code) FROM {said}").fetchall()
    assert found == [(None, None, "BIGINT")]


def test_members_of_structs_may_be_added(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """Files that lack them have nulls there."""
    with own.update_schema() as update:
        update.add_column(("events", "more"), StringType())
    said = source(own)
    assert "more" in plain.execute(f"SELECT typeof(events) FROM {said} LIMIT 1").fetchall()[0][0]
    assert rows(plain, said) == expected(own)


def test_members_of_structs_that_were_renamed_are_left_to_spark(own: Table) -> None:
    """DuckDB finds them by name and would take them for missing."""
    assert plan(own).only_spark == ""
    with own.update_schema() as update:
        update.rename_column(("events", "name"), "title")
    assert "events.element" in plan(own).only_spark


def test_only_some_rows_of_files_are_read(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """Where an index knows in which rows of a file a word can be."""
    everything = plan(own)
    large = max(everything.files, key=lambda file: file.rows)
    for ranges in (((0, 1),), ((0, 1), (2, 3)), ((1, large.rows),)):
        files = tuple(replace(file, ranges=ranges) if file is large else file for file in everything.files)
        said = duckdb_source(own, replace(everything, files=files), ACME, ANY)
        [[found]] = plain.execute(f"SELECT count(*) FROM {said}").fetchall()
        left = sum(min(end, large.rows) - first for first, end in ranges)
        assert found == sum(file.rows for file in everything.files) - large.rows + left


def test_many_files_with_rows_of_their_own_are_read_at_once(
    own: Table, plain: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement with a part for every file would take longer to plan than to run."""
    monkeypatch.setattr("neve.query.planning.duckdb_source.BRANCHES", 1)
    everything = plan(own)
    large = [file for file in everything.files if file.rows > 2]
    assert len(large) > 2
    files = tuple(replace(file, ranges=((0, 1 + place % 2),)) for place, file in enumerate(large))
    said = duckdb_source(own, replace(everything, files=files), ACME, ANY)
    assert said.count("read_parquet") == 1
    [[found]] = plain.execute(f"SELECT count(*) FROM {said}").fetchall()
    assert found == sum(1 + place % 2 for place in range(len(large)))


def test_ranges_of_all_rows_are_no_ranges(own: Table) -> None:
    """Such files are read with the others, and no row of them is counted."""
    everything = plan(own)
    files = tuple(
        replace(file, ranges=((0, 1), (1, file.rows)) if file.rows > 1 else ((0, 1),)) for file in everything.files
    )
    assert duckdb_source(own, replace(everything, files=files), ACME, ANY) == source(own)


def test_only_the_columns_that_are_asked_for_are_read(own: Table, plain: duckdb.DuckDBPyConnection) -> None:
    """And those that the bounds are about."""
    done = profile(plain, f"SELECT max(service_name) FROM {source(own)} WHERE status_code = 1")
    read = done.split("READ_PARQUET")[1].split("Filters")[0]
    assert "service_name" in read
    assert "attributes" not in read
    assert "trace_id" not in read


@pytest.mark.lake
def test_conditions_of_a_statement_reach_the_files(
    lake: Lake, tmp_path: Path, plain: duckdb.DuckDBPyConnection
) -> None:
    """So that row groups are left out by their statistics, also of files with deleted rows."""
    table = fork_lake(lake, tmp_path).table("spans")
    append(table, [span(ACME, 0, number) for number in range(500)], "many")
    largest = max(
        (task.file for task in table.scan().plan_files() if task.file.partition[0] == ACME),
        key=lambda file: file.record_count,
    )
    delete_rows(table, largest, [0])
    done = profile(plain, f"SELECT count(*) FROM {source(table)} WHERE duration_ms < 5")
    assert done.count("duration_ms<5") == 2


TYPES = Schema(
    NestedField(30, "organization_id", StringType()),
    NestedField(1, "flag", BooleanType()),
    NestedField(2, "small", IntegerType()),
    NestedField(3, "large", LongType()),
    NestedField(4, "single", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "text", StringType()),
    NestedField(7, "bytes", BinaryType()),
    NestedField(8, "four", FixedType(4)),
    NestedField(9, "id", UUIDType()),
    NestedField(10, "day", DateType()),
    NestedField(11, "clock", TimeType()),
    NestedField(12, "local", TimestampType()),
    NestedField(13, "moment", TimestamptzType()),
    NestedField(14, "price", DecimalType(12, 3)),
    NestedField(15, "odd \"name'", StringType()),
    NestedField(16, "list", ListType(20, StructType(NestedField(21, "a_b", LongType())), element_required=False)),
    NestedField(17, "map", MapType(22, StringType(), 23, DoubleType(), value_required=False)),
)


@pytest.mark.lake
def test_every_type(lake: Lake, tmp_path: Path, plain: duckdb.DuckDBPyConnection) -> None:
    """Values come back as they were written."""
    table = fork_lake(lake, tmp_path).catalog.create_table("telemetry.types", TYPES)
    row: dict[str, Any] = {
        "organization_id": ACME,
        "flag": True,
        "small": -5,
        "large": 2**62,
        "single": 0.5,
        "double": 0.1,
        "text": "é",
        "bytes": b"\0\xff",
        "four": b"abcd",
        "id": b"\1" * 16,
        "day": datetime(2025, 1, 2, tzinfo=UTC).date(),
        "clock": datetime(2025, 1, 2, 3, 4, 5, 6, tzinfo=UTC).time(),
        "local": datetime(2025, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - a time without a zone is what is tested
        "moment": datetime(2025, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "price": Decimal("123.450"),
        "odd \"name'": "x",
        "list": [{"a_b": 1}, None],
        "map": {"k": 0.5},
    }
    schema = table.schema().as_arrow()
    table.append(pa.Table.from_pylist([row, dict.fromkeys(row) | {"organization_id": ACME}], schema=schema))
    found = plain.execute(f"SELECT * FROM {source(table)} ORDER BY small").to_arrow_table()
    assert found.column_names == list(row)
    assert plain.execute(f"SELECT typeof(id), typeof(price), typeof(four) FROM {source(table)} LIMIT 1").fetchone() == (
        *("UUID", "DECIMAL(12,3)", "BLOB"),
    )
    values = found.to_pylist()[0]
    assert {name: value for name, value in values.items() if name not in {"id", "map"}} == {
        name: value for name, value in row.items() if name not in {"id", "map"}
    }
    assert (dict(values["map"]), bytes(values["bytes"])) == ({"k": 0.5}, b"\0\xff")
    # pyiceberg writes a list of structs that is null as one without elements.
    assert found.to_pylist()[1] == dict.fromkeys(row) | {"organization_id": ACME, "list": []}
