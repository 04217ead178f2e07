"""The policies in their order: what applies to a task of a table, and what does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from neve.errors import ConfigError
from neve.work.concerns import tables_for
from neve.work.defaults import BUILT_IN, built_in
from neve.work.quiet import HORIZON, Window, last_window

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.work.batch import Batch
    from neve.work.policy import Budget, Policy, Rule
    from neve.work.task import Task


@dataclass(frozen=True)
class Found:
    """A rule, and the policy that it is of."""

    policy: str
    rule: Rule


@dataclass(frozen=True)
class Hush:
    """Quiet hours that a moment is in, and the policy that they are of."""

    policy: str
    window: Window
    endless: bool

    def __str__(self) -> str:
        until = "without end" if self.endless else f"until {self.window.end_words}"
        return f"quiet hours of policy {self.policy} {until}"


@dataclass(frozen=True)
class Policies:
    """What users wrote, in order, and what applies where they wrote nothing."""

    written: tuple[Policy, ...] = ()
    defaults: Policy = field(default_factory=lambda: built_in(None))

    def __post_init__(self) -> None:
        counts = Counter(policy.name for policy in (*self.written, self.defaults))
        twice = next((name for name, count in counts.items() if count > 1), None)
        if twice is not None:
            more = "it is the name of what applies without policies" if twice == BUILT_IN else "it is there twice"
            raise ConfigError(f"a policy has the name {twice!r}, expected another one: {more}")

    @property
    def all(self) -> tuple[Policy, ...]:
        """In the order in which they are asked."""
        return (*self.written, self.defaults)

    @property
    def plain(self) -> list[dict[str, Any]]:
        """What users wrote, as values of JSON, without what they left out."""
        return [policy.model_dump(mode="json", exclude_unset=True) for policy in self.written]

    def rule(self, task: Task, table: str) -> Found | None:
        """The first rule for a task of a table; one that is not enabled is a rule, too."""
        for policy in self.all:
            if task in policy.tasks and _matches(policy, table):
                return Found(policy.name, policy.tasks[task])
        return None

    def batch(self, task: Task, table: str) -> Batch | None:
        """How commits are gathered into work; none where they start none."""
        found = self.rule(task, table)
        return found.rule.batch if found and found.rule.enabled else None

    def hush(self, task: Task, table: str, now: datetime) -> Hush | None:
        """The quiet hours that a task of a table is in: those of all policies that match, whichever has the rule."""
        written = [
            (policy.name, quiet)
            for policy in self.all
            if _matches(policy, table)
            for quiet in policy.quiet
            if task in quiet.tasks
        ]
        last = last_window([quiet for _name, quiet in written], now)
        if last is None:
            return None
        # Said in the name of the policy whose hours hold now; another's may follow them.
        name = next(name for name, quiet in written if last_window([quiet], now))
        return Hush(name, last, endless=last.end - now >= HORIZON)

    def quiet(self, task: Task, table: str, now: datetime) -> str | None:
        """Why a task of a table may not begin now, by the hour; none where it may."""
        hush = self.hush(task, table, now)
        return str(hush) if hush else None

    def budgets(self) -> list[Budget]:
        """For an organization the first that matches counts."""
        return [budget for policy in self.all for budget in policy.budgets]

    def warnings(self, tables: Sequence[str]) -> list[str]:
        """What was written and has no effect on a lake of these tables."""
        return [words for policy in self.written for words in self._warnings(policy, tables)]

    def _warnings(self, policy: Policy, tables: Sequence[str]) -> list[str]:
        idle = [pattern for pattern in policy.tables if not any(fnmatchcase(name, pattern) for name in tables)]
        if len(idle) == len(policy.tables):
            return [f"policy {policy.name}: no table of the lake matches {', '.join(idle)}"]
        found = [f"policy {policy.name}: no table of the lake matches {pattern}" for pattern in idle]
        for task in policy.tasks:
            about = [name for name in tables_for(task, tables) if _matches(policy, name)]
            if not about:
                found.append(f"policy {policy.name}: none of its tables is one that {task} is about")
            elif not any(self._decides(policy, task, name) for name in about):
                found.append(f"policy {policy.name}: {task} of its tables is decided by policies before it")
        return found

    def _decides(self, policy: Policy, task: Task, table: str) -> bool:
        found = self.rule(task, table)
        return found is not None and found.policy == policy.name


def _matches(policy: Policy, table: str) -> bool:
    return any(fnmatchcase(table, pattern) for pattern in policy.tables)
