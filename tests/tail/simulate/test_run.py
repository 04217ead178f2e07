"""Simulations: they tell what a selector would decide, on real tables, and write nothing."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.tail.config import TailConfig
from neve.tail.simulate.simulator import Period, Simulator
from tests.tail.simulate.lakes import (
    ACME,
    BY_SERVICE,
    DROP,
    ERRORS,
    FEW,
    LATER,
    LIMIT,
    REST,
    SLOW,
    START,
    Trace,
    decided,
    policies,
    put,
    selector_of,
    some_traces,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.tail.policy.tree import PolicySet
    from neve.tail.simulate.report import Simulation

HALF = 75  # of the traces
SETS = {
    "facts": policies(ERRORS, SLOW, REST),
    "dropped": policies(SLOW, REST, DROP),
    "limited": policies(SLOW, LIMIT),
    "composite": policies(BY_SERVICE),
    "first match": policies(FEW, REST, sample_on_first_match=True),
    "as the collector": policies(SLOW, LIMIT, BY_SERVICE, semantics="otelcol", decision_wait="5s"),
    "dynamic": policies(
        {"name": "by-name", "type": "dynamic", "dynamic": {"fields": ["service.name"], "goal_sample_rate": 3}}
    ),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with some traces, in three commits."""
    from neve.lake.config import CatalogConfig, LakeConfig
    from neve.lake.lake import Lake
    from neve.lake.tables import init_tables

    folder = tmp_path_factory.mktemp("filled")
    lake = Lake(LakeConfig(warehouse=str(folder / "lake")), CatalogConfig(path=str(folder / "catalog.db")))
    init_tables(lake)
    traces = some_traces()
    for half in (traces[:HALF], traces[HALF:]):
        put(lake, half)
    return lake


def simulator(lake: Lake, period: Period | None = None, now: Any = LATER, **settings: Any) -> Simulator:
    """A simulator whose clock stands still."""
    return Simulator(lake, TailConfig(**settings), period or Period(), clock=lambda: now)


Judgements = dict[tuple[str, bytes], tuple[str, str | None, float]]


def judged(one: Simulator, stated: PolicySet) -> tuple[Simulation, Judgements]:
    """What a simulation tells, and every single trace as it was judged."""
    source = one._source(stated)
    with one._replayer(source) as replayer:
        told, replay = one._simulate(replayer, source, "new")
        rows = replay.judged.query(
            f"SELECT organization_id, trace_id, decision, policy, adjusted FROM {replay.judged.name}"
        )
    return told, {(row[0], bytes(row[1])): row[2:] for row in rows}


SOON = START + timedelta(minutes=9)


@pytest.mark.parametrize(
    ("name", "now"), [*((name, LATER) for name in SETS), ("facts", SOON), ("limited", SOON)], ids=str
)
def test_what_is_told_is_what_a_selector_does(filled: Lake, tmp_path: Path, name: str, now: Any) -> None:
    """The same decision, policy and count for every trace; in sum, the same numbers."""
    selector = selector_of(filled, tmp_path, SETS[name], now, name=f"{name.replace(' ', '-')}-{now.hour}")
    before = filled.table("spans").metadata.current_snapshot_id
    result = selector.run()
    rows = decided(filled, selector.config.name)
    one = simulator(filled, now=now, name=selector.config.name)
    told, found = judged(one, SETS[name])
    assert found == {trace: (row["decision"], row["policy"], row["adjusted_count"]) for trace, row in rows.items()}
    assert (told.before.traces, told.before.spans) == (result.decided.traces, result.decided.spans)
    assert (told.kept.traces, told.kept.spans) == (result.sampled.traces, result.sampled.spans)
    assert told.dropped.traces == result.dropped.traces
    assert told.open == result.open
    assert {line.name: (line.traces, line.spans) for line in told.policies if line.traces} == {
        policy: (count.traces, count.spans) for policy, count in result.policies.items()
    }
    assert told.estimates.traces.estimated == pytest.approx(result.estimated_traces)
    assert (told.snapshot_id, told.policies_hash) == (before, SETS[name].fingerprint)


def test_nothing_is_written(filled: Lake) -> None:
    """No table of the lake has a new snapshot, whatever is asked."""
    snapshots = {name: filled.table(name).metadata.current_snapshot_id for name in filled.table_names()}
    simulator(filled).compare(SETS["facts"], SETS["limited"])
    assert {name: filled.table(name).metadata.current_snapshot_id for name in filled.table_names()} == snapshots


def test_errors_that_are_missed(filled: Lake) -> None:
    """Their number, their share, and where to look."""
    told = simulator(filled).simulate(policies(SLOW, DROP))
    with_error = [trace for trace in some_traces() if trace.error]
    missed = [trace for trace in with_error if trace.duration_ms <= 700 or trace.service == "search"]
    groups = Counter((trace.owner, trace.service, f"GET /{trace.service}") for trace in missed)
    assert (told.errors.traces, told.errors.missed) == (len(with_error), len(missed))
    assert told.errors.missed_dropped == sum(trace.service == "search" for trace in with_error)
    assert told.errors.missed_share == len(missed) / len(with_error)
    assert {(one.organization, one.service, one.operation): one.traces for one in told.errors.groups} == groups
    ids = {trace.id.hex() for trace in missed}
    assert all(set(one.examples) <= ids and 1 <= len(one.examples) <= 3 for one in told.errors.groups)


def test_groups_of_errors_are_ten_at_most(make_lake: Callable[..., Lake]) -> None:
    """The largest, and of each three ids."""
    lake = make_lake()
    put(lake, [Trace(number, error=True, owner=f"org-{number % 4}") for number in range(72)])
    errors = simulator(lake).simulate(policies(SLOW)).errors
    assert (errors.missed, len(errors.groups)) == (72, 10)
    assert {len(group.examples) for group in errors.groups} == {3}


def test_bytes_and_cost_go_by_spans(filled: Lake) -> None:
    """Bytes are those of the data files, and the price is the configured one or another."""
    files = [task.file for task in filled.table("spans").scan().plan_files()]
    one = simulator(filled, price_per_million_spans=2.5)
    told = one.simulate(SETS["facts"])
    assert told.before.bytes == pytest.approx(sum(file.file_size_in_bytes for file in files), abs=1)
    assert told.kept.bytes == pytest.approx(told.before.bytes * told.kept.spans / told.before.spans, abs=1)
    assert told.kept.cost == pytest.approx(told.kept.spans * 2.5e-6)
    cheaper = Simulator(filled, one.config, price=0.5, clock=lambda: LATER).simulate(SETS["facts"])
    assert cheaper.before.cost == pytest.approx(cheaper.before.spans * 0.5e-6)


@pytest.mark.parametrize(("since", "until"), [(200, None), (None, 333), (100, 417)])
def test_only_traces_of_the_period_count(filled: Lake, since: float | None, until: float | None) -> None:
    """Those that began in it, whole; and files of other times are not read."""
    bounds = [None if moment is None else START + timedelta(seconds=moment) for moment in (since, until)]
    told = simulator(filled, Period(*bounds), max_duration_seconds=10).simulate(SETS["facts"])
    chosen = [trace for trace in some_traces() if (since or 0) <= trace.seconds < (until or 1e9)]
    assert (told.before.traces, told.before.spans) == (len(chosen), sum(trace.spans for trace in chosen))
    assert told.files < len(list(filled.table("spans").scan().plan_files()))
    assert told.errors.traces == sum(trace.error for trace in chosen)


def test_a_trace_that_goes_on_after_the_period_is_whole(lake: Lake) -> None:
    """Its later spans are in another file, and in another time."""
    put(lake, [Trace(1)])
    put(lake, [Trace(1, seconds=40, spans=2, late=True)])
    until = START + timedelta(seconds=20)
    told = simulator(lake, Period(until=until), max_duration_seconds=60).simulate(SETS["facts"])
    assert (told.before.traces, told.before.spans) == (1, 3)
    assert simulator(lake, Period(since=until)).simulate(SETS["facts"]).before.traces == 0


def test_limits_see_what_was_before_the_period(filled: Lake) -> None:
    """The traces of the first window compete with those that began before."""
    since = START + timedelta(seconds=323)
    (_told, whole), (_part, part) = (
        judged(simulator(filled, period), SETS["limited"]) for period in (Period(), Period(since))
    )
    assert part == {
        (trace.owner, trace.id): whole[trace.owner, trace.id] for trace in some_traces() if trace.seconds >= 323
    }


def test_what_a_sender_left_out_is_no_error_of_the_policies(lake: Lake) -> None:
    """A trace that its sender kept with a chance of a half stands for two, before the policies and after."""
    put(lake, [Trace(number, state="ot=th:8;rv:ffffffffffffff") for number in range(30)] + [Trace(99)])
    told = simulator(lake).simulate(policies({"name": "all", "type": "always_sample"}))
    assert told.before.traces == 31
    assert (told.estimates.traces.truth, told.estimates.traces.estimated) == (61.0, 61.0)
    assert told.estimates.mean_error == 0


def test_spans_without_a_trace_are_told(lake: Lake) -> None:
    """No policy can be asked about them."""

    class Lost(Trace):
        id = b""

    put(lake, [Trace(1), Lost(2, spans=3)])
    told = simulator(lake).simulate(SETS["facts"])
    assert told.before.spans == 1
    assert told.remarks == ("3 spans have no trace id and can't be sampled",)


def test_an_empty_table(lake: Lake) -> None:
    """There is nothing to say, and it is said."""
    told = simulator(lake).simulate(SETS["limited"])
    assert (told.before.traces, told.kept.traces, told.errors.traces, told.open) == (0, 0, 0, 0)
    assert told.estimates.mean_error is None
    assert told.estimates.traces.error is None
    assert [line.traces for line in told.policies] == [0, 0]


def test_progress_is_told(filled: Lake) -> None:
    """For both sets, of what is read and what is judged."""
    steps: list[tuple[str, int, int]] = []
    one = Simulator(filled, TailConfig(), clock=lambda: LATER, progress=lambda *step: steps.append(step))
    one.compare(SETS["facts"], SETS["limited"])
    assert {step for step, _done, _total in steps} == {"new: spans", "new: traces", "old: spans", "old: traces"}
    assert all(done <= total for _step, done, total in steps)
    assert ("old: traces", 2 * HALF, 2 * HALF) in steps


def test_the_organization_of_the_source_alone(filled: Lake) -> None:
    """Where the settings say whose spans are looked at."""
    told = simulator(filled, source={"organization": ACME}).simulate(SETS["facts"])
    assert told.before.traces == sum(trace.owner == ACME for trace in some_traces())
