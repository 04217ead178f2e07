"""The files that a scan must read: those that pyiceberg plans, and never fewer than hold a row that is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, Reference
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.transforms import HourTransform
from pyiceberg.types import LongType

from neve.errors import QueryError
from neve.lake.commit.append import append_once
from neve.lake.read.local_table import LocalTable
from neve.lake.read.manifest_cache import ManifestCache
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SPANS
from neve.predicate.expressions import ANY_ROW, all_of, compare_column, is_null, starts_with
from neve.query.planning.file_planner import FilePlan, FilePlanner, PlannedFile, Tokens, time_predicate
from neve.query.planning.scans import Scan
from neve.query.planning.tenancy import TENANT
from neve.query.request import TimeRange
from tests.query.deleting import commit_deletes, delete_rows, deletion_vector, equality_deletes
from tests.query.lakes import ACME, OTHER, fork_lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table

    from neve.lake.lake import Lake

START = datetime(2025, 10, 1, tzinfo=UTC)
ANY = TimeRange()
SERVICES = ("cart", "checkout", "payment", None)


def trace(number: int) -> bytes:
    """The id of a trace."""
    return number.to_bytes(16, "big")


def span(organization: str, hour: int, number: int) -> dict[str, Any]:
    """A span at an hour after the start."""
    return {
        "organization_id": organization,
        "timestamp": START + timedelta(hours=hour, minutes=number),
        "trace_id": trace(number),
        "service_name": SERVICES[number % len(SERVICES)],
        "status_code": number % 3,
        "duration_ms": float(number),
    }


def append(table: Table, rows: list[dict[str, Any]], batch: str) -> list[DataFile]:
    """Write and commit rows."""
    files = write_files(Target.of(table), pa.Table.from_pylist(rows, schema=SPANS.schema))
    append_once(table, files, batch_id=batch, operation="test")
    return files


@pytest.fixture(scope="module")
def spans(lake: Lake, tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Table:
    """Spans of two organizations over four days, in six commits."""
    table = fork_lake(lake, tmp_path_factory.mktemp("files")).table("spans")
    for batch in range(6):
        rows = [
            span(name, batch * 16 + number % 5, batch * 7 + number) for name in (ACME, OTHER) for number in range(9)
        ]
        append(table, rows, f"more-{batch}")
    return table


@pytest.fixture
def own(lake: Lake, tmp_path: Path, iceberg: None) -> Table:
    """A table of spans that a test may change."""
    table = fork_lake(lake, tmp_path).table("spans")
    append(table, [span(ACME, hour, hour) for hour in (0, 30, 60)], "own")
    return table


def plan(
    table: Table, predicate: BooleanExpression = ANY_ROW, organization: str = ACME, time: TimeRange = ANY
) -> FilePlan:
    """A plan made without memory: the same from pyiceberg's metadata and from that of a local table."""
    asked = Scan(0, "spans", predicate), organization, time
    found = FilePlanner().plan(table, *asked)
    local = LocalTable(table.name(), table.metadata_location, lambda: pytest.fail("pyiceberg's table was opened"))
    assert FilePlanner().plan(cast("Table", local), *asked) == found
    return found


def paths(planned: FilePlan) -> set[str]:
    """The files of a plan."""
    return {file.path for file in planned.files}


def planned_by_pyiceberg(
    table: Table, organization: str, predicate: BooleanExpression, time: TimeRange
) -> dict[str, Any]:
    """What pyiceberg plans for the same rows, by path."""
    schema = table.schema()
    wanted = all_of([compare_column(TENANT, "=", organization), predicate, time_predicate(schema, time)])
    return {task.file.file_path: task for task in table.scan(row_filter=wanted).plan_files()}


predicates = st.lists(
    st.one_of(
        st.integers(0, 60).map(lambda number: compare_column("trace_id", "=", trace(number))),
        st.tuples(st.sampled_from(["<", ">=", "="]), st.integers(0, 120)).map(
            lambda pair: compare_column("timestamp", pair[0], (START + timedelta(hours=pair[1])).isoformat())
        ),
        st.sampled_from(["cart", "payment", "nobody"]).map(lambda name: compare_column("service_name", "=", name)),
        st.sampled_from(["c", "ch", "z"]).map(lambda prefix: starts_with("service_name", prefix)),
        st.tuples(st.sampled_from(["<", ">", "<>"]), st.integers(-1, 3)).map(
            lambda pair: compare_column("status_code", pair[0], pair[1])
        ),
        st.just(is_null("service_name")),
    ),
    max_size=3,
).map(all_of)
moments = st.none() | st.integers(0, 120).map(lambda hour: START + timedelta(hours=hour))
times = st.builds(TimeRange, moments, moments)


PLANNER = FilePlanner()


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(predicate=predicates, time=times, organization=st.sampled_from([ACME, OTHER, "nobody"]))
def test_the_same_files_as_pyiceberg(
    spans: Table, predicate: BooleanExpression, time: TimeRange, organization: str
) -> None:
    """And what is left out is counted, of the organization's files alone."""
    found = PLANNER.plan(spans, Scan(0, "spans", predicate), organization, time)
    assert paths(found) == set(planned_by_pyiceberg(spans, organization, predicate, time))
    everything = PLANNER.plan(spans, Scan(0, "spans", AlwaysTrue()), organization, ANY)
    assert len(found.files) + found.pruned_files == len(everything.files)
    assert found.bytes + found.pruned_bytes == everything.bytes
    assert everything.pruned_files == 0
    assert found.bytes == sum(file.bytes for file in found.files)


def test_one_trace_is_in_one_bucket_of_each_day(spans: Table) -> None:
    """The partition by a hash of the trace's id prunes most files before their bounds are looked at."""
    found = plan(spans, compare_column("trace_id", "=", trace(3)))
    assert 0 < len(found.files) < found.pruned_files
    buckets = {file.partition[2] for file in found.files}
    assert len(buckets) == 1


def test_rows_of_other_organizations_are_never_read(spans: Table) -> None:
    """Each organization has its own files."""
    assert {file.partition[0] for file in plan(spans, organization=OTHER).files} == {OTHER}
    assert plan(spans, organization="nobody") == FilePlan("spans", spans.metadata.current_snapshot_id, (), 0, 0, 0)


def test_a_table_without_a_snapshot_has_no_files(lake: Lake) -> None:
    """A table that was never written to."""
    assert plan(lake.table("quarantine")) == FilePlan("quarantine", None, (), 0, 0, 0)


@pytest.mark.lake
def test_a_table_without_the_column_of_the_organization_is_not_read(lake: Lake, tmp_path: Path) -> None:
    """Nothing is there to tell rows apart by."""
    own = fork_lake(lake, tmp_path)
    rows = pa.table({"timestamp": pa.array([0], pa.timestamp("us", tz="UTC"))})
    table = own.catalog.create_table("telemetry.things", rows.schema)
    table.append(rows)
    with pytest.raises(QueryError, match="the table things has no text column organization_id"):
        plan(table)
    with pytest.raises(QueryError, match="its rows belong to no organization"):
        FilePlanner().find_owned_files(table, ACME)


def test_files_that_were_taken_out_are_not_planned(own: Table) -> None:
    """A snapshot that puts one file in the place of others, as compaction does."""
    before = paths(plan(own))
    rows = own.scan(row_filter=EqualTo(term=Reference("organization_id"), value=ACME)).to_arrow()
    own.overwrite(rows, overwrite_filter=EqualTo(term=Reference("organization_id"), value=ACME))
    after = plan(own)
    assert not before & paths(after)
    assert paths(after) == set(planned_by_pyiceberg(own, ACME, AlwaysTrue(), ANY))
    assert sum(file.rows for file in after.files) == len(rows)


def test_files_of_an_older_partition_spec_are_pruned_too(own: Table) -> None:
    """Each manifest is read with the spec that it was written with."""
    with own.update_spec() as update:
        update.remove_field("timestamp_day")
        update.add_field("timestamp", HourTransform(), "timestamp_hour")
    append(own, [span(ACME, hour, hour) for hour in (0, 30, 90)], "newer")
    for predicate in (
        AlwaysTrue(),
        compare_column("trace_id", "=", trace(30)),
        compare_column("timestamp", ">=", "2025-10-02T00:00:00+00:00"),
    ):
        assert paths(plan(own, predicate)) == set(planned_by_pyiceberg(own, ACME, predicate, ANY))
    assert {file.spec_id for file in plan(own).files} == {0, 1}


def test_files_without_a_newer_column_are_kept(own: Table) -> None:
    """Nothing is known of a column that a file lacks."""
    with own.update_schema() as update:
        update.add_column("extra", LongType())
    assert plan(own, compare_column("extra", ">", 5)).files == plan(own).files


def test_bounds_of_a_column_that_was_widened_since_do_not_hurt(own: Table) -> None:
    """They have fewer bytes than the type has now."""
    with own.update_schema() as update:
        update.update_column("status_code", LongType())
    assert plan(own, compare_column("status_code", "=", 0)).files


def test_position_deletes_go_with_their_file(own: Table) -> None:
    """By the path that they name, and only where they are not older than the data."""
    first, *_ = (task.file for task in own.scan().plan_files())
    deleted = delete_rows(own, first, [0])
    files = {file.path: file.deletes for file in plan(own, organization=str(first.partition[0])).files}
    assert files[first.file_path] == (deleted,)
    assert all(not deletes for path, deletes in files.items() if path != first.file_path)


def test_position_deletes_without_a_path_go_with_their_partition(own: Table) -> None:
    """Files of the same partition that are newer are not meant."""
    target = next(task.file for task in own.scan().plan_files() if task.file.partition[0] == ACME)
    deleted = delete_rows(own, target, [0], lower_bounds={}, upper_bounds={})
    [newer] = append(own, [span(ACME, 0, 0)], "newer")
    files = {file.path: file for file in plan(own).files}
    with_deletes = {path for path, file in files.items() if file.deletes == (deleted,)}
    by_pyiceberg = planned_by_pyiceberg(own, ACME, AlwaysTrue(), ANY)
    assert target.file_path in with_deletes
    assert newer.file_path not in with_deletes
    assert with_deletes == {path for path, task in by_pyiceberg.items() if task.delete_files}


@pytest.mark.parametrize(("make", "word"), [(equality_deletes, "values"), (deletion_vector, "vectors")])
def test_deletes_that_duckdb_can_not_apply_are_left_to_spark(
    own: Table, make: Callable[[DataFile], DataFile], word: str
) -> None:
    """Only for the organization and the partitions that they are about."""
    target = next(task.file for task in own.scan().plan_files() if task.file.partition[0] == ACME)
    commit_deletes(own, make(target), target.spec_id)
    assert word in plan(own).only_spark
    assert plan(own, organization=OTHER).only_spark == ""


def test_manifests_are_read_once(spans: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second plan reads no file at all, whatever it asks for."""
    planner = FilePlanner()
    first = planner.plan(spans, Scan(0, "spans", AlwaysTrue()), ACME, ANY)
    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", None)
    monkeypatch.setattr("pyiceberg.table.snapshots.Snapshot.manifests", None)
    assert planner.plan(spans, Scan(0, "spans", AlwaysTrue()), ACME, ANY) == first


@pytest.mark.parametrize("kept", [0, 3, 20])
def test_memory_is_bounded(spans: Table, kept: int) -> None:
    """What does not fit is read again, and the answer is the same."""
    manifests = ManifestCache(kept)
    planner = FilePlanner(manifests=manifests)
    for _ in range(2):
        assert paths(planner.plan(spans, Scan(0, "spans", AlwaysTrue()), ACME, ANY)) == paths(plan(spans))
        assert len(manifests) <= kept


def test_many_threads_may_plan(spans: Table) -> None:
    """One planner serves all requests."""
    planner = FilePlanner(manifests=ManifestCache(10))
    with ThreadPoolExecutor(8) as pool:
        plans = list(pool.map(lambda _: planner.plan(spans, Scan(0, "spans", AlwaysTrue()), ACME, ANY), range(40)))
    assert all(paths(found) == paths(plan(spans)) for found in plans)


def test_an_index_of_words_takes_files_out(spans: Table) -> None:
    """It is asked only where there are words, and what it takes out counts as pruned."""
    asked: list[tuple[str, str, Tokens]] = []

    def index(table: str, organization: str, files: Any, tokens: Tokens) -> list[PlannedFile]:
        asked.append((table, organization, tokens))
        return list(files[:1])

    tokens = (("operation_name", frozenset({"get"})),)
    planner = FilePlanner(index)
    everything = planner.plan(spans, Scan(0, "spans", AlwaysTrue()), ACME, ANY)
    found = planner.plan(spans, Scan(0, "spans", AlwaysTrue(), tokens), ACME, ANY)
    assert asked == [("spans", ACME, tokens)]
    assert (len(found.files), found.pruned_files) == (1, len(everything.files) - 1)
    assert found.bytes + found.pruned_bytes == everything.bytes


def test_what_can_not_be_counted_cheaply_is_not_counted(spans: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that is not opened holds files of others too: their number is nobody else's business."""
    monkeypatch.setattr("neve.query.planning.file_planner.COUNTED_AT_MOST", 0)
    time = TimeRange(since=START + timedelta(days=3, hours=8))
    found = plan(spans, time=time)
    assert paths(found) == set(planned_by_pyiceberg(spans, ACME, AlwaysTrue(), time))
    assert (found.pruned_files, found.pruned_bytes) == (0, 0)
