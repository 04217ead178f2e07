"""Calls of storage are counted where they are made: on a disk, in object storage, by pyiceberg, in other processes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from neve.lake.config import PricesConfig, S3Config
from neve.lake.spark.tasks import run_tasks
from neve.lake.storage import call_counters
from neve.lake.storage.call_counters import BUCKETS, CallCounters, CallCounts, Operation, pack_result, unpack_result
from neve.lake.storage.filesystem import resolve_filesystem
from neve.lake.storage.metrics import StoreCollector, estimate_dollars
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import decode
from neve.raw.segments import LocalSink
from neve.raw.zone import RawZone
from tests.telemetry import INTAKE, logs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake
    from tests.parts.s3 import S3

GET, PUT, LIST, DELETE, HEAD = Operation
FILE = "file"


def seen() -> dict[tuple[str, str], tuple[int, int, int]]:
    """Calls, failures and bytes of each kind."""
    return {kind: (one.calls, one.failures, one.bytes) for kind, one in call_counters.CALLS.read().items()}


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Nothing is counted yet."""
    call_counters.CALLS.drain()


def test_files_of_a_disk_are_counted(tmp_path: Path) -> None:
    """One call each, with the bytes that were written, and those of what was opened."""
    files, folder = resolve_filesystem(str(tmp_path), S3Config())
    path = f"{folder}/a"
    with files.open_output_stream(path, compression=None) as stream:
        stream.write(b"x" * 60)
        stream.write(b"y" * 40)
    assert seen() == {(PUT, FILE): (1, 0, 100)}
    with files.open_input_file(path) as opened:
        assert len(opened.read()) == 100
    files.get_file_info(path)
    files.get_file_info(pafs.FileSelector(folder))
    files.move(path, f"{folder}/b")
    files.delete_file(f"{folder}/b")
    assert seen() == {
        (PUT, FILE): (2, 0, 100),
        (GET, FILE): (1, 0, 100),
        (HEAD, FILE): (1, 0, 0),
        (LIST, FILE): (1, 0, 0),
        (DELETE, FILE): (1, 0, 0),
    }


def test_what_is_not_there_is_no_failure_and_what_can_not_be_written_is(tmp_path: Path) -> None:
    """The first is an answer; errors stay what they were."""
    files, folder = resolve_filesystem(str(tmp_path), S3Config())
    with pytest.raises(FileNotFoundError):
        files.open_input_stream(f"{folder}/none")
    with pytest.raises(FileNotFoundError):
        files.open_output_stream(f"{folder}/no/folder")
    assert seen() == {(GET, FILE): (1, 0, 0), (PUT, FILE): (1, 1, 0)}


def test_the_end_of_a_file_may_fail() -> None:
    """A write that storage refuses at its end is a call that failed, and the writer is told."""
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full: there is no such device here")
    files, _ = resolve_filesystem("/dev", S3Config())
    with pytest.raises(OSError, match="No space left"), files.open_output_stream("/dev/full", compression=None) as out:
        out.write(b"x")
    [(kind, (calls, failures, _bytes))] = seen().items()
    assert (kind, calls, failures) == ((PUT, FILE), 1, 1)


def test_a_counted_file_system_is_the_one_that_it_counts_for(tmp_path: Path) -> None:
    """Its kind, its equals, Parquet through it, and a copy in another process."""
    files, folder = resolve_filesystem(str(tmp_path), S3Config())
    assert (files.type_name, isinstance(files, pafs.LocalFileSystem)) == ("local", True)
    assert files == pafs.LocalFileSystem()
    rows = pa.table({"n": list(range(10_000))})
    with files.open_output_stream(f"{folder}/rows.parquet", compression=None) as stream:
        pq.write_table(rows, stream)
    assert pq.read_table(f"{folder}/rows.parquet", filesystem=files).equals(rows)
    assert (tmp_path / "rows.parquet").stat().st_size == seen()[PUT, FILE][2]
    again = pickle.loads(pickle.dumps(files))  # noqa: S301 - our own
    again.get_file_info(folder)
    assert (type(again), seen()[HEAD, FILE][0] >= 1) == (type(files), True)


def test_tables_are_counted(make_lake: Callable[..., Lake]) -> None:
    """What pyiceberg reads and writes: metadata, manifests, data."""
    lake = make_lake()
    call_counters.CALLS.drain()
    table = lake.table("logs")
    assert seen()[GET, FILE][0] >= 1  # the table's metadata
    with table.io.new_output(f"{table.location()}/data/x").create() as stream:
        stream.write(b"123")
    assert seen()[PUT, FILE] == (1, 0, 3)
    assert len(table.io.new_input(f"{table.location()}/data/x")) == 3
    table.io.delete(f"{table.location()}/data/x")
    assert (seen()[DELETE, FILE], seen()[HEAD, FILE][0]) == ((1, 0, 0), 2)  # one before it was written
    with pytest.raises(FileNotFoundError):
        table.io.new_input(f"{table.location()}/data/x").open()


def test_data_files_are_counted_though_written_directly(make_lake: Callable[..., Lake]) -> None:
    """Their bytes are those of the file."""
    target = Target.of(make_lake().table("logs"))
    call_counters.CALLS.drain()
    [file] = write_files(target, pa.Table.from_batches([decode(Signal.LOGS, [logs(5)], INTAKE).batch]))
    assert seen()[PUT, FILE] == (1, 0, file.file_size_in_bytes)


def test_the_raw_zone_is_counted(tmp_path: Path) -> None:
    """Groups on a disk go around Arrow, and count all the same."""
    sink = LocalSink(tmp_path, segment_bytes=1, segment_seconds=1, min_free_bytes=0)
    sink.write([b"abc", b"de"])
    sink.close()
    assert seen()[PUT, FILE] == (1, 0, 5)
    zone = RawZone(str(tmp_path), S3Config())
    [segment] = zone.segments()
    read = zone.read(segment.path)
    assert (seen()[LIST, FILE][0], seen()[GET, FILE]) == (1, (1, 0, len(read)))


@pytest.mark.parts
def test_object_storage_is_counted(s3: S3) -> None:
    """By its scheme, with what it costs. A failed write is one request, with the bytes that it sent."""
    config = S3Config.model_validate(
        {"endpoint": s3.endpoint, "region": s3.region, "access_key": s3.access_key, "secret_key": s3.secret_key}
    )
    login = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    pafs.S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **login).create_dir("counted")
    files, inner = resolve_filesystem("s3://counted/a", config)
    files = pickle.loads(pickle.dumps(files))  # noqa: S301 - our own
    with files.open_output_stream(inner, compression=None) as stream:
        stream.write(b"x" * 10)
    with files.open_input_file(inner) as opened:
        opened.read()
    files.delete_file(inner)
    with (
        pytest.raises(OSError, match="counted-not"),
        files.open_output_stream("counted-not/a", compression=None) as stream,
    ):
        stream.write(b"x")
    assert (seen()[PUT, "s3"], seen()[GET, "s3"], seen()[DELETE, "s3"]) == ((2, 1, 11), (1, 0, 10), (1, 0, 0))
    assert estimate_dollars((PUT, "s3"), call_counters.CALLS.read()[PUT, "s3"], PricesConfig()) == pytest.approx(
        0.00001
    )


def test_a_workers_calls_come_with_its_result() -> None:
    """They are counted once, by whoever waited."""
    call_counters.CALLS.count((GET, FILE), 0.2, 5)
    data = pack_result({"rows": 3})
    assert seen() == {}
    assert unpack_result(data) == {"rows": 3}
    assert seen() == {(GET, FILE): (1, 0, 5)}


def test_spark_hands_the_calls_of_its_workers_on(spark: SparkSession, tmp_path: Path) -> None:
    """Those of every task."""

    def look(path: str) -> int:
        files, inner = resolve_filesystem(path, S3Config())
        return int(files.get_file_info(inner).size)

    (tmp_path / "a").write_bytes(b"123")
    assert run_tasks(spark, look, [str(tmp_path / "a")] * 3) == [3, 3, 3]
    assert seen()[HEAD, FILE][0] >= 3


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from(Operation), st.floats(0, 100), st.integers(0, 2**40), st.booleans())))
def test_prometheus_is_told_the_sums(made: list[tuple[Operation, float, int, bool]]) -> None:
    """Whatever the calls: as many in the buckets as there were, as many bytes, and no more in a process's half."""
    calls, others = CallCounters(), CallCounters()
    for number, (operation, seconds, size, failed) in enumerate(made):
        (others if number % 2 else calls).count((operation, "s3"), seconds, size, failed=failed)
    calls.add(others.drain())
    registry = CollectorRegistry()
    registry.register(StoreCollector(PricesConfig(), calls))

    def told(name: str, operation: Operation, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"operation": operation, "scheme": "s3", **labels})

    for operation in {operation for operation, *_ in made}:
        own = [one for one in made if one[0] is operation]
        assert told("neve_store_calls_total", operation) == told("neve_store_seconds_count", operation) == len(own)
        assert told("neve_store_bytes_total", operation) == sum(size for _, _, size, _ in own)
        assert told("neve_store_failures_total", operation) == sum(failed for *_, failed in own)
        assert told("neve_store_seconds_sum", operation) == pytest.approx(sum(seconds for _, seconds, *_ in own))
        quick = sum(seconds <= BUCKETS[4] for _, seconds, *_ in own)
        assert told("neve_store_seconds_bucket", operation, le=str(BUCKETS[4])) == quick
    assert generate_latest(registry)


def test_requests_cost_what_the_prices_say() -> None:
    """Nothing on a disk, and nothing for a removal."""
    prices = PricesConfig(put_per_1000=5, get_per_1000=1, list_per_1000=3)
    thousand = CallCounts(calls=1000)
    cost = {operation: estimate_dollars((operation, "s3"), thousand, prices) for operation in Operation}
    assert cost == {GET: 1, PUT: 5, LIST: 3, DELETE: 0, HEAD: 1}
    assert {estimate_dollars((operation, FILE), thousand, prices) for operation in Operation} == {0}
