"""The upkeep of the tables of series: exactly the series of the rows, whatever happens in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.lake import follower
from neve.lake.commit.append import append_once
from neve.lake.read.positions import SourcePosition
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import SERIES
from neve.model.series_identity import IDENTITY_COLUMNS, make_series_ids
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.series.config import SeriesConfig
from neve.series.job import SeriesIndexer
from tests.compact.tables import documents_in
from tests.promql.storage.otlp_metrics import all_metrics, make_metric_lake, message
from tests.query.lakes import ACME, NOW, OTHER, fork_lake, logs

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """Metrics of all types, of two organizations."""
    return make_metric_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Lake:
    """The same, to change."""
    return fork_lake(made, tmp_path)


def put_metrics(lake: Lake, name: str, *, organization: str = ACME, keeps_ids: bool = True) -> None:
    """Commit metrics of a service, as this release writes them or as an older one did."""
    wire = message(all_metrics(), name).SerializeToString()
    rows = pa.Table.from_batches([decode(Signal.METRICS, [wire], Intake(organization, NOW)).batch])
    if not keeps_ids:
        place = rows.schema.get_field_index("series_id")
        rows = rows.set_column(place, rows.schema.field(place), pa.nulls(rows.num_rows, pa.int64()))
    table = lake.table("metrics")
    append_once(table, write_files(Target.of(table), rows), batch_id=f"put {name} {keeps_ids}", operation="test")


def indexer(lake: Lake, folder: Path) -> SeriesIndexer:
    """The job as a new process would make it."""
    return SeriesIndexer(lake, SeriesConfig(), documents_in(folder))


def expected_series(lake: Lake) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first and the last time of each series of an organization, from the points."""
    rows = lake.table("metrics").scan().to_arrow()
    plain = rows.combine_chunks().to_batches()[0]
    ids = make_series_ids({name: plain.column(name) for name in IDENTITY_COLUMNS}).to_pylist()
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for owner, number, time in zip(
        plain.column("organization_id").to_pylist(), ids, plain.column("time_unix_nano").to_pylist(), strict=True
    ):
        micros = time // 1000 * 1000
        first, last = found.get((owner, number), (micros, micros))
        found[owner, number] = min(first, micros), max(last, micros)
    return found


def stored_series(lake: Lake) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the same from the table of series."""
    rows = lake.table("metric_series").scan().to_arrow().to_pylist()
    assert len({(row["organization_id"], row["series_id"], row["timestamp"]) for row in rows}) == len(rows)
    return {
        (row["organization_id"], row["series_id"]): (row["first_time_unix_nano"], row["last_time_unix_nano"])
        for row in rows
    }


def test_series_of_all_points(lake: Lake, tmp_path: Path) -> None:
    """After a run the table has each series of each organization once, from its first to its last point."""
    metrics, streams, volumes = indexer(lake, tmp_path).run()
    assert (metrics.committed, streams.committed, volumes.committed) == (True, True, True)
    assert metrics.reason == "3 files of metrics not read before"
    assert stored_series(lake) == expected_series(lake)
    rows = {row["metric_name"]: row for row in lake.table("metric_series").scan().to_arrow().to_pylist()}
    classic = next(row for row in rows.values() if row["metric_type"] == "histogram")
    assert classic["explicit_bounds"] == [0.1, 1.0]
    assert classic["has_rows_without_id"] is False
    assert dict(classic["resource_attrs"])["service.name"] == "cart"
    owners = {row["organization_id"] for row in lake.table("log_streams").scan().to_arrow().to_pylist()}
    assert owners == {ACME, OTHER}


def test_new_commits_are_read_once(lake: Lake, tmp_path: Path) -> None:
    """A run reads the files of new commits alone, and a run without any commits nothing."""
    series = indexer(lake, tmp_path)
    series.run()
    put_metrics(lake, "checkout")
    assert [one.files_missing for one in series.status()] == [1, 0, 0]
    result = series.update("metric_series")
    assert (result.files, result.partitions) == (1, 1)
    assert stored_series(lake) == expected_series(lake)
    again = series.update("metric_series")
    assert (again.committed, again.reason) == (False, "every file was read")
    assert [one.files_missing for one in series.status()] == [0, 0, 0]


def test_older_rows_are_hashed(lake: Lake, tmp_path: Path) -> None:
    """Rows without an id belong to the same series as those with one, and the table says that there are some."""
    put_metrics(lake, "checkout")
    put_metrics(lake, "checkout", keeps_ids=False)
    put_metrics(lake, "payment", keeps_ids=False)
    indexer(lake, tmp_path).run()
    assert stored_series(lake) == expected_series(lake)
    rows = lake.table("metric_series").scan().to_arrow().to_pylist()
    services = {(row["service_name"], row["has_rows_without_id"]) for row in rows if row["organization_id"] == ACME}
    assert {("checkout", True), ("payment", True), ("cart", False)} <= services


def test_killed_before_the_commit(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends before its commit leaves nothing, and the next one does all of its work."""

    def fail(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(follower, "append_once", fail)
        with pytest.raises(KeyboardInterrupt):
            indexer(lake, tmp_path).run()
    assert stored_series(lake) == {}
    SeriesIndexer(lake, SeriesConfig(), documents_in(tmp_path), steal=True).run()
    assert stored_series(lake) == expected_series(lake)


def test_rewrites_are_not_read(lake: Lake, tmp_path: Path) -> None:
    """A commit that adds no rows moves the position without reading a file."""
    series = indexer(lake, tmp_path)
    series.run()
    table = lake.table("metrics")
    append_once(table, [], batch_id="empty", operation="test")
    before = stored_series(lake)
    assert series.update("metric_series").files == 0
    last = lake.table("metrics").current_snapshot()
    assert last is not None
    assert SourcePosition.load(lake.table("metric_series"), SERIES) == SourcePosition(
        last.snapshot_id, last.sequence_number or 0, str(table.metadata.table_uuid)
    )
    assert stored_series(lake) == before


def test_streams(lake: Lake, tmp_path: Path) -> None:
    """A stream has the attributes that are its labels alone."""
    wire = logs("hello").SerializeToString()
    rows = pa.Table.from_batches([decode(Signal.LOGS, [wire], Intake(ACME, NOW)).batch])
    place = rows.schema.get_field_index("resource_attrs")
    maps = pa.array([[("service.name", "cart"), ("host.name", "h"), ("k8s.pod.name", "p")]], rows.schema.types[place])
    rows = rows.set_column(place, rows.schema.field(place), maps)
    rows = rows.set_column(
        rows.schema.get_field_index("stream_id"), rows.schema.field("stream_id"), pa.nulls(1, pa.int64())
    )
    table = lake.table("logs")
    append_once(table, write_files(Target.of(table), rows), batch_id="one more", operation="test")
    indexer(lake, tmp_path).update("log_streams")
    found = [dict(row["resource_attrs"]) for row in lake.table("log_streams").scan().to_arrow().to_pylist()]
    assert {"service.name": "cart", "k8s.pod.name": "p"} in found


def test_days_are_apart(lake: Lake, tmp_path: Path) -> None:
    """A series with points on two days has two rows."""
    wire = message(all_metrics(), "cart").SerializeToString()
    batch = decode(Signal.METRICS, [wire], Intake(ACME, NOW)).batch
    rows = pa.Table.from_batches([batch])
    day = 86_400_000_000
    moved = pa.compute.add(rows.column("timestamp").cast(pa.int64()), day).cast(rows.schema.field("timestamp").type)
    rows = rows.set_column(1, rows.schema.field(1), moved)
    table = lake.table("metrics")
    append_once(table, write_files(Target.of(table), rows), batch_id="next day", operation="test")
    indexer(lake, tmp_path).update("metric_series")
    rows = lake.table("metric_series").scan().to_arrow()
    first, second = sorted(row["timestamp"] for row in rows.to_pylist() if row["metric_name"] == "memory")
    assert (second - first).days == 1
