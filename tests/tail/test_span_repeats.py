"""Repeats of stored spans: ingestion records each once, and cycles count them as the collector does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from neve.ingest import batch_writer
from neve.ingest.batch_writer import Publisher, gather
from neve.ingest.config import IngestConfig
from neve.ingest.decoder import Batch, Decoder
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.read.snapshot_files import RecentFiles
from neve.model.commits import REPEATS
from neve.model.signals import NAMESPACE, Signal
from neve.tail.explain import open_trace_judge
from neve.tail.export.kept_spans import KeptSpans
from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from neve.tail.simulate.simulator import Simulator
from tests.empty_tables import create_empty_tables
from tests.receive.doubles import traces_of
from tests.tail.lakes import START, Desk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.lake
BEGIN = round(START.timestamp()) * 10**9
COUNT = {"name": "many", "type": "span_count", "span_count": {"min_spans": 4}}
QUICK = {"name": "quick", "type": "latency", "latency": {"threshold_ms": 1, "upper_threshold_ms": 50}}
LARGE = {"name": "large", "type": "bytes_limiting", "bytes_limiting": {"bytes_per_second": 10**6}}
DAY = 86_400.0
DONE = 10_000.0  # seconds after which every trace is complete


class Killed(BaseException):
    """Stands for SIGKILL: nothing in Neve catches it."""


@dataclass
class House:
    """A lake into which batches of spans are ingested, without a JVM."""

    lake: Lake
    folder: Path

    def ingest(self, *messages: bytes, batch: str = "", at: float = 0) -> dict[str, str]:
        """Ingest messages in one batch, and return the summary of the newest commit of spans."""
        publisher = Publisher(self.lake, IngestConfig(), "test")
        name = batch or f"stream:{uuid4()}"
        tables, started = publisher.tables(), BEGIN + round(at * 10**9)
        recent = {"spans": RecentFiles(DAY).find(tables["spans"], started // 1000)}
        assignment = replace(publisher.assign(name, tables, writers=1), started_unix_nano=started, recent=recent)
        decoder = Decoder(assignment)
        sent = Batch(
            "test", Signal.TRACES, assignment.intake("acme"), pa.array(messages, pa.binary()), range(len(messages))
        )
        blocks = [*decoder.add(sent), *decoder.finish(None)]
        publisher.publish(name, gather(assignment, blocks), lambda _table: {})
        snapshot = self.lake.table("spans").current_snapshot()
        return dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {}

    def desk(self, *policies: dict[str, Any], semantics: Semantics = Semantics.OTELCOL, name: str = "tail") -> Desk:
        """A selector with some policies."""
        desk = Desk(self.lake, self.folder, policies=read_policies({"policies": list(policies)}, semantics))
        desk.set(name=name, inactivity_seconds=300, max_duration_seconds=3600)
        return desk

    def count(self, table: str) -> int:
        """The rows of a table."""
        return int(self.lake.table(table).scan().count())


@pytest.fixture
def house(tmp_path: Path, iceberg: None) -> House:
    """An empty lake."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "w")), CatalogConfig(path=str(tmp_path / "c.db")))
    create_empty_tables(lake)
    return House(lake, tmp_path)


def message(*numbers: int, trace: int = 1) -> bytes:
    """A message with spans of a trace."""
    return traces_of(
        *(
            Span(
                trace_id=trace.to_bytes(16, "big"),
                span_id=number.to_bytes(8, "big"),
                name=f"call {number}",
                start_time_unix_nano=BEGIN + number * 10**6,
                end_time_unix_nano=BEGIN + (number + 10) * 10**6,
            )
            for number in numbers
        )
    )


def counts(desk: Desk) -> dict[int, int]:
    """The number of spans in the newest decision about each trace."""
    mine = [row for row in desk.decisions() if row["selector"] == desk.config.name]
    return {int.from_bytes(row["trace_id"], "big"): row["span_count"] for row in mine}


def test_nothing_is_written_without_repeats(house: House) -> None:
    """Neither for new spans nor for repeats within a batch, which are counted in the row of the first."""
    assert REPEATS not in house.ingest(message(1, 2), message(2))
    assert house.lake.table("span_repeats").current_snapshot() is None
    assert house.count("spans") == 2


def test_repeats_of_earlier_batches_are_rows(house: House) -> None:
    """One for each that arrives, also several in one batch; the table of spans has each span once."""
    house.ingest(message(1, 2))
    summary = house.ingest(message(1, 3), message(1), message(3), at=5)
    assert (summary[REPEATS], summary["neve.duplicates"], house.count("spans")) == ("2", "3", 3)
    rows = house.lake.table("span_repeats").scan().to_arrow().to_pylist()
    assert [int.from_bytes(row["span_id"], "big") for row in rows] == [1, 1]
    assert {row["ingested_at"] for row in rows} == {START + timedelta(seconds=5)}
    assert sorted(row["arrival_order"] for row in rows) == [0, 2]
    assert {row["batch_id"] for row in rows} == {summary["neve.batch-id"]}


def test_cycles_count_repeats_of_later_batches(house: House) -> None:
    """As the collector does: in the cycle after they arrived, once, whatever the selector reads again later."""
    desk, plain = house.desk(COUNT, QUICK), house.desk(COUNT, semantics=Semantics.DOCUMENTED, name="plain")
    house.ingest(message(1, 2), message(1, trace=2))
    desk.run(at=1)
    house.ingest(message(2, 3), message(2), at=2)
    desk.run(at=3)
    house.ingest(message(1), at=4)
    assert desk.run(at=5).open == 2
    desk.run(at=DONE)
    plain.run(at=DONE)
    whole = house.desk(COUNT, QUICK, name="whole")
    whole.run(at=DONE)
    assert counts(desk) == counts(whole) == {1: 6, 2: 1}
    assert counts(plain) == {1: 3, 2: 1}
    assert house.count("spans") == 4


def test_a_batch_of_repeats_alone_counts(house: House) -> None:
    """It commits no rows of spans, and a selector without open traces is idle only until it arrives."""
    desk = house.desk(COUNT)
    house.ingest(message(1, 2, 3))
    desk.run(at=DONE)
    assert not desk.run(at=DONE + 1).committed
    house.ingest(message(1), at=DONE + 1)
    assert desk.run(at=DONE + 2).committed
    assert not desk.run(at=DONE + 3).committed
    assert [(row["kind"], row["decision"], row["span_count"]) for row in desk.decisions()] == [
        ("decided", "not_sampled", 3),
        ("revised", "sampled", 4),
    ]


def test_repeats_of_forgotten_traces_are_ignored(house: House) -> None:
    """They do not tell what their trace is, so that no trace begins with them."""
    desk = house.desk(COUNT)
    house.ingest(message(1, 2, 3))
    desk.run(at=DONE)
    house.ingest(message(1), at=DONE)
    desk.run(at=DONE + 1 + desk.config.late_seconds)
    desk.run(at=3 * (DONE + desk.config.late_seconds))
    assert [row["span_count"] for row in desk.decisions()] == [3]
    assert desk.open() == []


@pytest.mark.parametrize("batch", ["", "file-batch"], ids=["a new id", "the same id"])
@pytest.mark.parametrize("nth", [0, 1, 2], ids=["before repeats", "before spans", "after spans"])
def test_a_batch_that_is_killed_and_retried_counts_once(
    house: House, monkeypatch: pytest.MonkeyPatch, nth: int, batch: str
) -> None:
    """Streams retry under a new id, files under the same; a cycle between the two attempts sees no half of it."""
    desk = house.desk(COUNT)
    house.ingest(message(1, 2))
    desk.run(at=1)
    with monkeypatch.context() as patch:
        patch.setattr(batch_writer, "append_once", die_at(nth))
        with pytest.raises(Killed):
            house.ingest(message(1, 3), batch=batch, at=2)
    desk.run(at=3)
    is_committed = nth == 2
    if not (is_committed and not batch):  # a stream's position is in the commit: it does not read the batch again
        house.ingest(message(1, 3), batch=batch, at=4)
    desk.run(at=5)
    desk.run(at=DONE)
    whole = house.desk(COUNT, name="whole")
    whole.run(at=DONE)
    assert counts(desk) == counts(whole) == {1: 4}
    assert house.count("spans") == 3


def die_at(nth: int) -> Callable[..., object]:
    """An `append_once` that is killed before its nth commit, or after the last."""
    calls = iter(range(100))

    def dying(*args: Any, **kwargs: Any) -> object:
        call = next(calls)
        if call == nth:
            raise Killed
        result = append_once(*args, **kwargs)
        if call == 1:
            raise Killed
        return result

    return dying


def test_repeats_outlive_snapshots_and_rewrites(house: House) -> None:
    """Those of expired snapshots count when all spans are read, and those of rewritten files in the next cycle."""
    desk = house.desk(COUNT)
    house.ingest(message(1, 2))
    desk.run(at=1)
    house.ingest(message(1), at=2)
    repeats = house.lake.table("span_repeats")
    repeats.overwrite(repeats.scan().to_arrow())
    desk.run(at=3)
    house.ingest(message(3), at=4)
    spans = house.lake.table("spans")
    gone = [one.snapshot_id for one in spans.metadata.snapshots if one != spans.current_snapshot()]
    spans.maintenance.expire_snapshots().by_ids(gone).commit()
    whole = house.desk(COUNT, name="whole")
    whole.run(at=DONE)
    assert counts(whole) == {1: 4}


def test_a_lake_without_the_table_works_as_before(house: House) -> None:
    """Until `neve init` creates it, repeats are dropped and not counted."""
    house.lake.catalog.drop_table((NAMESPACE, "span_repeats"))
    house.ingest(message(1, 2))
    assert REPEATS not in house.ingest(message(1, 3))
    desk = house.desk(COUNT)
    desk.run(at=DONE)
    assert counts(desk) == {1: 3}


def test_sizes_are_those_of_repeats_within_a_batch(house: House, tmp_path: Path) -> None:
    """A repeat has the size that its span has."""
    house.ingest(message(1, 2))
    house.ingest(message(2))
    house.ingest(message(1, 2, trace=2), message(2, trace=2))
    desk = house.desk(LARGE)
    desk.run(at=DONE)
    sizes = {row["spans_bytes"] for row in desk.decisions()}
    assert len(desk.decisions()) == 2
    assert len(sizes) == 1


def test_explanations_simulations_and_exports_count_them(house: House) -> None:
    """A trace has the same number of spans everywhere, and no counted repeat is reported as a missing span."""
    house.ingest(message(1, 2), message(2))
    house.ingest(message(1, 3), at=2)
    desk = house.desk(COUNT)
    desk.run(at=DONE)
    selector = desk.selector(DONE)
    with open_trace_judge(selector) as judge:
        judged = judge.evaluate("acme", (1).to_bytes(16, "big"))
    assert judged is not None
    assert (judged.spans, judged.decision) == (5, "sampled")
    simulation = Simulator(house.lake, desk.config, clock=lambda: START + timedelta(seconds=DONE)).simulate(
        desk.policies
    )
    assert not any("no trace id" in remark for remark in simulation.remarks)
    kept = KeptSpans(house.lake, selector.source, desk.config, house.lake.table("trace_decisions"))
    [found] = kept.cycle(kept.cycles(0)[0])
    assert (found.missing, sum(shard.file.rows for shard in found.shards)) == (0, 3)


def test_both_engines_count_repeats(spark_lake: Lake, tmp_path: Path) -> None:
    """Also if a Spark job aggregates the spans."""
    house = House(spark_lake, tmp_path)
    desks = [house.desk(COUNT, QUICK, name=name) for name in ("duckdb", "spark")]
    for at, numbers in ((1, (1, 2)), (3, (2, 3)), (5, (1,))):
        house.ingest(message(*numbers), message(numbers[0], trace=at), at=at)
        for desk in desks:
            desk.set(engine=desk.config.name)
            assert desk.run(at=at + 1).engine == desk.config.name
    for desk in desks:
        desk.run(at=DONE)
    assert counts(desks[0]) == counts(desks[1]) == {1: 6, 3: 1, 5: 1}
