"""`ingest files` as a job on Spark: everything arrives, once, and what can't is kept with its reason."""

from __future__ import annotations

import gzip
import shutil
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.ingest.config import IngestConfig
from neve.ingest.files.job import FileRequest, ingest_files
from neve.ingest.files.reader import ReadOptions
from neve.model.commits import BATCH_ID, DUPLICATES, RECORDS, SOURCE_FILES
from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.telemetry import NOW, SECOND, logs, metrics, traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.ingest.results import IngestResult
    from neve.lake.lake import Lake


def ingest(lake: Lake, *paths: Path, org: str = "acme", config: IngestConfig | None = None) -> IngestResult:
    """Take files in."""
    return ingest_files(lake, config or IngestConfig(), FileRequest(tuple(map(str, paths)), org))


def count(lake: Lake, table: str) -> int:
    """How many rows a table has."""
    return int(lake.table(table).scan().to_arrow().num_rows)


def write_mixed(folder: Path) -> None:
    """Files of every signal in several formats."""
    (folder / "traces").mkdir(parents=True)
    (folder / "traces/a.binpb").write_bytes(traces(4))
    (folder / "traces/b.binpb.gz").write_bytes(gzip.compress(traces(3, first=4)))
    (folder / "logs.json").write_text("\n".join(to_json(Signal.LOGS, logs(2, first=n)) for n in (0, 2)))
    (folder / "logs.csv").write_text("timestamp,message\n1700000000,hello\n")
    with pa.output_stream(str(folder / "metrics.pb.zst"), compression="zstd") as stream:
        stream.write(metrics(5))
    (folder / "notes.txt").write_text("not telemetry")


def test_every_signal_and_format_arrives_in_one_commit_a_table(spark_lake: Lake, tmp_path: Path) -> None:
    """The snapshot summaries tell which batch it was, how many records of the table, and of how many files."""
    write_mixed(tmp_path / "in")
    result = ingest(spark_lake, tmp_path / "in")
    assert result.records == {"traces": 7, "logs": 5, "metrics": 5}
    assert (result.files, result.rejected, len(result.ignored)) == (5, {}, 1)
    assert [count(spark_lake, name) for name in ("spans", "logs", "metrics")] == [7, 5, 5]
    for name, records in (("spans", "7"), ("logs", "5"), ("metrics", "5")):
        [snapshot] = spark_lake.table(name).metadata.snapshots
        assert snapshot.summary is not None
        keys = snapshot.summary.additional_properties
        found = (keys[BATCH_ID], keys[RECORDS], keys[DUPLICATES], keys[SOURCE_FILES])
        assert found == (result.batches[0], records, "0", "5")


def test_the_same_files_again_add_nothing(spark_lake: Lake, tmp_path: Path) -> None:
    """Neither the same command, nor a copy under another name, nor a touched file is taken in twice."""
    write_mixed(tmp_path / "in")
    ingest(spark_lake, tmp_path / "in")
    again = ingest(spark_lake, tmp_path / "in")
    assert (again.files, again.total_records, len(again.skipped)) == (0, 0, 5)
    shutil.copy(tmp_path / "in/traces/a.binpb", tmp_path / "in/traces/renamed.binpb")
    (tmp_path / "in/traces/b.binpb.gz").touch()
    copied = ingest(spark_lake, tmp_path / "in")
    assert (copied.files, {file.reason for file in copied.skipped}) == (
        0,
        {"it was ingested before", "its content was ingested before"},
    )
    assert count(spark_lake, "spans") == 7


def test_two_copies_in_one_run_are_one(spark_lake: Lake, tmp_path: Path) -> None:
    """The second copy is named with the first."""
    for name in ("traces-1.binpb", "traces-2.binpb"):
        (tmp_path / name).write_bytes(traces(3))
    result = ingest(spark_lake, tmp_path / "traces-1.binpb", tmp_path / "traces-2.binpb")
    assert (result.files, count(spark_lake, "spans")) == (1, 3)
    assert "same content as" in result.skipped[0].reason


def test_another_organization_may_have_the_same_file(spark_lake: Lake, tmp_path: Path) -> None:
    """Memory of files is the organization's own, and so are the rows."""
    (tmp_path / "traces.binpb").write_bytes(traces(3))
    ingest(spark_lake, tmp_path / "traces.binpb", org="acme")
    assert ingest(spark_lake, tmp_path / "traces.binpb", org="other").records == {"traces": 3}
    owners = spark_lake.table("spans").scan().to_arrow().column("organization_id").to_pylist()
    assert sorted(owners) == ["acme"] * 3 + ["other"] * 3


def test_bad_files_go_to_quarantine_and_the_rest_goes_on(spark_lake: Lake, tmp_path: Path) -> None:
    """Each keeps its bytes, its source and its reason."""
    whole = gzip.compress(logs(50))
    bad = {
        "logs-cut.binpb.gz": whole[: len(whole) // 2],
        "traces-noise.binpb": b"\xff\xff\xff",
        "metrics.parquet": b"PAR1 not really",
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "traces.binpb").write_bytes(traces(3))
    result = ingest(spark_lake, tmp_path)
    assert result.records == {"traces": 3}
    assert result.rejected == {"unreadable_file": 2, "malformed_message": 1}
    rows = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert {row["source"].rsplit("/", 1)[-1]: row["payload"] for row in rows} == bad
    assert all(row["detail"] and row["batch_id"] == result.batches[0] for row in rows)


def test_a_file_of_unknown_signal_waits_until_the_user_says_it(spark_lake: Lake, tmp_path: Path) -> None:
    """It is named with what to do, not remembered as done, and taken in when the same file comes with --signal."""
    (tmp_path / "unclear.csv").write_text("timestamp,message\n1700000000,hello\n")
    result = ingest(spark_lake, tmp_path / "unclear.csv")
    assert (result.files, result.rejected) == (0, {})
    assert "pass --signal" in result.lost[0].reason
    request = FileRequest((str(tmp_path / "unclear.csv"),), "acme", ReadOptions(signal=Signal.LOGS))
    assert ingest_files(spark_lake, IngestConfig(), request).records == {"logs": 1}


def test_bad_records_go_to_quarantine_with_their_place(spark_lake: Lake, tmp_path: Path) -> None:
    """A record from the far future is refused while its neighbours are kept."""
    lines = [to_json(Signal.LOGS, logs(1)), to_json(Signal.LOGS, logs(1)).replace(str(NOW), str(NOW + 10**18))]
    (tmp_path / "logs.json").write_text("\n".join(lines))
    result = ingest(spark_lake, tmp_path / "logs.json", config=IngestConfig(max_future_seconds=3600))
    assert (result.records, result.rejected) == ({"logs": 1}, {"timestamp_in_future": 1})
    [row] = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert (row["signal"], row["position"], row["encoding"]) == ("logs", 1, "otlp_proto")


def test_a_quarantined_payload_can_be_taken_in_again(spark_lake: Lake, tmp_path: Path) -> None:
    """What was refused for its time is a whole message: with another limit it is accepted as it is."""
    soon = str(time.time_ns() + 3600 * SECOND)
    (tmp_path / "traces.json").write_text(to_json(Signal.TRACES, traces(1)).replace(str(NOW), soon))
    refused = ingest(spark_lake, tmp_path / "traces.json", config=IngestConfig(max_future_seconds=0))
    assert refused.rejected == {"timestamp_in_future": 1}
    [row] = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    (tmp_path / "traces-again.binpb").write_bytes(row["payload"])
    again = ingest(spark_lake, tmp_path / "traces-again.binpb", config=IngestConfig(max_future_seconds=7200))
    assert again.records == {"traces": 1}


def test_the_lake_is_not_its_own_source(spark_lake: Lake, tmp_path: Path) -> None:
    """A folder that holds the warehouse too gives only what is beside it."""
    (tmp_path / "traces.binpb").write_bytes(traces(3))
    assert ingest(spark_lake, tmp_path).files == 1
    assert ingest(spark_lake, tmp_path).files == 0


def test_many_small_tasks_give_the_same_rows(spark_lake: Lake, tmp_path: Path) -> None:
    """How the work is cut does not matter: small tasks, small batches and small buffers lose nothing."""
    for number in range(12):
        (tmp_path / f"traces-{number:02}.binpb").write_bytes(traces(5, first=number * 5))
    config = IngestConfig(task_bytes=1024, batch_bytes=2048, flush_bytes=1024 * 1024)
    result = ingest(spark_lake, tmp_path, config=config)
    assert len(result.batches) > 1
    names = spark_lake.table("spans").scan().to_arrow().column("operation_name").to_pylist()
    assert sorted(names) == sorted(f"op-{number}" for number in range(60))


def test_rows_are_partitioned_sorted_and_bounded(spark_lake: Lake, tmp_path: Path) -> None:
    """Spark prunes by the day, the bucket and the bounds that the lane wrote."""
    (tmp_path / "traces.binpb").write_bytes(traces(300))
    ingest(spark_lake, tmp_path / "traces.binpb")
    spark, name = spark_lake.spark, spark_lake.spark_name("spans")
    files = spark.sql(f"SELECT partition, sort_order_id FROM {name}.files").collect()
    assert {row.sort_order_id for row in files} == {1}
    assert {row.partition.organization_id for row in files} == {"acme"}
    trace_id = (7).to_bytes(16, "big").hex().upper()
    found = spark.sql(f"SELECT _file FROM {name} WHERE trace_id = X'{trace_id}'")
    assert len(found.collect()) == 1
    cutoff = (NOW - 200 * 60 * SECOND) // 10**9
    late = spark.sql(f"SELECT count(*) AS n FROM {name} WHERE timestamp > timestamp_seconds({cutoff})").first()
    assert late is not None
    assert late.n == 200
