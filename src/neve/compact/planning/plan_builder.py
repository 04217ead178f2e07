"""Build a plan from measures and files, one partition at a time, up to a limit. Pure: no clock, no storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import xxhash

from neve.compact.budgets import NO_BUDGETS
from neve.compact.health import score_table
from neve.compact.plan import Cut, Plan
from neve.compact.planning.candidates import FileKind
from neve.compact.planning.groups import make_group
from neve.compact.planning.limits import Budget, Spending
from neve.compact.strategies.verdict import explain_cut, rank_verdicts
from neve.lake.read.partition_stats import PartitionId
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.compact.budgets import Allowances
    from neve.compact.health import Measure
    from neve.compact.plan import Group, LeftAlone, Partition
    from neve.compact.planning.context import Context
    from neve.compact.planning.limits import Limits
    from neve.compact.strategies import Draft, Strategy
    from neve.compact.strategies.verdict import Verdict
    from neve.lake.read.file_index import IndexedFile


MICROS = 1_000_000


def select_for_duplicate_search(measures: Sequence[Measure], context: Context) -> tuple[Partition, ...]:
    """Return closed partitions that received files since their last duplicate search, the oldest first."""
    config = context.config
    if not config.deduplicate or not context.table.has_record_id:
        return ()
    closed = context.now.astimezone(UTC) - timedelta(seconds=config.close_seconds)
    closed_us = int(closed.timestamp() * MICROS)
    found = [
        (measure.stats.time_high, measure.partition)
        for measure in measures
        if measure.stats.time_high is not None
        and measure.stats.time_high < closed_us
        and measure.stats.newest_sequence > context.memory(measure.partition).deduplicated_sequence
    ]
    ordered = sorted(found, key=lambda one: (one[0], one[1].spec_id, one[1].label))
    return tuple(partition for _time, partition in ordered[: config.duplicate_partitions])


# Arguments: the wanted partitions (and whether all of their cold files are), the maximum number of files of each.
Fetch = Callable[[Mapping[PartitionId, bool], int], "Mapping[PartitionId, Sequence[IndexedFile]]"]

MAX_FILES = 1_000_000  # of one partition, unless a limit is lower


@dataclass
class PlanBuilder:
    """The decisions so far."""

    context: Context
    strategy: Strategy
    budget: Budget
    allowances: Allowances = NO_BUDGETS
    groups: list[Group] = field(default_factory=list)
    left_alone: list[LeftAlone] = field(default_factory=list)
    cut: list[Cut] = field(default_factory=list)
    lays_out: list[Partition] = field(default_factory=list)
    used_up: str | None = None

    def take(self, verdicts: Sequence[Verdict], fetch: Fetch) -> None:
        """Plan some partitions, one after the other."""
        if self.used_up is None:
            most = int(min(self.budget.files_left, MAX_FILES))
            found = fetch({_partition_id(verdict): verdict.everything for verdict in verdicts}, most)
            for verdict in verdicts:
                self._plan(verdict, found.get(_partition_id(verdict), ()), most)
        else:
            for verdict in verdicts:
                self._cut_whole(verdict, self.used_up)

    def _plan(self, verdict: Verdict, files: Sequence[IndexedFile], most: int) -> None:
        if self.used_up is not None:
            self._cut_whole(verdict, self.used_up)
            return
        candidates = [self.context.classifier.candidate(file) for file in files]
        complete = len(files) < most
        draft = self.strategy.plan(verdict, candidates, self.context, complete=complete)
        if not draft.bins:
            self.left_alone.append(verdict.left_alone(f"{verdict.reason}; but no rewrite would leave fewer files"))
        elif draft.verdict.whole:
            self._take_whole(draft, complete=complete)
        else:
            self._take_groups(draft, complete=complete)

    def _take_groups(self, draft: Draft, *, complete: bool) -> None:
        """Add as many of the groups as the limits allow."""
        groups = [make_group(files, draft.verdict, self.context) for files in draft.bins]
        fits = True
        for position, group in enumerate(groups):
            cut = self._spend([group])
            if self.used_up is not None:
                self._cut(groups[position:], self.used_up)
                return
            if cut is not None:
                fits = False
                self.cut.append(cut)
            else:
                self.groups.append(group)
        if not complete:
            self._cut_rest(draft.verdict, sum(len(group.files) for group in groups))
        elif fits and self._lays_out(draft.verdict, groups):
            self.lays_out.append(draft.verdict.measure.partition)

    def _lays_out(self, verdict: Verdict, groups: Sequence[Group]) -> bool:
        """Return whether all files of the partition have the table's layout after the groups are published."""
        wanted = self.context.table.layout
        takes_all = bool(verdict.take & FileKind.UNLAID) and not verdict.measure.stats.hot.files
        return wanted.kind != "keep" and takes_all and all(group.layout == wanted for group in groups)

    def _take_whole(self, draft: Draft, *, complete: bool) -> None:
        """Add all of the groups or none."""
        groups = [make_group(files, draft.verdict, self.context) for files in draft.bins]
        if not complete:
            if self.budget.taken.files:
                self.used_up = "max_files"  # a group alone may fit
            self._cut(groups, "max_files")
            return
        cut = self._spend(groups)
        if cut is not None:
            self.cut.append(cut)
            return
        self.groups += groups
        self.lays_out.append(draft.verdict.measure.partition)

    def _spend(self, groups: Sequence[Group]) -> Cut | None:
        """Charge groups to the budgets, or return a cut if that is not allowed.

        The limit of the run is then used up.

        Two cases leave the limit to other groups: work that exceeds the limit by itself, so that no run could ever do
        it, and work over the budget of its organization.
        """
        refusal = self.allowances.refusal(groups)
        if refusal is not None:
            return refusal
        spending = Spending.of_all(groups)
        after = self.budget.take(spending)
        if isinstance(after, Budget):
            self.budget = after
            self.allowances = self.allowances.after(groups)
            return None
        never = self.budget.limits.never_allow(spending)
        if never is None:
            self.used_up = after
        return self.budget.limits.cut(groups, never or after, alone=never is not None)

    def _cut(self, groups: Sequence[Group], limit: str) -> None:
        self.cut.append(self.budget.limits.cut(groups, limit, alone=self.used_up is None))

    def _cut_rest(self, verdict: Verdict, taken: int) -> None:
        """Record a cut for the files of a partition that were too many to be read."""
        share = verdict.share
        rest = share.files - taken
        if rest <= 0:
            return
        self.used_up = "max_files"
        limit = self.budget.limits.describe("max_files")
        reason = f"about {format_count(rest, 'file')} are postponed to another run: {limit} is used up"
        total = share.bytes * rest // max(1, share.files)
        self.cut.append(Cut(verdict.measure.partition, rest, total, "max_files", reason))

    def _cut_whole(self, verdict: Verdict, limit: str) -> None:
        share = verdict.share
        reason = explain_cut(verdict, self.budget.limits.describe(limit))
        self.cut.append(Cut(verdict.measure.partition, share.files, share.bytes, limit, reason))


def _partition_id(verdict: Verdict) -> PartitionId:
    return verdict.measure.stats.spec_id, verdict.measure.stats.text


FETCH_FILES = 20_000


def make_plan(
    context: Context,
    strategy: Strategy,
    measures: Sequence[Measure],
    fetch: Fetch,
    limits: Limits,
    allowances: Allowances = NO_BUDGETS,
) -> Plan:
    """Plan work in the order of urgency until a limit is reached, within the budgets of the organizations.

    An organization whose budget is used up takes nothing of the shared limits.
    """
    verdicts = [strategy.score(measure, context) for measure in measures]
    work = PlanBuilder(context, strategy, Budget(limits), allowances)
    work.left_alone += [verdict.left_alone() for verdict in verdicts if not verdict.has_work]
    for chunk in _split_verdicts(rank_verdicts(verdicts)):
        work.take(chunk, fetch)
    return _finish_plan(work, measures)


def make_empty_plan(context: Context, strategy: str, reason: str, summary: Mapping[str, str]) -> Plan:
    """Return the plan of a table whose summary shows no work."""
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


def _split_verdicts(verdicts: Sequence[Verdict]) -> Iterator[list[Verdict]]:
    """Yield partitions whose files are fetched together, so that few files are in memory at once."""
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


def _finish_plan(work: PlanBuilder, measures: Sequence[Measure]) -> Plan:
    table = work.context.table
    check = select_for_duplicate_search(measures, work.context)
    return Plan(
        id=_plan_id(work.context, work.groups),
        table=table.name,
        snapshot_id=table.snapshot_id,
        sequence=table.sequence,
        strategy=work.strategy.name,
        target_bytes=table.sizes.target,
        reason=_summarize(work, len(measures), check),
        health=score_table((measure.stats, measure.health) for measure in measures),
        files=sum(measure.stats.files for measure in measures),
        bytes=sum(measure.stats.bytes for measure in measures),
        delete_files=sum(measure.stats.deletes.files for measure in measures),
        groups=tuple(work.groups),
        left_alone=tuple(work.left_alone),
        cut=tuple(work.cut),
        check_duplicates=check,
        lays_out=tuple(work.lays_out),
    )


def _summarize(work: PlanBuilder, partitions: int, check: Sequence[Partition]) -> str:
    """Return the plan as one sentence."""
    if not work.groups and not work.cut:
        summary = f"nothing to rewrite in {format_count(partitions, 'partition')}"
    else:
        touched = len({group.partition for group in work.groups})
        files = format_count(sum(len(group.files) for group in work.groups), "file")
        summary = (
            f"{format_count(len(work.groups), 'group')} of {files} "
            f"in {touched:,} of {format_count(partitions, 'partition')}"
        )
    if work.cut:
        summary += f"; {format_count(len({cut.partition for cut in work.cut}), 'partition')} cut by a limit"
    return f"{summary}; {format_count(len(check), 'partition')} to search for duplicates" if check else summary


def _plan_id(context: Context, groups: Sequence[Group]) -> str:
    """Return an id that sorts by time."""
    digest = xxhash.xxh3_64(context.table.uuid.encode())
    digest.update(str(context.table.snapshot_id).encode())
    for group in groups:
        digest.update(group.id.encode())
    return f"{context.now.astimezone(UTC):%Y%m%dT%H%M%S%f}-{digest.hexdigest()}"
