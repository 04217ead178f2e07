"""The upkeep of trace summaries and the service map: runs, repetitions, conflicts, ends before a commit, commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import LakeError
from neve.lake import follower
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.traces.config import TracesConfig
from neve.traces.job import TraceAssembler
from tests.cli.conftest import elsewhere
from tests.cli.runner import run
from tests.compact.tables import documents_in
from tests.explore.traces import CHECKOUT, make_span, make_trace_lake, pack_spans
from tests.query.lakes import ACME, OTHER, fork_lake, put, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

__all__ = ["elsewhere"]

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A checkout of acme, and a trace of globex."""
    return make_trace_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Lake:
    """The same, to change."""
    return fork_lake(made, tmp_path)


def assembler(lake: Lake, folder: Path, *, steal: bool = False, **settings: Any) -> TraceAssembler:
    """The job as a new process would make it."""
    return TraceAssembler(lake, TracesConfig(threads=1, **settings), documents_in(folder), steal=steal)


def traces_of(lake: Lake) -> dict[tuple[str, bytes], int]:
    """Return the number of spans of each trace in the table."""
    rows = lake.table("trace_summaries").scan().to_arrow().to_pylist()
    return {(row["organization_id"], row["trace_id"]): row["span_count"] for row in rows}


def edges_of(lake: Lake) -> dict[tuple[str, str], int]:
    """Return the calls of each edge of acme."""
    rows = lake.table("service_edges").scan().to_arrow().to_pylist()
    return {(row["client"], row["server"]): row["calls"] for row in rows if row["organization_id"] == ACME}


def test_runs(lake: Lake, tmp_path: Path) -> None:
    """A run reads new files alone. A late span changes the row of its trace, and a pair replaces a peer."""
    job = assembler(lake, tmp_path)
    first, second = job.run()
    assert (first.reason, first.rows, second.rows) == ("2 files of spans not read before", 2, 6)
    before = edges_of(lake)
    assert before["payment", "fraud"] == 1
    put(
        lake,
        ACME,
        Signal.TRACES,
        pack_spans({"fraud-check": [make_span(8, 6, kind=2, start=63, stop=64)]}),
        batch="late",
    )
    assert [one.files_missing for one in job.status()] == [1, 0]
    job.run()
    after = edges_of(lake)
    assert after == {key: calls for key, calls in before.items() if key[1] != "fraud"} | {("payment", "fraud-check"): 1}
    assert traces_of(lake)[ACME, CHECKOUT] == 8
    assert [one.committed for one in job.run()] == [False, False]
    assert [one.files_missing for one in job.status()] == [0, 0]


def test_killed_before_the_commit(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends before its commit leaves nothing, and the next one does all of its work."""

    def fail(*_given: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(follower, "append_once", fail)
        with pytest.raises(KeyboardInterrupt):
            assembler(lake, tmp_path).run()
    assert traces_of(lake) == {}
    assembler(lake, tmp_path, steal=True).run()
    assert len(traces_of(lake)) == 2


def test_killed_between_the_tables(lake: Lake, tmp_path: Path) -> None:
    """Where a run ends between the two tables, the next one counts the calls of the traces that came before."""
    assembler(lake, tmp_path).update("trace_summaries")
    assert edges_of(lake) == {}
    summaries, edges = assembler(lake, tmp_path).run()
    assert (summaries.committed, edges.committed) == (False, True)
    assert edges_of(lake)["web", "payment"] == 1


def test_conflict(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another writer commits meanwhile, the run is planned again."""
    attempts: list[Any] = []
    plan = TraceAssembler._assemble

    def plan_slowly(self: TraceAssembler, step: Any, lease: Any) -> Any:
        change = plan(self, step, lease)
        if not attempts:
            append_once(lake.table("trace_summaries"), [], batch_id="another", operation="test")
        attempts.append(step)
        return change

    monkeypatch.setattr(TraceAssembler, "_assemble", plan_slowly)
    assembler(lake, tmp_path).update("trace_summaries")
    assert (len(attempts), len(traces_of(lake))) == (2, 2)


def test_reach(lake: Lake, tmp_path: Path) -> None:
    """Spans of one trace that are further apart than the reach have rows of their own."""
    job = assembler(lake, tmp_path, reach_hours=1)
    job.run()
    late = [make_span(9, start=3 * HOUR_MS, stop=3 * HOUR_MS + 1)]
    put(lake, ACME, Signal.TRACES, pack_spans({"web": late}), batch="far")
    job.run()
    rows = lake.table("trace_summaries").scan().to_arrow().to_pylist()
    assert sorted(row["span_count"] for row in rows if row["trace_id"] == CHECKOUT) == [1, 7]


def test_earlier_hour(lake: Lake, tmp_path: Path) -> None:
    """A late span of the hour before moves the row of its trace and its calls, and leaves nothing behind."""
    job = assembler(lake, tmp_path)
    job.run()
    put(lake, ACME, Signal.TRACES, pack_spans({"web": [make_span(9, start=-HOUR_MS)]}), batch="early")
    job.run()
    assert traces_of(lake)[ACME, CHECKOUT] == 8
    assert set(edges_of(lake).values()) == {1}


def test_long_traces_have_no_path(lake: Lake, tmp_path: Path) -> None:
    """A trace with more spans than the limit has no critical path."""
    assembler(lake, tmp_path, critical_path_spans=5).run()
    rows = lake.table("trace_summaries").scan().to_arrow().to_pylist()
    found = {row["trace_id"]: {one["critical_path_nano"] for one in row["services"]} for row in rows}
    assert found[CHECKOUT] == {None}


def test_same_id_in_two_organizations(lake: Lake, tmp_path: Path) -> None:
    """A trace id that two organizations use is two traces."""
    put(lake, OTHER, Signal.TRACES, pack_spans({"web": [make_span(1)]}), batch="same")
    assembler(lake, tmp_path).run()
    assert (traces_of(lake)[ACME, CHECKOUT], traces_of(lake)[OTHER, CHECKOUT]) == (7, 1)


def test_rewrites_are_not_read(lake: Lake, tmp_path: Path) -> None:
    """A rewrite of summaries changes no edge, and an unknown table is refused."""
    job = assembler(lake, tmp_path)
    job.run()
    table = lake.table("trace_summaries")
    rows = table.scan().to_arrow()
    old = [task.file for task in table.scan().plan_files()]
    append_once(
        table, write_files(Target.of(table), rows), batch_id="again", operation="compact", removed=lambda _table: old
    )
    before = edges_of(lake)
    job.run()
    assert edges_of(lake) == before
    with pytest.raises(LakeError, match="spans is not a table of traces, expected trace_summaries or service_edges"):
        job.update("spans")


def test_commands(elsewhere: Path, iceberg: None) -> None:
    """A run reads all files, the next one none, and the status has the number of those that are missing."""
    make_trace_lake(elsewhere)
    said = settings_of(elsewhere) | {"state": {"path": str(elsewhere / "state.db")}}
    (elsewhere / "neve.yaml").write_text(json.dumps(said))
    assert [one["files_missing"] for one in run("traces", "status", "--json").json] == [2, 0]
    first = run("traces", "run")
    assert (first.code, first.errors) == (0, "")
    assert "2 files of spans not read before" in first.text
    again = run("traces", "run", "--json").json
    assert [(one["table"], one["committed"]) for one in again] == [("trace_summaries", False), ("service_edges", False)]
