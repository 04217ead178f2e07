"""Runs on Spark: the sample is always that of the reference from all records that are there."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from neve.errors import ConfigError, InputError, InvalidWeight
from neve.lake.calendar import micros_of
from neve.lake.read.history import read_summary
from neve.model.commits import POSITIONS, WINDOWS
from neve.reservoir.config import LakeSampling
from neve.reservoir.sampling.methods import uniform
from neve.reservoir.tables.decide import Decider, salt_for
from neve.reservoir.tables.plan import Plan, PlannedWindow, Scope
from tests.reservoir.tables.records import ATTRIBUTE, START, expected, put, record, records, sampled, weight_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake
    from neve.reservoir.tables.job import Sampler

CONFIG = LakeSampling(k=4, window_seconds=60)


def test_what_comes_late_brings_its_window_again(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """A first run, more records, late ones and none: each time as if sampled from scratch, each in one commit."""
    rows = [*records(range(300)), *records(range(120), owner="other")]
    put(spark_lake, rows, "one")
    first = sampler(CONFIG).run()
    assert (first.is_committed, first.reason, len(first.windows), first.records) == (True, "first run", 7, 420)
    assert sampled(spark_lake) == expected(rows, CONFIG)

    late = [record(number, seconds=130) for number in range(1000, 1010)]
    put(spark_lake, [*late, *records(range(300, 330))], "two")
    source = spark_lake.table("logs").metadata.current_snapshot_id
    again = sampler(CONFIG).run()
    rows += [*late, *records(range(300, 330))]
    assert (len(again.windows), again.reason) == (2, "2 windows changed since the last run")
    assert sampled(spark_lake) == expected(rows, CONFIG)

    nothing = sampler(CONFIG).run()
    assert (nothing.is_committed, nothing.windows) == (False, ())
    snapshots = spark_lake.table("logs_sample").metadata.snapshots
    assert [str(one.snapshot_id) for one in snapshots] == [first.snapshot, again.snapshot]
    told = read_summary(snapshots[-1])
    position = json.loads(told[POSITIONS])
    assert (position["snapshot"], position["policy"]) == (source, CONFIG.policy)
    minute = int(START.timestamp())
    assert json.loads(told[WINDOWS]) == {"acme": [[minute + 120, minute + 180], [minute + 300, minute + 360]]}


@pytest.mark.long
def test_compaction_of_the_source_changes_nothing(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """Files that only moved bring no window again, and a window that comes again has the same chances as before."""
    rows = records(range(90))
    put(spark_lake, rows[:45], "one")
    put(spark_lake, rows[45:], "two")
    sampler(CONFIG).run()
    spark, name = spark_lake.spark, spark_lake.spark_name("logs")
    catalog = spark_lake.catalog_config.name
    spark.sql(
        f"CALL {catalog}.system.rewrite_data_files(table => '{name.partition('.')[2]}', "
        "options => map('rewrite-all', 'true'))"
    )
    assert not sampler(CONFIG).run().windows
    before = sampled(spark_lake)
    again = sampler(CONFIG).run(Scope(again=True))
    assert (len(again.windows), again.reason) == (2, "resampling was requested")
    assert sampled(spark_lake) == before == expected(rows, CONFIG)


class Killed(BaseException):
    """Stands for the end of a process."""


@pytest.mark.long
def test_a_run_that_was_killed_is_repeated(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """Nothing of it counts: neither what was decided nor what was written; the next run gives the same."""
    rows = records(range(60))
    put(spark_lake, rows, "one")
    for place in ("writing", "committing"):

        def dying(step: str, _done: int, _total: int, place: str = place) -> None:
            if step == place:
                raise Killed

        with pytest.raises(Killed):
            sampler(CONFIG, progress=dying).run()
        assert spark_lake.table("logs_sample").metadata.snapshots == []
    assert sampler(CONFIG).run().is_committed
    assert sampled(spark_lake) == expected(rows, CONFIG)


@pytest.mark.long
def test_another_policy_is_told_and_applied_when_asked(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """Windows that did not change stay as they were until --again; windows of another length are refused."""
    rows = records(range(120))
    put(spark_lake, rows, "one")
    sampler(CONFIG).run()
    other = CONFIG.model_copy(update={"k": 2})
    assert (found := sampler(other).run()).mixed
    assert not found.windows
    assert sampled(spark_lake) == expected(rows, CONFIG)
    some = sampler(other).run(Scope(since=micros_of(START + timedelta(seconds=60)), again=True))
    assert (len(some.windows), some.mixed) == (1, True)
    assert sampled(spark_lake) == expected(rows[:60], CONFIG) | expected(rows[60:], other)
    longer = other.model_copy(update={"window_seconds": 120})
    with pytest.raises(ConfigError, match=r"logs_sample has windows of 60 s, but reservoir.lake.window_seconds is 120"):
        sampler(longer).run()
    assert not sampler(longer).run(Scope(again=True)).mixed
    assert sampled(spark_lake) == expected(rows, longer)


@pytest.mark.long
def test_spans_pass_all_or_by_exact_totals(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """Spans are sampled like logs; without k all pass, each record once, and exact counts add up to the total."""
    rows = [
        record(number, seconds=number, weight=str(1 + number % 4), operation_name=f"op-{number % 2}", duration_ms=1.0)
        for number in range(150)
    ]
    put(spark_lake, [*rows, rows[3]], "one", "spans")
    put(spark_lake, rows[:10], "two", "spans")
    everything = LakeSampling(window_seconds=60)
    assert sampler(everything, "spans").run().kept_records == 150
    assert sampled(spark_lake, "spans_sample") == expected(rows, everything, "spans")
    exact = LakeSampling(k=5, by=("service_name", "operation_name"), method="exact_total", window_seconds=60)
    sampler(exact, "spans").run(Scope(again=True))
    found = sampled(spark_lake, "spans_sample")
    assert found == pytest.approx(expected(rows, exact, "spans"))
    assert sum(found.values()) == pytest.approx(sum(1 + number % 4 for number in range(150)))


@pytest.mark.long
def test_a_record_that_is_there_twice_is_one(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """It takes no place of another's, whether its double is the first that is not in the sample, or in it, too."""
    rows, salt = records(range(60)), salt_for(CONFIG, "logs")
    chosen = [row for row in rows if ("acme", micros_of(START), row["record_id"]) in expected(rows, CONFIG)]
    last = [
        min(group, key=lambda row: weight_of(row) / uniform(salt, row["record_id"]))
        for service in range(3)
        if (group := [row for row in chosen if row["service_name"] == f"service-{service}"])
    ]
    put(spark_lake, rows, "one")
    put(spark_lake, last, "two")
    assert sampler(CONFIG).run().records == 63
    assert sampled(spark_lake) == expected(rows, CONFIG)
    put(spark_lake, [dict(row, ingested_at=START + timedelta(days=1)) for row in rows], "three")
    assert sampler(CONFIG).run().records == 123
    assert sampled(spark_lake) == expected(rows, CONFIG)


def test_decisions_read_what_they_need(spark_lake: Lake) -> None:
    """Neither messages nor anything else of a record but its id, its time, its group and, where asked, its weight."""
    put(spark_lake, records(range(10)), "one")
    source = spark_lake.table("logs")
    snapshot = source.metadata.current_snapshot_id
    assert snapshot is not None
    needed = {"organization_id", "timestamp", "record_id", "service_name"}
    for weights, more in (("one", set()), ("adjusted_count", {"attributes", "attribute_types"})):
        config = CONFIG.model_copy(update={"weights": weights})
        decided = Decider(spark_lake, config, "logs", source, snapshot).decide(Plan((PlannedWindow("acme", 0, 1),)))
        plan = decided._jdf.queryExecution().optimizedPlan().collectLeaves()
        leaves = [plan.apply(place) for place in range(plan.size())]
        [scan] = [leaf for leaf in leaves if "V2" in leaf.getClass().getName()]
        read = {scan.output().apply(place).name() for place in range(scan.output().size())}
        assert read == needed | more


@pytest.mark.long
def test_weights_that_can_not_be(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """They are refused with the record's name, or count as 1 and are counted; so is a record without a name refused."""
    wrong = [record(number, seconds=1, weight=said) for number, said in enumerate(("-1", "0", "NaN", "Infinity", "x"))]
    wrong.append(record(9, seconds=1, attributes=[(ATTRIBUTE, "MTIz")], attribute_types=[(ATTRIBUTE, "bytes")]))
    put(spark_lake, [*wrong, *records(range(10, 40))], "one")
    with pytest.raises(InvalidWeight, match=r"logs: weight of record [0-9A-F]{32} is (double|bytes) \S+, expected"):
        sampler(CONFIG).run()
    assert spark_lake.table("logs_sample").metadata.snapshots == []
    lenient = CONFIG.model_copy(update={"invalid_weights": "one"})
    result = sampler(lenient).run()
    assert (result.counted_as_one, result.records) == (6, 36)
    mended = [dict(row, attributes=[]) for row in wrong]
    assert sampled(spark_lake) == expected([*mended, *records(range(10, 40))], lenient)
    put(spark_lake, [record(99, record_id=None)], "two")
    with pytest.raises(InputError, match="logs has records without a record_id"):
        sampler(lenient).run()


@pytest.mark.long
def test_what_retention_may_have_taken_stays(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """A sample outlives its records; other deletions reach it, and windows wait until they have settled."""
    rows = records(range(240))
    put(spark_lake, rows, "one")
    settling = CONFIG.model_copy(update={"settle_seconds": 30})
    first = sampler(settling, clock=lambda: START + timedelta(seconds=215)).run()
    assert (len(first.windows), first.waiting) == (3, 1)
    second = sampler(settling, clock=lambda: START + timedelta(seconds=280)).run()
    assert (len(second.windows), second.waiting) == (1, 0)
    assert sampled(spark_lake) == expected(rows, settling)

    name = spark_lake.spark_name("logs")
    edge, row = START + timedelta(seconds=70), rows[200]
    before, key = edge.isoformat(), row["record_id"].hex()
    spark_lake.spark.sql(f"DELETE FROM {name} WHERE timestamp < TIMESTAMP '{before}' OR record_id = X'{key}'")
    frozen = micros_of(edge)
    found = sampler(settling, frozen=lambda _owner: frozen).run()
    assert found.left == 1
    rest = [one for one in rows if one is not row]
    assert sampled(spark_lake) == expected(rest, settling)


@pytest.mark.long
def test_organizations_are_apart(spark_lake: Lake, sampler: Callable[..., Sampler]) -> None:
    """One may be sampled alone; the next run of all does not take that for done."""
    mine, others = records(range(30)), records(range(30), owner="other")
    put(spark_lake, [*mine, *others], "one")
    alone = sampler(CONFIG).run(Scope(owner="other"))
    assert {window.organization_id for window in alone.windows} == {"other"}
    assert sampled(spark_lake) == expected(others, CONFIG)
    assert len(sampler(CONFIG).run().windows) == 2
    assert sampled(spark_lake) == expected([*mine, *others], CONFIG)
