"""Which rule of retention counts for a table and an organization: the one that says most."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from neve.model.search import SEARCH_INDEX
from neve.model.signals import Signal
from neve.model.tables import INGESTED_FILES, NAMESPACE
from neve.model.tail import OPEN_TRACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.maintain.config import RetentionRule

# Forgetting which files were taken in takes them in again, the search index goes with the files that it is about, and
# open traces are not decided yet: only a rule that names the table counts.
BY_NAME_ONLY = (INGESTED_FILES.name, SEARCH_INDEX.name, OPEN_TRACES.name)


def rules_for(rules: Sequence[RetentionRule], table: str) -> tuple[RetentionRule, ...]:
    """The rules that are about a table, those for single organizations too."""
    return tuple(rule for rule in rules if _fits_table(rule, bare(table)) and _fits_signal(rule, bare(table)))


def rule_for(rules: Sequence[RetentionRule], organization: str | None) -> RetentionRule | None:
    """Of a table's rules the one for an organization (`None`: for rows of nobody in particular).

    Where two say as much, the one that keeps rows longer counts.
    """
    fitting = [rule for rule in rules if rule.organization in ("", organization)]
    return max(fitting, key=_rank, default=None)


def bare(table: str) -> str:
    """A table's name as rules write it: without the namespace where that is the lake's own.

    >>> bare("telemetry.spans"), bare("sales.orders")
    ('spans', 'sales.orders')
    """
    return table.removeprefix(f"{NAMESPACE}.")


def named(rule: RetentionRule) -> str:
    """A rule in words."""
    parts = [
        f"table {rule.table}" if rule.table != "*" else "",
        f"organization {rule.organization}" if rule.organization else "",
        f"signal {rule.signal}" if rule.signal else "",
    ]
    return ", ".join(part for part in parts if part) or "every table"


def _fits_table(rule: RetentionRule, table: str) -> bool:
    return rule.table == table if table in BY_NAME_ONLY else fnmatchcase(table, rule.table)


def _fits_signal(rule: RetentionRule, table: str) -> bool:
    return not rule.signal or Signal(rule.signal).table == table


def _rank(rule: RetentionRule) -> tuple[bool, bool, bool, bool, float]:
    exact = not any(mark in rule.table for mark in "*?[")
    return bool(rule.organization), exact, bool(rule.signal), rule.table != "*", rule.days or float("inf")
