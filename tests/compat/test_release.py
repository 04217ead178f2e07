"""Formats are unchanged: rows, positions, raw segments, keys, jobs and policies of an earlier release are read."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.app.settings import Settings, load_settings
from neve.app.wiring import build_documents, build_lake, build_policy_store, build_state
from neve.jobs.job import JobState, Task
from neve.jobs.pauses import Pauses
from neve.jobs.queue import JobQueue
from neve.lake.commit.append import append_once
from neve.lake.tables import AddColumn, SetComment, SetProperty, find_pending_changes, init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import POSITIONS
from neve.model.properties import METRICS_PREFIX
from neve.model.recorded import RECORDED
from neve.model.series_tables import LOG_STREAMS, METRIC_SERIES
from neve.model.signals import NAMESPACE, Signal
from neve.model.tables import SPAN_REPEATS, TABLES
from neve.otlp import Intake
from neve.otlp import decode as decode_records
from neve.raw.frame import decode
from neve.raw.zone import RawZone
from neve.state.keys import Keys
from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from neve.tail.span_order import REMARK
from tests.compat.release import ARCHIVES, PLACE, Release, digest_rows, extract, read_long, write_long
from tests.receive.doubles import span, traces_of
from tests.tail.judged import FAR, Spans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from neve.lake.lake import Lake
    from neve.state.documents import Documents

NAME = "v0.1"
SENT = 40  # records of each signal in a message: one was ingested, one waits in a sealed segment, one in an open one
MOST_BYTES = 500_000
WITH_SPANS = ("spans", "sampled_spans", "spans_sample")
ADDED = {
    **dict.fromkeys(WITH_SPANS, ("arrival_order", "dropped_repeats")),
    **dict.fromkeys(("logs", "logs_sample"), ("stream_id",)),
    "metrics": ("series_id",),
}
NEW_TABLES = {
    SPAN_REPEATS.name,
    METRIC_SERIES.name,
    LOG_STREAMS.name,
    RECORDED.name,
    "audit",
    "log_volumes",
    "service_edges",
    "trace_summaries",
}
POLICIES = read_policies(
    {"policies": [{"name": "quick", "type": "latency", "latency": {"threshold_ms": 1, "upper_threshold_ms": 100}}]},
    Semantics.OTELCOL,
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """What the release left, for tests that change nothing."""
    return extract(NAME, tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def settings(release: Release) -> Settings:
    """The settings of the release, as this one reads them."""
    return load_settings(str(release.config))


@pytest.fixture(scope="module")
def old_lake(settings: Settings) -> Lake:
    """The lake of the release."""
    return build_lake(settings)


@pytest.fixture(scope="module")
def documents(settings: Settings) -> Iterator[Documents]:
    """The documents of the release."""
    found = build_documents(settings)
    yield found
    found.close()


def test_the_fixture_is_small() -> None:
    """It is in the repository for good."""
    assert (ARCHIVES / f"{NAME}.tar.xz").stat().st_size < MOST_BYTES


@pytest.mark.slow
def test_the_rows_of_every_table_are_the_same(release: Release, old_lake: Lake) -> None:
    """Each table is read through this release's catalog, and has the rows that the earlier one wrote."""
    expected = release.expected["tables"]
    found = {name: old_lake.table(name.removeprefix(f"{NAMESPACE}.")).scan().to_arrow() for name in expected}
    assert {name: rows.num_rows for name, rows in found.items()} == {name: e["rows"] for name, e in expected.items()}
    assert {name: digest_rows(rows) for name, rows in found.items()} == {n: e["digest"] for n, e in expected.items()}
    filled = {name.removeprefix(f"{NAMESPACE}.") for name, rows in found.items() if rows.num_rows}
    assert {"spans", "logs", "metrics", "quarantine", "ingested_files", "metrics_1m", "trace_decisions"} <= filled


def test_tables_only_gain_columns(old_lake: Lake) -> None:
    """`neve init` creates some tables, and changes nothing but comments, columns and the statistics of these."""
    assert {table.name for table in TABLES} - set(old_lake.table_names()) == NEW_TABLES
    added: dict[str, tuple[str, ...]] = {}
    for name, changes in find_pending_changes(old_lake):
        others = [change for change in changes if not isinstance(change, SetComment)]
        properties = [change.name for change in others if isinstance(change, SetProperty)]
        assert properties == [METRICS_PREFIX + one for one in ADDED.get(name, ()) if properties]
        assert all(isinstance(change, AddColumn | SetProperty) for change in others)
        added[name] = tuple(".".join(change.path) for change in others if isinstance(change, AddColumn))
    assert {name: paths for name, paths in added.items() if paths} == ADDED


@pytest.mark.lake
def test_init_adds_columns_without_a_rewrite(release: Release, tmp_path: Path) -> None:
    """No file and no snapshot changes, and the rows are the same, with nulls in the new columns."""
    lake = build_lake(load_settings(str(extract(NAME, tmp_path).config)))
    before = {name: _list_files(lake, name) for name in lake.table_names()}
    init_tables(lake)
    assert not any(changes for _name, changes in find_pending_changes(lake))
    after = {name: _list_files(lake, name) for name in lake.table_names()}
    assert after == before | dict.fromkeys(NEW_TABLES, (None, []))
    assert before["spans"]
    for name, columns in ADDED.items():
        rows = lake.table(name).scan().to_arrow()
        assert all(rows.column(column).null_count == rows.num_rows for column in columns)
        assert (
            digest_rows(rows.drop_columns(list(columns))) == release.expected["tables"][f"{NAMESPACE}.{name}"]["digest"]
        )


@pytest.mark.lake
def test_decisions_on_old_spans_say_that_their_order_is_unknown(tmp_path: Path) -> None:
    """A trace with a span of the earlier release and one of this release; a trace of this release has an order."""
    lake = build_lake(load_settings(str(extract(NAME, tmp_path).config)))
    init_tables(lake)
    table = lake.table("spans")
    old = set(table.scan().to_arrow().column("trace_id").to_pylist())
    new = b"n" * 16
    sent = traces_of(*(_late_span(trace, number) for trace in (*old, new) for number in range(2)))
    decoded = decode_records(Signal.TRACES, [sent], Intake("acme", FAR))
    assert not decoded.rejected
    append_once(
        table, write_files(Target.of(table), pa.Table.from_batches([decoded.batch])), batch_id="b", operation="test"
    )
    spans = Spans([])
    spans.runs = [lake.table("spans").scan().to_arrow()]
    reasons = {trace: reason for trace, (_said, _policy, reason) in spans.explain(POLICIES).items()}
    assert {trace for trace, reason in reasons.items() if reason.endswith(REMARK)} == {one.hex() for one in old}
    assert new.hex() in reasons


def _list_files(lake: Lake, name: str) -> tuple[int | None, list[str]]:
    table = lake.table(name)
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None, sorted(task.file.file_path for task in table.scan().plan_files())


def _late_span(trace: bytes, number: int) -> Span:
    """A span that makes its trace longer than the upper bound of the policy."""
    return span(trace_id=trace, span_id=bytes([200 + number] * 8), end_time_unix_nano=1_770_000_000_000_000_000)


def test_positions_are_read_from_the_summaries(old_lake: Lake) -> None:
    """Streams and rollups go on from what their last commit says."""
    for name in ("spans", "logs", "metrics"):
        summaries = [one.summary for one in old_lake.table(name).metadata.snapshots if one.summary]
        assert any(POSITIONS in summary.additional_properties for summary in summaries), name


def test_keys_are_valid_or_revoked_as_they_were(release: Release, settings: Settings) -> None:
    """Hashes and scopes mean the same."""
    state = build_state(settings)
    caller = Keys(state).verify(release.expected["key"])
    assert caller is not None
    assert caller.organization == "acme"
    assert Keys(state).verify(release.expected["revoked"]) is None
    state.close()


def test_jobs_pauses_and_policies_are_read(release: Release, settings: Settings, documents: Documents) -> None:
    """The job waits, the pause holds, and the policies that were set are in force."""
    [job] = JobQueue(documents).list(states=[JobState.QUEUED])
    assert (job.id, job.task, job.table) == (release.expected["job"]["id"], Task.COMPACT, "logs")
    [pause] = Pauses(documents).list()
    assert (pause.task, pause.reason) == (Task.MAINTAIN, "migration")
    assert [policy.name for policy in build_policy_store(settings, documents).load().written] == ["quiet-spans"]


def test_raw_segments_are_read_sealed_and_open(tmp_path: Path) -> None:
    """The receiver that was killed left a segment that nobody sealed; both kinds hold the frames that were synced."""
    config = load_settings(str(extract(NAME, tmp_path).config))
    zone = RawZone.of(config.raw.location, config.s3, "otlp")
    sealed = {segment.path for segment in zone.segments()}
    assert len(zone.recover()) == 1
    waiting = zone.backlog()
    assert len(waiting) == 2
    assert len({segment.path for segment in waiting} - sealed) == 1
    assert [len(decode(zone.read(segment.path)).frames) for segment in waiting] == [3, 3]


@pytest.mark.e2e
def test_streams_go_on_from_their_position(release: Release, tmp_path: Path) -> None:
    """What waited in the raw zone is ingested once, and nothing that the tables had is there twice."""
    moved = extract(NAME, tmp_path)
    for _ in range(2):
        command = [sys.executable, "-m", "neve", "-c", str(moved.config), "ingest", "raw", "--available-now", "--json"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=moved.folder)
        assert done.returncode == 0, done.stderr
        lake = build_lake(load_settings(str(moved.config)))
        init_tables(lake)
        for name in ("spans", "logs", "metrics"):
            ids = lake.table(name).scan(selected_fields=("record_id",)).to_arrow().column(0)
            assert len(ids) == release.expected["tables"][f"{NAMESPACE}.{name}"]["rows"] + 2 * SENT, name
            assert len(ids.unique()) == len(ids), name


@given(st.integers(-(2**62), 2**62))
def test_numbers_of_avro_files_are_written_as_they_are_read(number: int) -> None:
    """Blocks get new sizes when they are packed again."""
    assert read_long(write_long(number), 0) == (number, len(write_long(number)))


def test_paths_are_moved_wherever_they_are(release: Release) -> None:
    """No file but those of rows names the place where the fixture was written."""
    old = str(PLACE).encode()
    for path in release.folder.rglob("*"):
        if path.is_file() and path.suffix != ".parquet":
            assert old not in path.read_bytes(), path.name
