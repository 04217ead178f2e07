"""Traces that are decided before they are complete: the first ones where memory is short, and all at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.again import is_limited, without_limits
from neve.tail.gather import MERGED
from neve.tail.policy.tree import Composite, Dynamic, RateLimit, Semantics
from neve.tail.ready import MEMORY, MICROS, Readiness
from neve.tail.summary import walk

if TYPE_CHECKING:
    import duckdb

    from neve.tail.policy.tree import PolicySet

PRESSED = "pressed"


@dataclass(frozen=True)
class AtOnce(Readiness):
    """The chosen traces are ready at a moment, and no others."""

    moment_us: int = 0

    @property
    def at(self) -> str:
        """When a trace is ready, as SQL."""
        chosen = f"(organization_id, trace_id) IN (SELECT (organization_id, trace_id) FROM {PRESSED})"
        return f"CASE WHEN {chosen} THEN {self.moment_us} ELSE {self.moment_us + MICROS} END"

    @property
    def because(self) -> str:
        """Why it is ready then, as SQL."""
        return f"'{MEMORY}'"


def press(connection: duckdb.DuckDBPyConnection, spans: int | None) -> int:
    """Choose traces of so many spans, those first that were seen first; all without a number. How many were chosen."""
    before = "sum(span_count) OVER (ORDER BY first_us, trace_id ROWS UNBOUNDED PRECEDING) - span_count"
    chosen = "" if spans is None else f"QUALIFY {before} < {spans}"
    connection.execute(f"CREATE OR REPLACE TABLE {PRESSED} AS SELECT organization_id, trace_id FROM {MERGED} {chosen}")
    row = connection.execute(f"SELECT count(*) FROM {PRESSED}").fetchone()
    return int(row[0]) if row else 0


class Allowance:
    """What limits give to traces that are decided early: as much as the time since the last of them is worth.

    A limit shares out the budget of a window when the window is over. Traces that can't wait for that are judged apart,
    with the seconds that went by since others were; where no second did, no limit samples them. So all of them together
    get no more than the limit, and those that wait get theirs as ever.
    """

    def __init__(self, policies: PolicySet, window_seconds: int) -> None:
        nodes = [node for policy in policies.policies for node in walk(policy)]
        has_budget = any(isinstance(node, RateLimit | Composite) for node in nodes)
        self._policies, self._window = policies, window_seconds
        self._step = math.lcm(1, *(node.interval_seconds for node in nodes if isinstance(node, Dynamic)))
        # The collector's buckets fill with time by themselves.
        self.matters = is_limited(policies) and has_budget and policies.semantics is Semantics.DOCUMENTED
        self._until_us = 0

    def take(self, since_us: int, now_us: int) -> tuple[PolicySet, int]:
        """The policies for what is decided early now, and the seconds that their limits hold for."""
        if not self.matters:
            return self._policies, self._window
        begin = max(self._until_us, since_us, now_us - self._window * MICROS)
        seconds = (now_us - begin) // MICROS // self._step * self._step
        if seconds < 1:
            return without_limits(self._policies), self._window
        self._until_us = begin + seconds * MICROS
        return self._policies, seconds
