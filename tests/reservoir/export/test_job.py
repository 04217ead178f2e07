"""`otap export` as a job on Spark: valid OTAP comes of it, once, and the lake's rows come back from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from neve.errors import ConfigError
from neve.ingest.config import IngestConfig
from neve.ingest.files.job import FileRequest, ingest_files
from neve.ingest.otap_import import ingest_otap
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otap.check import check_folder
from neve.otap.tables import STARS
from neve.reservoir.otap import export as plan
from neve.reservoir.otap import export_task
from neve.reservoir.otap.export import ExportFolder, ExportMarker, ExportResult, export_otap
from neve.reservoir.otap.export_task import ExportRequest
from tests.telemetry import MAKERS, NOW, SECOND, decoded, logs, resource, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake

LATEST = datetime.fromtimestamp(NOW / SECOND, UTC)


def put(lake: Lake, signal: Signal, count: int, *, service: str = "cart", org: str = "acme") -> None:
    """Commit some rows."""
    table = lake.table("logs" if signal is Signal.LOGS else "spans")
    rows = decoded(signal, MAKERS[signal](count, service=service), organization_id=org).batch
    append_once(
        table, write_files(Target.of(table), pa.Table.from_batches([rows])), batch_id=f"{service}{org}", operation="t"
    )


def export(lake: Lake, folder: Path, table: str = "logs", **times: datetime) -> ExportResult:
    """Export into a folder."""
    return export_otap(lake, ExportRequest(str(folder), table, "acme", **times))


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def rows(lake: Lake, table: str) -> list[dict[str, Any]]:
    """The rows of a table without the time of ingestion, in the order of their ids."""
    found = lake.table(table).scan().to_arrow().drop_columns(["ingested_at"]).to_pylist()
    return sorted(found, key=lambda row: bytes(row["record_id"]))


@pytest.mark.parametrize(("signal", "table"), [(Signal.LOGS, "logs"), (Signal.TRACES, "spans")])
def test_an_export_is_valid_and_comes_back(
    spark_lake: Lake, make_lake: Callable[..., Lake], tmp_path: Path, signal: Signal, table: str
) -> None:
    """Another lake that takes the folder in has the organization's rows, all the same, under the same record ids."""
    put(spark_lake, signal, 7)
    put(spark_lake, signal, 4, service="shop")
    put(spark_lake, signal, 3, org="other")
    result = export(spark_lake, tmp_path / "out", table)
    assert (result.exported.rows[table], dict(+result.exported.losses)) == (11, {})
    report = check_folder(str(tmp_path / "out"), pafs.LocalFileSystem(), STARS[table])
    assert (report.is_valid, report.convention, report.rows[table]) == (True, "specification", 11)
    other = make_lake(tmp_path / "other")
    taken = ingest_otap(other, IngestConfig(), str(tmp_path / "out"), "acme")
    assert taken.ingested.records == {signal.value: 11}
    assert rows(other, table) == [row for row in rows(spark_lake, table) if row["organization_id"] == "acme"]


def test_records_keep_their_ids_whatever_order_their_attributes_had(spark_lake: Lake, tmp_path: Path) -> None:
    """OTAP sorts attributes, and an id hashes their order; so an export that comes back is known record by record."""
    attributes = [text("z", "1"), text("a", "2")]
    records = [LogRecord(time_unix_nano=NOW - n, attributes=attributes) for n in range(5)]
    group = ResourceLogs(resource=resource("cart"), scope_logs=[ScopeLogs(log_records=records)])
    (tmp_path / "logs.binpb").write_bytes(ExportLogsServiceRequest(resource_logs=[group]).SerializeToString())
    ingest_files(spark_lake, IngestConfig(), FileRequest((str(tmp_path / "logs.binpb"),), "acme"))
    export(spark_lake, tmp_path / "out")
    back = ingest_otap(spark_lake, IngestConfig(), str(tmp_path / "out"), "acme").ingested
    assert (back.files, back.records, back.duplicates) == (1, {}, {"logs": 5})
    assert len(rows(spark_lake, "logs")) == 5


def test_the_same_export_again_writes_nothing(spark_lake: Lake, tmp_path: Path) -> None:
    """Neither does it touch a file; a killed run is begun anew, and leaves the same files under the same names."""
    put(spark_lake, Signal.LOGS, 9)
    first = export(spark_lake, tmp_path / "out")
    before = content(tmp_path / "out")
    again = export(spark_lake, tmp_path / "out")
    assert (again.unchanged, again.exported) == (True, first.exported)
    place = ExportFolder(first.request, spark_lake.s3)
    found = place.read()
    assert found is not None
    place.write(ExportMarker("of a plan that was never finished", found.tasks))
    redone = export(spark_lake, tmp_path / "out")
    assert (redone.unchanged, redone.replaced, content(tmp_path / "out")) == (False, True, before)


def test_rows_that_came_later_are_exported_by_the_next_run(spark_lake: Lake, tmp_path: Path) -> None:
    """The folder then holds what the lake holds: the earlier part is replaced, not added to."""
    put(spark_lake, Signal.LOGS, 5)
    export(spark_lake, tmp_path / "out")
    put(spark_lake, Signal.LOGS, 4, service="late")
    result = export(spark_lake, tmp_path / "out")
    report = check_folder(str(tmp_path / "out"), pafs.LocalFileSystem(), STARS["logs"])
    assert (result.replaced, result.exported.rows["logs"], report.rows["logs"]) == (True, 9, 9)


def test_only_the_rows_of_the_time_are_exported(spark_lake: Lake, tmp_path: Path) -> None:
    """From the first moment on, before the last; logs are a second apart."""
    put(spark_lake, Signal.LOGS, 10)
    since, until = LATEST - timedelta(seconds=6), LATEST - timedelta(seconds=2)
    assert export(spark_lake, tmp_path / "out", since=since, until=until).exported.rows["logs"] == 4
    empty = export(spark_lake, tmp_path / "none", since=LATEST + timedelta(days=1))
    assert (empty.exported.rows["logs"], empty.exported.parts) == (0, [])
    with pytest.raises(ConfigError, match="is not before"):
        ExportRequest("out", "logs", "acme", until, since)


def test_many_files_become_parts_and_files_of_bounded_size(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task for each lot of files; a part with too many resources is followed by another."""
    monkeypatch.setattr(plan, "TASK_BYTES", 1)
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / f"in/logs-{number}.binpb").write_bytes(logs(6, first=6 * number, service=f"s{number}"))
        request = FileRequest((str(tmp_path / f"in/logs-{number}.binpb"),), "acme")
        ingest_files(spark_lake, IngestConfig(), request)
    result = export(spark_lake, tmp_path / "out")
    assert len(result.exported.parts) == 2
    assert check_folder(str(tmp_path / "out"), pafs.LocalFileSystem(), STARS["logs"]).is_valid


def test_a_full_part_is_followed_by_another(tmp_path: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of resources have 16 bits; here as if they had one. Files of a part continue its ids."""
    monkeypatch.setattr("neve.otap.from_lake.MAX_SHARED", 2)
    monkeypatch.setattr(export_task, "FILE_ROWS", 3)
    writer = export_task.PartWriter(ExportRequest(str(tmp_path / "out"), "spans", "acme"), lake.s3, 0)
    for number in range(5):
        writer.take(decoded(Signal.TRACES, MAKERS[Signal.TRACES](2, service=f"s{number}", first=2 * number)).batch)
    done = writer.finish()
    assert (len(done.parts), done.rows["spans"]) == (3, 10)
    report = check_folder(str(tmp_path / "out"), pafs.LocalFileSystem(), STARS["spans"])
    assert (report.is_valid, report.rows["span_attrs"], report.rows["resource_attrs"]) == (True, 10, 5)
