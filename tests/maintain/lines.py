"""Made-up histories of tables: snapshots in a tree, branches, tags, streams and batches."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from neve.maintain.expire_plan import ExpirePlan, ExpirePolicy, TableState
from neve.maintain.snapshots import MAIN, Ref, Snapshot, head_of
from neve.model.commits import BATCH_ID, POSITIONS, STREAM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NOW = datetime(2026, 11, 16, 3, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


def snapshot(
    number: int, hours: float, summary: Mapping[str, str] | None = None, *, parent: int | None = None
) -> Snapshot:
    """A snapshot that was committed so many hours ago, after another one."""
    return Snapshot(number, parent, NOW - hours * HOUR, summary or {})


def line(*hours: float) -> tuple[Snapshot, ...]:
    """Snapshots 1, 2, 3 … one after the other, each so many hours old."""
    return tuple(snapshot(n, age, parent=n - 1 if n > 1 else None) for n, age in enumerate(hours, 1))


def branch(head: int, name: str = MAIN) -> Ref:
    """A branch without settings of its own."""
    return Ref(name, head, is_branch=True)


@st.composite
def histories(draw: Callable[..., object]) -> TableState:
    """Any history: commits of streams and batches, side lines, branches with an age of their own, tags."""
    count = draw(st.integers(1, 14))
    assert isinstance(count, int)
    ages = sorted(draw(st.lists(st.integers(0, 400), min_size=count, max_size=count)), reverse=True)  # type: ignore[call-overload]
    snapshots = []
    for number, age in enumerate(ages, 1):
        parent = draw(st.sampled_from([number - 1] * 4 + list(range(1, number)))) if number > 1 else None
        stream = draw(st.sampled_from(["", "raw", "kafka", "watch"]))
        summary = {BATCH_ID: f"batch-{number}"}
        if stream:
            summary |= {STREAM: str(stream), POSITIONS: json.dumps({"writer": number})}
        snapshots.append(snapshot(number, age, summary, parent=parent))  # type: ignore[arg-type]
    refs = [branch(draw(st.integers(max(1, count - 2), count)))]  # type: ignore[arg-type]
    for number in range(draw(st.integers(0, 3))):  # type: ignore[call-overload]
        refs.append(draw(_refs(f"ref{number}", count)))  # type: ignore[arg-type]
    batches = draw(st.frozensets(st.integers(1, count).map(lambda number: f"batch-{number}"), max_size=3))
    return TableState(tuple(snapshots), tuple(refs), batches)  # type: ignore[arg-type]


def _refs(name: str, count: int) -> st.SearchStrategy[Ref]:
    age = st.none() | st.integers(1, 500).map(lambda hours: hours * HOUR)
    return st.builds(
        Ref,
        st.just(name),
        st.integers(1, count),
        is_branch=st.booleans(),
        max_age=age,
        max_snapshot_age=age,
        min_snapshots=st.none() | st.integers(1, 4),
    )


policies = st.builds(
    ExpirePolicy,
    max_age=st.integers(1, 400).map(lambda hours: hours * HOUR),
    min_snapshots=st.integers(1, 6),
    floor=st.integers(0, 50).map(lambda hours: hours * HOUR),
    carry=st.booleans(),
    max_snapshots=st.integers(0, 12),
)


def carried(known: TableState, plan: ExpirePlan) -> TableState:
    """The table after the positions of resting streams were written anew."""
    for place, one in enumerate(plan.carry):
        head = head_of(known.refs)
        summary = {STREAM: one.stream, POSITIONS: one.snapshot.summary[POSITIONS]}
        new = Snapshot(1000 + place, head, NOW, summary)
        refs = tuple(replace(ref, snapshot_id=new.id) if ref.name == MAIN else ref for ref in known.refs)
        known = replace(known, snapshots=(*known.snapshots, new), refs=refs)
    return known


def expired(known: TableState, plan: ExpirePlan) -> TableState:
    """The table after a plan without positions to carry was applied."""
    snapshots = tuple(one for one in known.snapshots if one not in plan.expire)
    return replace(known, snapshots=snapshots, refs=tuple(ref for ref in known.refs if ref not in plan.drop))
