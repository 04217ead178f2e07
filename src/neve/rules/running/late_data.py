"""Late data: the evaluations that it changes. Pure.

A point at a time changes the results of a rule from that time on, for as long as its ranges and offsets reach back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from neve.promql.language.parser import parse
from neve.promql.language.syntax import METRIC_NAME, Number, RangeSelector, Subquery, VectorSelector, walk
from neve.promql.series import STALE
from neve.rules.evaluation import RecordedSample
from neve.rules.running.group_documents import is_stale_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neve.lake.time_ranges import Ranges
    from neve.promql.labels import Labels
    from neve.promql.language.syntax import Duration
    from neve.rules.rule_file import Rule

__all__ = ["UNBOUNDED_MS", "add_stale_marks", "differ", "find_reach", "list_affected_steps"]

LOOKBACK_MS = 300_000
UNBOUNDED_MS = 2**53  # the reach of an expression with a fixed time, or with a computed duration
Samples = dict[tuple["Labels", int], float]


def find_reach(rule: Rule, recorded: Mapping[str, Rule], seen: frozenset[str] = frozenset()) -> int:
    """Return for how many milliseconds a point can change the results of a rule, also through other recording rules.

    The sum of all ranges and offsets is an upper bound.
    """
    reach = LOOKBACK_MS
    for node in walk(parse(rule.expression)):
        if isinstance(node, RangeSelector):
            reach += _milliseconds(node.range)
        elif isinstance(node, Subquery):
            reach += _milliseconds(node.range) + _milliseconds(node.timing.offset)
            reach += UNBOUNDED_MS if node.timing.has_at else LOOKBACK_MS
        elif isinstance(node, VectorSelector):
            reach += _milliseconds(node.timing.offset) + (UNBOUNDED_MS if node.timing.has_at else 0)
            reach += max(
                (find_reach(recorded[one], recorded, seen | {one}) for one in _read(node, recorded, seen)), default=0
            )
    return min(reach, UNBOUNDED_MS)


def _read(node: VectorSelector, recorded: Mapping[str, Rule], seen: frozenset[str]) -> list[str]:
    """Return the recording rules whose series a selector may choose."""
    names = [one for one in node.all_matchers if one.name == METRIC_NAME]
    return [name for name in recorded if name not in seen and all(one.match_all([name])[0] for one in names)]


def _milliseconds(duration: Duration | None) -> int:
    if duration is None:
        return 0
    return math.ceil(abs(duration.value) * 1000) if isinstance(duration, Number) else UNBOUNDED_MS


def list_affected_steps(touched: Ranges, reach_ms: int, step_ms: int, since_ms: int, until_ms: int) -> range:
    """Return the evaluations from the first to the last that touched times can change, at multiples of the step.

    Touched times are in microseconds. Evaluations are after `since_ms` and at most at `until_ms`.
    """
    if not touched:
        return range(0)
    first = max(min(start for start, _ in touched) // 1000, since_ms + 1)
    last = min(max(end for _, end in touched) // 1000 + reach_ms, until_ms)
    return range(-(-first // step_ms) * step_ms, last + 1, step_ms)


def add_stale_marks(samples: Samples, steps: Sequence[int], before: Iterable[Labels]) -> Samples:
    """Return the samples of a rule with a mark where a series ends. `before` are the series before the first step."""
    found = dict(samples)
    current = set(before)
    by_step: dict[int, set[Labels]] = {}
    for labels, time_ms in samples:
        by_step.setdefault(time_ms, set()).add(labels)
    for time_ms in steps:
        now = by_step.get(time_ms, set())
        found.update(dict.fromkeys([(labels, time_ms) for labels in current - now], STALE))
        current = now
    return found


def differ(left: Samples, right: Samples) -> list[RecordedSample]:
    """Return the samples of the right side that the left side lacks or has with another value."""
    return [
        RecordedSample(labels, time_ms, value)
        for (labels, time_ms), value in right.items()
        if (labels, time_ms) not in left or not _is_same(left[labels, time_ms], value)
    ]


def _is_same(left: float, right: float) -> bool:
    if is_stale_mark(left) or is_stale_mark(right):
        return is_stale_mark(left) and is_stale_mark(right)
    return left == right or (math.isnan(left) and math.isnan(right))
