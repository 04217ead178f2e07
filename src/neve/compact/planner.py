"""The planner: measures and files in, a plan out; no clock, no storage, no engine."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import xxhash

from neve.compact.budgets import NO_BUDGETS
from neve.compact.closed import to_look_through
from neve.compact.health import table_health
from neve.compact.limits import Budget
from neve.compact.plan import Plan
from neve.compact.ranking import ranked
from neve.compact.words import number
from neve.compact.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.compact.budgets import Allowances
    from neve.compact.context import Context
    from neve.compact.limits import Limits
    from neve.compact.measure import Measure
    from neve.compact.plan import Group, Partition
    from neve.compact.strategies import Strategy
    from neve.compact.verdict import Verdict
    from neve.compact.work import Fetch

FETCH_FILES = 20_000


def make_plan(
    context: Context,
    strategy: Strategy,
    measures: Sequence[Measure],
    fetch: Fetch,
    limits: Limits,
    allowances: Allowances = NO_BUDGETS,
) -> Plan:
    """What is to be done, in the order of its urgency, until a limit is reached; for whom it is paid, as budgets allow.

    Whoever's budget is used up takes nothing of the limits that all share.
    """
    verdicts = [strategy.score(measure, context) for measure in measures]
    work = Work(context, strategy, Budget(limits), allowances)
    work.left_alone += [verdict.left_alone() for verdict in verdicts if not verdict.has_work]
    for chunk in _chunks(ranked(verdicts)):
        work.take(chunk, fetch)
    return _plan(work, measures)


def nothing(context: Context, strategy: str, reason: str, summary: Mapping[str, str]) -> Plan:
    """The plan of a table whose summary says that there is nothing to do."""
    table = context.table
    return Plan(
        id=_plan_id(context, ()),
        table=table.name,
        snapshot_id=table.snapshot_id,
        sequence=table.sequence,
        strategy=strategy,
        target_bytes=table.sizes.target,
        reason=reason,
        health=100.0,
        files=int(summary.get("total-data-files", 0)),
        bytes=int(summary.get("total-files-size", 0)),
        delete_files=int(summary.get("total-delete-files", 0)),
    )


def _chunks(verdicts: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """Partitions whose files are fetched together: not many files at once."""
    chunk: list[Verdict] = []
    files = 0
    for verdict in verdicts:
        if chunk and files + verdict.share.files > FETCH_FILES:
            yield chunk
            chunk, files = [], 0
        chunk.append(verdict)
        files += verdict.share.files
    if chunk:
        yield chunk


def _plan(work: Work, measures: Sequence[Measure]) -> Plan:
    table = work.context.table
    check = to_look_through(measures, work.context)
    return Plan(
        id=_plan_id(work.context, work.groups),
        table=table.name,
        snapshot_id=table.snapshot_id,
        sequence=table.sequence,
        strategy=work.strategy.name,
        target_bytes=table.sizes.target,
        reason=_summary(work, len(measures), check),
        health=table_health((measure.stats, measure.health) for measure in measures),
        files=sum(measure.stats.files for measure in measures),
        bytes=sum(measure.stats.bytes for measure in measures),
        delete_files=sum(measure.stats.deletes.files for measure in measures),
        groups=tuple(work.groups),
        left_alone=tuple(work.left_alone),
        cut=tuple(work.cut),
        check_duplicates=check,
        lays_out=tuple(work.lays_out),
    )


def _summary(work: Work, partitions: int, check: Sequence[Partition]) -> str:
    """The plan in one sentence."""
    if not work.groups and not work.cut:
        words = f"nothing to rewrite in {number(partitions, 'partition')}"
    else:
        touched = len({group.partition for group in work.groups})
        files = number(sum(len(group.files) for group in work.groups), "file")
        words = f"{number(len(work.groups), 'group')} of {files} in {touched:,} of {number(partitions, 'partition')}"
    if work.cut:
        words += f"; {number(len({cut.partition for cut in work.cut}), 'partition')} cut by a limit"
    return f"{words}; {number(len(check), 'partition')} to look through for duplicates" if check else words


def _plan_id(context: Context, groups: Sequence[Group]) -> str:
    """A name that sorts by time."""
    digest = xxhash.xxh3_64(context.table.uuid.encode())
    digest.update(str(context.table.snapshot_id).encode())
    for group in groups:
        digest.update(group.id.encode())
    return f"{context.now.astimezone(UTC):%Y%m%dT%H%M%S%f}-{digest.hexdigest()}"
