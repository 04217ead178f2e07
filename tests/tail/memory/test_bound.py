"""Memory stays within its bound, whatever comes."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
import psutil
import pyarrow as pa
import pytest

from neve.model.columns import STRING_MAP, TIMESTAMP
from neve.model.tables import SPANS
from neve.tail.judge import MICROS
from neve.tail.memory.cycle import EarlyAllowance
from neve.tail.policy.config.loader import read_policies
from neve.tail.policy.semantics import Semantics
from tests.tail.lakes import ERRORS, START, Span, percentage, policies
from tests.tail.memory.feeds import Desk

if TYPE_CHECKING:
    from neve.tail.policy.tree import PolicySet

MB = 1024 * 1024
START_US = round(START.timestamp()) * MICROS


def many(chance: np.random.Generator, at: float, traces: int, spans: int, text: int = 300) -> pa.Table:
    """Traces of so many spans each, that arrive at a moment after `START`."""
    rows = traces * spans
    ids = chance.bytes(traces * 16)
    trace = np.tile(np.arange(traces), spans)
    span_ids = chance.bytes(rows * 8)
    start = np.full(rows, START_US + round(at * MICROS))
    columns = {
        "organization_id": pa.repeat("acme", rows),
        "timestamp": pa.array(start).cast(TIMESTAMP),
        "trace_id": pa.array([ids[place * 16 : place * 16 + 16] for place in trace], pa.binary()),
        "span_id": pa.array([span_ids[place * 8 : place * 8 + 8] for place in range(rows)], pa.binary()),
        "status_code": pa.array(np.zeros(rows, np.int32)),
        "start_time_unix_nano": pa.array(start * 1000),
        "end_time_unix_nano": pa.array(start * 1000 + 1_000_000),
        "attributes": pa.array([[("text", "x" * text)]] * rows, STRING_MAP),
        "ingested_at": pa.array(start).cast(TIMESTAMP),
    }
    arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in SPANS.schema]
    return pa.Table.from_arrays(arrays, schema=SPANS.schema)


def far_more_than_fits() -> int:
    """Feeds a buffer of 8 MB seven times over and more; gives by how much the process grew meanwhile."""
    desk, chance = Desk(policies(ERRORS, percentage(2)), buffer_mb=8), np.random.default_rng(1)
    process, resident, fed = psutil.Process(), [], 0
    gc.collect()
    allocated = pa.total_allocated_bytes()
    for turn in range(50):
        rows = many(chance, turn, 250, 10)
        fed += rows.nbytes
        desk.at = turn
        desk.selector.feed(rows)
        desk.selector.deliver()
        desk.place.got.clear()
        assert desk.selector.held_bytes <= desk.selector.bound
        if turn >= 20:
            assert pa.total_allocated_bytes() - allocated < 4 * desk.selector.bound
            desk.told = desk.told[-1:]
            resident.append(process.memory_info().rss)
    assert fed > 7 * desk.selector.bound
    assert any("spans filled tail.buffer_mb, which is 8" in remark for remark in desk.told[-1].remarks)
    desk.selector.stop(1)
    return max(resident) - resident[0]


@pytest.mark.long
def test_far_more_than_fits() -> None:
    """The traces that were seen first are decided at once; held and allocated memory stay bounded."""
    far_more_than_fits()


@pytest.mark.long
def test_what_the_process_takes() -> None:
    """Resident memory stays bounded too: seen in a process of its own, since that of the tests holds much else."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        assert alone.submit(far_more_than_fits).result() < 2 * 8 * MB


@pytest.mark.slow
def test_the_first_seen_go_first() -> None:
    """Those that stay are the newest, and each decision says why it was made."""
    desk, chance = Desk(buffer_mb=1), np.random.default_rng(2)
    for turn in range(12):
        desk.at = turn
        desk.selector.feed(many(chance, turn, 40, 5, text=600))
    early = desk.decisions()
    assert {row["ready_because"] for row in early} == {"memory"}
    newest = max(row["first_seen"] for row in early)
    desk.run(at=13, everything=True)
    left = [row for row in desk.decisions() if row["cycle"] == desk.told[-1].cycle]
    assert min(row["first_seen"] for row in left) >= newest
    assert len(early) + len(left) == 480
    assert all(row["span_count"] == 5 for row in (*early, *left))


@pytest.mark.slow
def test_a_trace_larger_than_all_memory() -> None:
    """It is decided by what came of it; the rest follows the decision, and all of a kept one arrives."""
    desk = Desk(buffer_mb=1)
    text = {"text": "x" * 2000}
    for part in range(30):
        spans = [Span(1, part * 50 + number, attributes=text, error=part == 0) for number in range(50)]
        desk.at = part
        desk.feed(spans)
        assert desk.selector.held_bytes <= desk.selector.bound
    desk.run(at=400)
    assert len(desk.place.spans) == 1500
    assert {row["decision"] for row in desk.decisions()} == {"sampled"}
    said = [remark for result in desk.told for remark in result.remarks]
    assert any("traces that use more than half of tail.buffer_mb" in remark for remark in said)


@pytest.mark.slow
def test_one_feed_larger_than_all_memory() -> None:
    """Is taken piece by piece."""
    desk = Desk(policies({"name": "all", "type": "always_sample"}), buffer_mb=1)
    desk.selector.feed(many(np.random.default_rng(3), 0, 1000, 5))
    assert desk.selector.held_bytes <= desk.selector.bound
    desk.run(at=400)
    assert sum(batch.num_rows for _id, batch in desk.place.got) == 5000


def limited(semantics: Semantics = Semantics.DOCUMENTED) -> PolicySet:
    """A limit of ten spans a second."""
    limit = {"name": "limit", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 10}}
    return read_policies({"policies": [ERRORS, limit]}, semantics)


@pytest.mark.long
def test_limits_hold_where_memory_is_short() -> None:
    """What is decided early gets no more than the seconds that went by are worth, however often that happens."""
    desk, chance = Desk(limited(), buffer_mb=1), np.random.default_rng(4)
    for turn in range(45):
        desk.at = 600 + turn / 5
        desk.selector.feed(many(chance, desk.at, 80, 1, text=3000))
    assert len(desk.told) > 20
    kept = sum(result.sampled.spans for result in desk.told)
    assert 8 * 10 <= kept <= (60 + 9) * 10  # at first the time before is worth something too
    assert any("limits gave them the budget of the time" in remark for remark in desk.told[-1].remarks)


def test_what_early_traces_are_given() -> None:
    """Whole seconds since the last of them, and no limit samples before one has gone by."""
    allowance = EarlyAllowance(limited(), 60)
    assert allowance.take(0, 1000 * MICROS) == (limited(), 60)
    assert allowance.take(960 * MICROS, 1000 * MICROS + 5)[0] != limited()
    assert allowance.take(960 * MICROS, 1007 * MICROS + 5) == (limited(), 7)
    assert allowance.take(1020 * MICROS, 1025 * MICROS) == (limited(), 5)
    assert EarlyAllowance(limited(Semantics.OTELCOL), 60).take(0, 5) == (limited(Semantics.OTELCOL), 60)
    assert EarlyAllowance(policies(ERRORS), 60).take(0, 5) == (policies(ERRORS), 60)
