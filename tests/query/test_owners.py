"""Whose rows a file holds: told only where partition and bounds agree, and never believed of another organization."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.transforms import BucketTransform

from neve.lake.commit.append import append_once
from neve.lake.read.manifest_cache import FileEntry
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SPANS
from neve.predicate.expressions import ANY_ROW
from neve.query.config import QueryConfig
from neve.query.engine.duckdb import DuckEngine
from neve.query.limits import Limits
from neve.query.planning.duckdb_source import duckdb_source
from neve.query.planning.file_planner import FilePlanner
from neve.query.planning.scans import Scan
from neve.query.planning.tenancy import FileOwners
from neve.query.request import Request, TimeRange
from neve.query.service import QueryService, run_query
from neve.query.sql.duckdb_statement import DuckDBStatement
from tests.query.attacks import ANSWERED
from tests.query.lakes import ACME, OTHER, fork_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.query.planning.file_planner import FilePlan

ANY = TimeRange()
LONG = "an-organization-with-a-long-name"


def plan(table: Table, organization: str) -> FilePlan:
    """All files of an organization."""
    return FilePlanner().plan(table, Scan(0, table.name()[-1], ANY_ROW), organization, ANY)


@pytest.fixture(scope="module")
def spans(lake: Lake) -> Table:
    """A table that is partitioned by organization."""
    return lake.table("spans")


def entry(table: Table, value: Any, lower: bytes | None, upper: bytes | None, nulls: int = 0) -> FileEntry:
    """A file of a partition, with what is known of the organizations in it."""
    column = table.schema().find_field("organization_id").field_id
    return FileEntry(
        file_path="file.parquet",
        file_size_in_bytes=1,
        record_count=1,
        spec_id=table.spec().spec_id,
        partition=(value, 20_000, 3),
        sequence=1,
        content=DataFileContent.DATA,
        file_format=FileFormat.PARQUET,
        value_counts={column: 1},
        null_value_counts={column: nulls},
        nan_value_counts={},
        lower_bounds={} if lower is None else {column: lower},
        upper_bounds={} if upper is None else {column: upper},
    )


@pytest.mark.parametrize(
    ("value", "lower", "upper", "nulls", "owner"),
    [
        (ACME, b"acme", b"acme", 0, ACME),
        (ACME, None, None, 0, ACME),
        (ACME, b"acme", b"acmf", 0, None),
        (ACME, b"abc", b"acme", 0, None),
        (ACME, b"globex", b"globex", 0, None),
        (ACME, b"acme", b"acme", 1, None),
        (None, None, None, 0, None),
        (7, None, None, 0, None),
        ("", b"", b"", 0, ""),
        (LONG, b"an-organization-", b"an-organization.", 0, LONG),
        (LONG, b"an-organization-", b"an-organization-", 0, None),
        (LONG, b"an-organisation-", b"an-organization.", 0, None),
    ],
)
def test_partition_and_bounds_must_agree(
    spans: Table, value: Any, lower: bytes | None, upper: bytes | None, nulls: int, owner: str | None
) -> None:
    """A bound of a long name is cut off; nulls, other values and other bounds leave a file without an owner."""
    assert FileOwners(spans.metadata).of(entry(spans, value, lower, upper, nulls)) == owner


texts = st.text(max_size=30, alphabet="ab")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=texts, lower=texts.map(str.encode), upper=texts.map(str.encode))
def test_no_owner_lies_outside_of_its_bounds(spans: Table, value: str, lower: bytes, upper: bytes) -> None:
    """Whatever manifests say, an owner is a value that the bounds allow."""
    owner = FileOwners(spans.metadata).of(entry(spans, value, lower, upper))
    if owner is not None:
        assert owner == value
        assert lower <= value.encode() <= upper


def test_rows_of_owned_files_are_not_looked_at(spans: Table) -> None:
    """Their organization is a constant, and the column is not read."""
    own = plan(spans, ACME)
    assert {file.owner for file in own.files} == {ACME}
    said = duckdb_source(spans, own, ACME, ANY)
    assert "WHERE" not in said
    assert "name: 'organization_id'" not in said


def _written(written: DuckDBStatement, _root: str) -> DuckDBStatement:
    return written


def test_a_plan_of_another_organization_is_not_believed(lake: Lake, spans: Table) -> None:
    """Nor one that does not know whose its files are: then each row is looked at."""
    unknown = plan(spans, OTHER)
    unknown = replace(unknown, files=tuple(replace(file, owner=None) for file in unknown.files))
    engine = DuckEngine(lake, QueryConfig(threads=1))
    for other in (plan(spans, OTHER), unknown):
        said = duckdb_source(spans, other, ACME, ANY)
        assert said.count("\"organization_id\" = 'acme'") == 1
        written = DuckDBStatement('SELECT * FROM "neve_source_0"', {"neve_source_0": said})
        run = engine.run(partial(_written, written), Limits())
        run.begin()
        assert list(run.batches()) == []
        run.close()
    engine.close()


@pytest.mark.lake
def test_a_table_that_is_partitioned_otherwise_has_no_owners(lake: Lake, tmp_path: Path) -> None:
    """Files of several organizations are read with the condition, those from before without it; rows are right."""
    own = fork_lake(lake, tmp_path)
    table = own.table("spans")
    with table.update_spec() as update:
        for field in table.spec().fields:
            update.remove_field(field.name)
        update.add_field("organization_id", BucketTransform(1), "organization_bucket")
    table = own.table("spans")
    columns = {
        "organization_id": [ACME, OTHER, ACME],
        "timestamp": [datetime(2025, 10, 9, tzinfo=UTC)] * 3,
        "trace_id": [b"\x77" * 16] * 3,
        "service_name": ["mixed"] * 3,
    }
    rows = pa.Table.from_pylist(
        [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)],
        schema=SPANS.schema,
    )
    append_once(table, write_files(Target.of(table), rows), batch_id="mixed", operation="test")
    table = own.table("spans")
    assert {file.owner for file in plan(table, ACME).files} == {ACME, None}
    for organization, number in ((ACME, 2), (OTHER, 1)):
        answer = run_query(
            own,
            QueryConfig(threads=1),
            "SELECT organization_id, count(*) FILTER (service_name = 'mixed') AS mixed, count(*) AS n "
            "FROM spans GROUP BY 1",
            organization,
        )
        [row] = answer.read_all().to_pylist()
        assert (row["organization_id"], row["mixed"]) == (organization, number)
        assert row["n"] > number


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """The service that answers."""
    made = QueryService(lake, QueryConfig(threads=1))
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("sql", ANSWERED)
def test_the_service_gives_the_askers_rows_only(service: QueryService, sql: str) -> None:
    """Hostile statements, answered from the files themselves: nothing of the other organization is in any answer."""
    try:
        running = service.start(Request(sql, ACME))
        said = str([batch.to_pylist() for batch in running.batches()])
    except Exception as error:
        said = str(error)
    assert "secret" not in said
    assert OTHER not in said.replace(f"'{OTHER}'", "")
    assert "root:" not in said
