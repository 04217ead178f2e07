"""Decisions in Arrow tasks, on a lake without Spark: the sample of the reference, and the weights of Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.lake.calendar import micros_of
from neve.lake.read.snapshot_files import EVERY_ROW, scan_files
from neve.lake.write.table_writer import Target
from neve.reservoir.config import LakeSampling
from neve.reservoir.sampling.methods import LARGEST_WEIGHT
from neve.reservoir.sampling.vector_cut import VectorDraw
from neve.reservoir.tables import arrow_decide
from neve.reservoir.tables.arrow_decide import (
    GROUP,
    ArrowDecider,
    CountTask,
    DecideTask,
    RecordReader,
    can_group,
    count_kept,
    find_weights,
    has_weight_keys,
)
from neve.reservoir.tables.decide import salt_for
from neve.reservoir.tables.plan import Plan, PlannedWindow
from neve.reservoir.weights import parse_number
from tests.reservoir.tables.records import ATTRIBUTE, START, expected, put, record, records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.lake.lake import Lake

BEGIN, MINUTE = micros_of(START), 60_000_000
CONFIG = LakeSampling(k=4, window_seconds=60)
MAP = pa.map_(pa.string(), pa.string())


@pytest.fixture
def decider(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ArrowDecider]:
    """Return deciders whose tasks run in this process, a file at a time."""

    def run_here(_spark: object, work: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        return [work(task) for task in tasks]

    monkeypatch.setattr(arrow_decide, "run_tasks", run_here)
    monkeypatch.setattr(arrow_decide, "count_slices", lambda _spark: 100)

    def make(config: LakeSampling, table: str = "logs") -> ArrowDecider:
        source = lake.table(table)
        spark: Any = None
        return ArrowDecider(spark, config, source, source.metadata.current_snapshot_id or 0, salt_for(config, table))

    return make


def plan_of(rows: list[dict[str, Any]], config: LakeSampling) -> Plan:
    """Return the plan of all windows of rows."""
    counts: dict[tuple[str, int], int] = {}
    for row in rows:
        window = row["organization_id"], micros_of(row["timestamp"]) // config.micros * config.micros
        counts[window] = counts.get(window, 0) + 1
    return Plan(tuple(PlannedWindow(owner, start, count) for (owner, start), count in sorted(counts.items())))


def decided(decisions: pa.Table | None) -> dict[tuple[str, int, bytes], float]:
    """Return the adjusted counts of decisions."""
    assert decisions is not None
    return {
        (row["organization_id"], row["sampling_window"], row["record_id"]): row["adjusted_count"]
        for row in decisions.to_pylist()
    }


@pytest.mark.parametrize("by", [("service_name",), ("service_name", "message"), ()])
@pytest.mark.parametrize("pass_records", [5_000_000, 100])
def test_the_sample_is_that_of_the_reference(
    lake: Lake,
    decider: Callable[..., ArrowDecider],
    monkeypatch: pytest.MonkeyPatch,
    by: tuple[str, ...],
    pass_records: int,
) -> None:
    """Of two organizations, several files and windows, by one group, two and none, at once or in passes."""
    monkeypatch.setattr(arrow_decide, "PASS_RECORDS", pass_records)
    config = CONFIG.model_copy(update={"by": by})
    rows = [*records(range(200), message="m"), *records(range(70), owner="other", message="n")]
    put(lake, rows[::2], "one")
    put(lake, rows[1::2], "two")
    plan = plan_of(rows, config)
    decisions = decider(config).decide(plan)
    assert decided(decisions) == expected(rows, config)
    assert decisions is not None
    assert sum(count_kept(decisions).values()) == decisions.num_rows
    paths = {task.file.file_path for task in scan_files(lake.table("logs"))}
    assert set(decisions.column("_file").to_pylist()) <= paths
    counts, wrong = decider(config).count(plan.time(MINUTE), None)
    assert counts == {(one.owner, one.start): one.records for one in plan.to_sample}
    assert wrong == {}
    only = {window: count for window, count in counts.items() if window[0] == "other"}
    assert decider(config).count(plan.time(MINUTE), "other")[0] == only


def test_only_planned_windows_are_decided(lake: Lake, decider: Callable[..., ArrowDecider]) -> None:
    """Windows between them, and those of another organization, are not."""
    rows = [*records(range(200)), *records(range(200), owner="other")]
    put(lake, rows, "one")
    plan = Plan((PlannedWindow("acme", BEGIN, 60), PlannedWindow("other", BEGIN + 2 * MINUTE, 60)))
    wanted = {
        key: adjusted
        for key, adjusted in expected(rows, CONFIG).items()
        if key[:2] in {("acme", BEGIN), ("other", BEGIN + 2 * MINUTE)}
    }
    assert decided(decider(CONFIG).decide(plan)) == wanted


def test_records_that_are_there_twice_are_left_to_spark(lake: Lake, decider: Callable[..., ArrowDecider]) -> None:
    """Whether both are in the sample, or the second is the first that is not."""
    rows = records(range(60))
    plan = plan_of(rows, CONFIG)
    put(lake, rows, "one")
    assert decider(CONFIG).decide(plan) is not None
    put(lake, [dict(row, ingested_at=START + timedelta(days=1)) for row in rows], "two")
    assert decider(CONFIG).decide(plan) is None


def test_deleted_rows_are_not_sampled(lake: Lake, decider: Callable[..., ArrowDecider]) -> None:
    """Records that the table has no more are neither counted nor kept."""
    rows = records(range(60))
    put(lake, rows, "one")
    table = lake.table("logs")
    table.delete("service_name == 'service-1'")
    left = [row for row in rows if row["service_name"] != "service-1"]
    plan = plan_of(left, CONFIG)
    assert decided(decider(CONFIG).decide(plan)) == expected(left, CONFIG)
    assert decider(CONFIG).count(plan.time(MINUTE), None)[0] == {("acme", BEGIN): 40}


def test_weights_are_searched_by_keys_alone(lake: Lake) -> None:
    """The values of attributes are read only of files that have a weight."""
    put(lake, [record(1)], "one")
    put(lake, [record(2, weight="3")], "two")
    io = lake.table("logs").io
    found = {
        task.file.record_count: has_weight_keys(io, task.file.file_path) for task in scan_files(lake.table("logs"))
    }
    assert len(scan_files(lake.table("logs"))) == 2
    assert sorted(has_weight_keys(io, task.file.file_path) for task in scan_files(lake.table("logs"))) == [False, True]
    assert found


def test_refusals_have_the_words_of_spark(lake: Lake) -> None:
    """A weight that is not valid, and a record without an id, end the task."""
    put(lake, [record(1, weight="-1")], "one")
    table = lake.table("logs")
    reader = RecordReader(Target.of(table), CONFIG, EVERY_ROW)
    numbers = {one.file.file_path: 0 for one in scan_files(table)}
    task = DecideTask(reader, VectorDraw(GROUP, "record_id", 4, 1), {"acme": frozenset({BEGIN})}, numbers)
    with pytest.raises(ValueError, match=r"neve: weight of item [0-9A-F]{32} is double -1"):
        task(scan_files(table))
    lenient = RecordReader(Target.of(table), CONFIG.model_copy(update={"invalid_weights": "one"}), EVERY_ROW)
    assert CountTask(lenient)(scan_files(table)) == [("acme", BEGIN, 1, 1)]
    put(lake, [record(2, record_id=None)], "two")
    table = lake.table("logs")
    numbers |= {one.file.file_path: 1 for one in scan_files(table)}
    task = DecideTask(lenient, task.draw, task.windows, numbers)
    with pytest.raises(ValueError, match="without a record_id"):
        task(scan_files(table))


def test_groups_of_other_types_are_left_to_spark(lake: Lake) -> None:
    """Texts of doubles and times differ between engines."""
    schema = lake.table("spans").schema()
    assert can_group(schema, ["service_name", "span_kind", "trace_id", "resource_attrs['host.name']"])
    assert not can_group(schema, ["duration_ms"])


TEXTS = st.one_of(
    st.none(),
    st.sampled_from(["1", "2.5", "-1", "0", "1e3", "+4", ".5", "5.", "NaN", "Infinity", "1_000", "1d", " 1", "1\n"]),
    st.floats(allow_nan=True).map(str),
)
TYPES = st.sampled_from([None, "string", "int", "double", "bytes", "bool", "empty"])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(given_weights=st.lists(st.tuples(st.booleans(), TEXTS, TYPES), min_size=1, max_size=6))
def test_weights_are_those_of_the_definition(given_weights: list[tuple[bool, str | None, str | None]]) -> None:
    """A missing weight is 1; one that is no number above 0, or of another type, is not valid."""
    rows = pa.table(
        {
            "record_id": pa.array([b"0" * 16] * len(given_weights)),
            "attributes": pa.array([[(ATTRIBUTE, text)] if there else [] for there, text, _kind in given_weights], MAP),
            "attribute_types": pa.array([[(ATTRIBUTE, kind)] if kind else [] for *_, kind in given_weights], MAP),
        }
    )
    weights, wrong = find_weights(rows, refuse=False)
    for place, (there, said, kind) in enumerate(given_weights):
        text = said if there else None
        says = text is not None or kind is not None
        number = parse_number(text)
        fits = (kind or "string") in ("string", "int", "double") and 0 < number < LARGEST_WEIGHT
        assert weights[place] == (number if fits else 1.0)
        assert bool(wrong[place]) == (says and not fits)
    assert isinstance(weights, np.ndarray)
