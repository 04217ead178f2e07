"""What a plan takes, what it leaves alone and what its limits cut, partition after partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.compact.budgets import NO_BUDGETS
from neve.compact.candidate import Take
from neve.compact.groups import group_of
from neve.compact.limits import Budget, Spending
from neve.compact.plan import Cut
from neve.compact.ranking import too_late
from neve.compact.words import number
from neve.lake.partition_stats import PartitionId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.budgets import Allowances
    from neve.compact.context import Context
    from neve.compact.plan import Group, LeftAlone, Partition
    from neve.compact.strategies import Draft, Strategy
    from neve.compact.verdict import Verdict
    from neve.lake.file_index import IndexedFile

# Which partitions are wanted (and whether all of their cold files are), how many files of each at most.
Fetch = Callable[[Mapping[PartitionId, bool], int], "Mapping[PartitionId, Sequence[IndexedFile]]"]

MOST_FILES = 1_000_000  # of one partition, where no limit says less


@dataclass
class Work:
    """What has been decided so far."""

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
            most = int(min(self.budget.files_left, MOST_FILES))
            found = fetch({_id(verdict): verdict.everything for verdict in verdicts}, most)
            for verdict in verdicts:
                self._plan(verdict, found.get(_id(verdict), ()), most)
        else:
            for verdict in verdicts:
                self._cut_whole(verdict, self.used_up)

    def _plan(self, verdict: Verdict, files: Sequence[IndexedFile], most: int) -> None:
        if self.used_up is not None:
            self._cut_whole(verdict, self.used_up)
            return
        candidates = [self.context.judge.candidate(file) for file in files]
        complete = len(files) < most
        draft = self.strategy.plan(verdict, candidates, self.context, complete=complete)
        if not draft.bins:
            self.left_alone.append(verdict.left_alone(f"{verdict.reason}; but no rewrite would leave fewer files"))
        elif draft.verdict.whole:
            self._take_whole(draft, complete=complete)
        else:
            self._take_groups(draft, complete=complete)

    def _take_groups(self, draft: Draft, *, complete: bool) -> None:
        """As many of the groups as the limits allow."""
        groups = [group_of(files, draft.verdict, self.context) for files in draft.bins]
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
        """Whether all files of the partition have the table's layout when the groups are there."""
        wanted = self.context.table.layout
        takes_all = bool(verdict.take & Take.UNLAID) and not verdict.measure.stats.hot.files
        return wanted.kind != "keep" and takes_all and all(group.layout == wanted for group in groups)

    def _take_whole(self, draft: Draft, *, complete: bool) -> None:
        """All of the groups or none."""
        groups = [group_of(files, draft.verdict, self.context) for files in draft.bins]
        if not complete:
            if self.budget.taken.files:
                self.used_up = "max_files"  # alone it may fit
            self._cut(groups, "max_files")
            return
        cut = self._spend(groups)
        if cut is not None:
            self.cut.append(cut)
            return
        self.groups += groups
        self.lays_out.append(draft.verdict.measure.partition)

    def _spend(self, groups: Sequence[Group]) -> Cut | None:
        """Take groups out of the budgets; what is said where that is not allowed. A limit of the run then is used up.

        What no run could ever take, because it is more than the limit by itself, leaves the others their turn; and so
        does what is over the budget of its organization.
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
        """The files of a partition that were too many to be looked at."""
        share = verdict.share
        rest = share.files - taken
        if rest <= 0:
            return
        self.used_up = "max_files"
        words = self.budget.limits.words("max_files")
        reason = f"{number(rest, 'file')} at about are left for another run: {words} is used up"
        total = share.bytes * rest // max(1, share.files)
        self.cut.append(Cut(verdict.measure.partition, rest, total, "max_files", reason))

    def _cut_whole(self, verdict: Verdict, limit: str) -> None:
        share = verdict.share
        reason = too_late(verdict, self.budget.limits.words(limit))
        self.cut.append(Cut(verdict.measure.partition, share.files, share.bytes, limit, reason))


def _id(verdict: Verdict) -> PartitionId:
    return verdict.measure.stats.spec_id, verdict.measure.stats.text
