"""What is remembered of partitions, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from neve.compact import Compactor
from neve.compact.config import CompactConfig
from neve.compact.partition_memory import CHECKS, SPACE, PartitionMemories, PartitionMemory
from neve.compact.result import CompactResult, History
from tests.compact.model import ModelTable, Tended
from tests.compact.tables import documents_in
from tests.compact.test_planner import partition_of
from tests.compact.test_table_planning import MB, NOW, add

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.state.documents import Documents

NAME = "db.t"
THEN = datetime(2026, 3, 1, tzinfo=UTC)


def test_another_table_of_the_same_name_knows_nothing(tmp_path: Path) -> None:
    """A table that was dropped and made anew starts with nothing; nor was it ever looked at."""
    documents = documents_in(tmp_path)
    plan = Tended(ModelTable(partition_of("a", 12)), "small_files").plan()
    first, second = PartitionMemories(documents, NAME, "one"), PartitionMemories(documents, NAME, "two")
    first.learn(plan, [group.id for group in plan.groups], THEN)
    first.record_check(THEN, plan)
    assert first.load() == {plan.groups[0].partition.key: PartitionMemory(minor_at=THEN)}
    assert not first.is_check_due(THEN, 60)
    assert second.load() == {}
    assert second.is_check_due(THEN, 60)


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    """After a look at every partition nothing is kept of others, nor of an older table; other tables keep theirs."""
    documents = documents_in(tmp_path)
    both = Tended(ModelTable([*partition_of("a", 12), *partition_of("b", 12)]), "small_files").plan()
    done = [group.id for group in both.groups]
    old, now, other = (PartitionMemories(documents, *of) for of in ((NAME, "old"), (NAME, "now"), ("db.t2", "x")))
    for memories in (old, now, other):
        memories.learn(both, done, THEN)
        memories.record_check(THEN, both)
    one = Tended(ModelTable(partition_of("a", 1)), "small_files").plan()
    now.record_check(THEN, one)
    assert set(now.load()) == one.partition_keys
    assert len(one.partition_keys) == 1
    assert set(other.load()) == both.partition_keys
    assert [key for key, _ in documents.entries(SPACE, f"{NAME}/")] == [f"{NAME}/now/{key}" for key in now.load()]
    assert [key for key, _ in documents.entries(CHECKS)] == [f"{NAME}/now/", "db.t2/x/"]


def test_dollars_are_those_of_all_tables(lake: Lake, tmp_path: Path) -> None:
    """What the compaction of one table took of an hour is not there for another one."""
    documents = documents_in(tmp_path)
    add(lake.table("logs"), *[MB] * 12)
    compactor = Compactor(lake, documents=documents, config=CompactConfig(max_dollars=1), clock=lambda: NOW)
    assert compactor.plan("logs").groups
    History(documents).add(spent("telemetry.spans", NOW, 2.0))
    plan = compactor.plan("logs")
    assert (plan.groups, [cut.limit for cut in plan.cut]) == ((), ["max_dollars"])


def test_nothing_to_do_needs_no_past(lake: Lake) -> None:
    """Where the summary of the snapshot tells all, the state store is not asked."""
    add(lake.table("logs"), *[500 * MB] * 20)
    compactor = Compactor(lake, documents=cast("Documents", None), config=CompactConfig(), clock=lambda: NOW)
    assert "according to the snapshot summary" in compactor.plan("logs").reason


def spent(table: str, started: datetime, dollars: float) -> CompactResult:
    """A run that cost something."""
    numbers = dict.fromkeys(CompactResult.__dataclass_fields__, 0)
    texts = {"run_id": "r", "table": table, "started": started.isoformat(), "strategy": "adaptive", "reason": "test"}
    lists: dict[str, Any] = {"continued": (), "errors": (), "work": ()}
    return CompactResult(**cast("Any", {**numbers, **texts, **lists, "dollars": dollars}))
