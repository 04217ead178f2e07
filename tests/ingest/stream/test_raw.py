"""From the raw zone into the tables, once."""

from __future__ import annotations

import gzip
import shutil
import threading
import time
from typing import TYPE_CHECKING

import pytest
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from neve.errors import EnvironmentFault
from neve.ingest import batch_writer
from neve.ingest.batch_writer import Publisher
from neve.ingest.config import IngestConfig
from neve.ingest.stream.raw_zone import RawFeed, RawStream, select_batch
from neve.ingest.stream.segment_job import SegmentJob
from neve.ingest.stream.writer import StreamWriter, read_positions
from neve.lake.commit.append import append_once
from neve.lake.lake import Lake
from neve.model.commits import REPEATS
from neve.raw.frame import Kind, Packing
from neve.raw.segments import Segment
from tests.ingest.stream.frames import frame, raw_config, receive, zone_of
from tests.receive.doubles import field
from tests.telemetry import logs, metrics, traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.ingest.results import StreamResult
    from neve.ingest.stream.job import StartEngine
    from neve.raw.config import RawConfig


def run(lake: Lake, folder: Path, raw: RawConfig, **settings: object) -> StreamResult:
    """Take in all that is in the zone."""
    return job_of(lake, folder, raw, **settings).run(until_caught_up=True)


def job_of(lake: Lake, folder: Path, raw: RawConfig, **settings: object) -> SegmentJob:
    """What takes the zone in."""
    config = IngestConfig.model_validate({"checkpoints": str(folder / "checkpoints"), **settings})
    writer = StreamWriter("raw", Publisher(lake, config, "ingest-stream"))
    stream = RawStream(writer, RawFeed(zone_of(raw), config.batch_bytes, raw.keep_seconds))
    return SegmentJob(lake, config, "raw", stream)


def count(lake: Lake, table: str) -> int:
    """How many rows a table has."""
    return int(lake.table(table).scan().count())


def _lines(line: LogRecord, times: int) -> bytes:
    """A message that holds a line so many times."""
    group = ResourceLogs(scope_logs=[ScopeLogs(log_records=[line] * times)])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()


def test_what_was_received_is_in_the_tables(spark_lake: Lake, tmp_path: Path) -> None:
    """Every signal, every packing, of several writers and organizations, in one commit a table with its positions."""
    raw = raw_config(tmp_path)
    receive(
        raw,
        [frame(Kind.TRACES, traces(5)), frame(Kind.LOGS, gzip.compress(logs(4)), packing=Packing.GZIP)],
        [
            frame(Kind.METRICS, zstandard.compress(metrics(3)), packing=Packing.ZSTD),
            frame(Kind.TRACES, traces(2, first=50), "umbrella"),
        ],
    )
    result = run(spark_lake, tmp_path, raw)
    assert result.records == {"traces": 7, "logs": 4, "metrics": 3}
    assert (count(spark_lake, "spans"), count(spark_lake, "logs"), count(spark_lake, "metrics")) == (7, 4, 3)
    writers = {segment.writer for segment in zone_of(raw).segments()}
    assert read_positions(spark_lake.table("spans"), "raw") == dict.fromkeys(writers, 1)
    assert zone_of(raw).backlog() == []
    again = run(spark_lake, tmp_path, raw)
    assert (again.batches, count(spark_lake, "spans")) == (0, 7)


def test_a_message_over_its_bounds_costs_itself_only(spark_lake: Lake, tmp_path: Path) -> None:
    """It is quarantined undecoded, with the bound; what came beside it is in the tables."""
    raw = raw_config(tmp_path)
    scopes = field(1, b"\x12\x00" * 500)  # two bytes each; a decoder makes hundreds of each
    receive(raw, [frame(Kind.LOGS, logs(2)), frame(Kind.LOGS, gzip.compress(logs(1) + scopes), packing=Packing.GZIP)])
    assert run(spark_lake, tmp_path, raw, max_groups=500).records == {"logs": 2}
    [row] = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert (row["reason"], row["payload"], row["position"]) == ("overgrown_message", logs(1) + scopes, 1)
    assert row["detail"].endswith("more than 500 groups (resources, scopes and metrics) (ingest.max_groups)")


def test_a_lost_checkpoint_doubles_nothing(spark_lake: Lake, tmp_path: Path) -> None:
    """Without Spark's own memory everything is read again, and the tables say that they have it."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.TRACES, traces(5)), frame(Kind.TRACES, b"\xff\xff")])
    run(spark_lake, tmp_path, raw)
    shutil.rmtree(tmp_path / "checkpoints")
    receive(raw, [frame(Kind.LOGS, logs(2))])
    result = run(spark_lake, tmp_path, raw, deduplicate_seconds=0)
    assert result.replayed == 2
    assert (count(spark_lake, "spans"), count(spark_lake, "logs"), count(spark_lake, "quarantine")) == (5, 2, 1)


def test_a_resend_is_one_record(spark_lake: Lake, tmp_path: Path) -> None:
    """The same export twice in a batch, and again in a later one, is written once; others beside it are kept."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.TRACES, traces(5)), frame(Kind.TRACES, traces(5)), frame(Kind.LOGS, logs(4))])
    first = run(spark_lake, tmp_path, raw)
    assert (first.records, first.duplicates) == ({"traces": 5, "logs": 4}, {"traces": 5})
    receive(raw, [frame(Kind.TRACES, traces(8)), frame(Kind.LOGS, logs(4)), frame(Kind.LOGS, logs(4), "umbrella")])
    second = run(spark_lake, tmp_path, raw)
    assert (second.records, second.duplicates) == ({"traces": 3, "logs": 4}, {"traces": 5, "logs": 4})
    assert (count(spark_lake, "spans"), count(spark_lake, "logs")) == (8, 8)
    summary = spark_lake.table("spans").current_snapshot().summary.additional_properties  # type: ignore[union-attr]
    assert (summary["neve.duplicates"], summary[REPEATS], count(spark_lake, "span_repeats")) == ("5", "5", 5)


def test_repeats_of_a_killed_batch_count_once(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch dies between the commits of its repeats and its spans; the next attempt has more segments."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.TRACES, traces(5))])
    run(spark_lake, tmp_path, raw)
    receive(raw, [frame(Kind.TRACES, traces(8))])
    with monkeypatch.context() as patch:
        patch.setattr(batch_writer, "append_once", _die_after(append_once))
        with pytest.raises(Killed):
            run(spark_lake, tmp_path, raw)
    assert (count(spark_lake, "spans"), count(spark_lake, "span_repeats")) == (5, 5)
    receive(raw, [frame(Kind.TRACES, traces(1))])
    run(spark_lake, tmp_path, raw)
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    run(spark_lake, tmp_path, raw)
    summaries = [one.summary.additional_properties for one in spark_lake.table("spans").snapshots() if one.summary]
    counted = {summary["neve.batch-id"]: summary[REPEATS] for summary in summaries if REPEATS in summary}
    batches = spark_lake.table("span_repeats").scan().to_arrow().column("batch_id").to_pylist()
    assert list(counted.values()) == ["6"]
    assert sum(batch in counted for batch in batches) == 6
    assert count(spark_lake, "spans") == 8


class Killed(BaseException):
    """Stands for SIGKILL: nothing in Neve catches it."""


def _die_after(commit: Callable[..., object]) -> Callable[..., object]:
    def dying(*args: object, **kwargs: object) -> object:
        commit(*args, **kwargs)
        raise Killed

    return dying


def test_equal_lines_of_two_messages_are_rows_of_their_own(spark_lake: Lake, tmp_path: Path) -> None:
    """Three equal lines with whole seconds in two messages are three rows; either message, sent again, adds none."""
    raw = raw_config(tmp_path)
    second = time.time_ns() // 10**9 * 10**9
    one, two = (_lines(LogRecord(time_unix_nano=second, severity_text="ready"), count) for count in (1, 2))
    receive(raw, [frame(Kind.LOGS, two), frame(Kind.LOGS, one), frame(Kind.LOGS, one)])
    first = run(spark_lake, tmp_path, raw)
    assert (first.records, first.duplicates) == ({"logs": 3}, {"logs": 1})
    receive(raw, [frame(Kind.LOGS, one), frame(Kind.LOGS, two)])
    again = run(spark_lake, tmp_path, raw)
    assert (again.duplicates, count(spark_lake, "logs")) == ({"logs": 3}, 3)


@pytest.mark.long
def test_records_without_a_time_are_never_taken_for_resends(spark_lake: Lake, tmp_path: Path) -> None:
    """A line that says the same again and again, from a sender without a clock, is so many records."""
    raw = raw_config(tmp_path)
    tick = _lines(LogRecord(severity_text="tick"), 1)
    receive(raw, [frame(Kind.LOGS, tick)] * 3)
    assert run(spark_lake, tmp_path, raw).records == {"logs": 3}
    receive(raw, [frame(Kind.LOGS, tick)])
    assert run(spark_lake, tmp_path, raw).records == {"logs": 1}
    assert count(spark_lake, "logs") == 4


def test_a_stream_without_data_is_healthy_and_needs_no_spark(lake: Lake, tmp_path: Path) -> None:
    """It reports so after its first look at the zone."""
    job = job_of(lake, tmp_path, raw_config(tmp_path), commit_seconds=1)
    late = threading.Timer(600, job.stop)
    late.start()
    said: list[str] = []

    def well() -> None:
        said.append("well")
        job.stop()

    assert (job.run(well=well).batches, said) == (0, ["well"])
    late.cancel()
    assert "_session" not in vars(lake)


def test_a_run_that_has_caught_up_needs_no_spark(lake: Lake, tmp_path: Path) -> None:
    """The end of an idle service waits for nothing."""
    assert job_of(lake, tmp_path, raw_config(tmp_path)).run(until_caught_up=True).batches == 0
    assert "_session" not in vars(lake)


def test_new_tables_get_all_segments_of_the_zone(lake: Lake, tmp_path: Path) -> None:
    """Positions of other tables do not count, unless a checkpoint shows that the stream ran on these tables."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.LOGS, logs(2))], [frame(Kind.LOGS, logs(2))])
    zone = zone_of(raw)
    everything = dict.fromkeys((segment.writer for segment in zone.segments()), 1)
    for anew, expected in ((True, 2), (False, 0)):
        zone.mark_consumed(everything)
        feed = RawFeed(zone, 10**6, 0)
        feed.open(anew=anew)
        assert len(feed.find()) == expected


@pytest.mark.parametrize("earlier", [False, True])
def test_a_checkpoint_shows_that_a_stream_has_run(lake: Lake, tmp_path: Path, earlier: bool) -> None:
    """Also that of an earlier release, in which Spark ran the stream."""
    opened: list[bool] = []

    class Idle:
        def open(self, *, anew: bool) -> None:
            opened.append(anew)

        def find(self) -> list[Segment]:
            return []

        def ingest(self, segments: list[Segment]) -> None:
            pytest.fail(f"took {segments}")

        def retry(self, _start_engine: StartEngine) -> None:
            return None

        def caught_up(self) -> bool:
            return True

    config = IngestConfig.model_validate({"checkpoints": str(tmp_path / "checkpoints")})
    if earlier:
        folder = tmp_path / "checkpoints" / f"raw-{lake.table('spans').metadata.table_uuid}"
        folder.mkdir(parents=True)
        (folder / "metadata").write_text('{"id":"1"}')
    for _run in range(2):
        SegmentJob(lake, config, "raw", Idle()).run(until_caught_up=True)
    assert opened == [not earlier, False]


class Postponing:
    """A stream without segments and with postponed work, whose job is stopped at one of its steps."""

    job: SegmentJob

    def __init__(self, stopped_by: str) -> None:
        self.stopped_by = stopped_by
        self.engine: list[bool] = []

    def open(self, *, anew: bool) -> None:
        """Nothing to prepare."""

    def find(self) -> list[Segment]:
        """Return no segments."""
        if self.stopped_by == "find":
            self.job.stop()
        return []

    def ingest(self, segments: list[Segment]) -> None:
        """Never called."""

    def retry(self, start_engine: StartEngine) -> None:
        """Start Spark for the postponed work."""
        self.engine.append(start_engine())

    def caught_up(self) -> bool:
        """Return true."""
        return True


@pytest.mark.parametrize("until_caught_up", [False, True])
@pytest.mark.parametrize(("stopped_by", "engine"), [("find", []), ("start", [False])])
def test_a_stop_does_not_wait_for_a_retry_that_needs_spark(
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stopped_by: str,
    engine: list[bool],
    until_caught_up: bool,
) -> None:
    """Postponed work is not begun after a stop, and Spark starts for it in a thread of its own."""
    stream, let_go = Postponing(stopped_by), threading.Event()
    config = IngestConfig.model_validate({"checkpoints": str(tmp_path / "checkpoints")})
    stream.job = SegmentJob(lake, config, "raw", stream)

    def start(_lake: Lake) -> object:
        stream.job.stop()
        let_go.wait(60)
        return object()

    monkeypatch.setattr("neve.ingest.stream.job.has_spark_started", lambda: False)
    monkeypatch.setattr(Lake, "spark", property(start))
    stream.job.run(until_caught_up=until_caught_up)
    assert stream.engine == engine
    let_go.set()


def test_a_batch_has_whole_segments_and_at_least_one() -> None:
    """The limit of a batch is that of its sum; a larger segment comes alone."""
    backlog = [Segment("a", number, f"a/{number}", size) for number, size in enumerate((50, 10, 10, 10, 5))]
    taken = []
    while backlog:
        batch = select_batch(backlog, 20)
        taken.append([segment.size for segment in batch])
        backlog = backlog[len(batch) :]
    assert taken == [[50], [10, 10], [10, 5]]


def test_writers_take_turns() -> None:
    """A writer with a large backlog does not delay the others, and each writer's segments stay in order."""
    backlog = [Segment(writer, number, "", 10) for writer, most in (("a", 9), ("b", 2)) for number in range(most)]
    assert [(one.writer, one.number) for one in select_batch(backlog, 50)] == [
        *(("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2)),
    ]


def test_a_stop_does_not_wait_for_the_start_of_spark(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segments stay in the zone for the next run."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.LOGS, logs(2))])
    job, let_go = job_of(lake, tmp_path, raw), threading.Event()

    def start(_lake: Lake) -> object:
        job.stop()
        let_go.wait(60)
        return object()

    monkeypatch.setattr("neve.ingest.stream.job.has_spark_started", lambda: False)
    monkeypatch.setattr(Lake, "spark", property(start))
    assert job.run().batches == 0
    assert len(zone_of(raw).backlog()) == 1
    let_go.set()


def test_a_spark_that_does_not_start_fails_the_stream(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its reason; the batch is tried again."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.LOGS, logs(2))])

    def start(_lake: Lake) -> object:
        raise EnvironmentFault("no Java was found")

    monkeypatch.setattr("neve.ingest.stream.job.has_spark_started", lambda: False)
    monkeypatch.setattr(Lake, "spark", property(start))
    with pytest.raises(EnvironmentFault, match="no Java was found"):
        job_of(lake, tmp_path, raw).run()
    assert len(zone_of(raw).backlog()) == 1
