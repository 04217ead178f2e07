"""Choice of metrics by the matchers of a selector: both spellings of a name, and the series that a metric becomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lexical.matchers import Matcher
from neve.promql.labels import Labels, match_sets
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage.otel_names import PARTS, Metric, translate_label, translate_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["LATE", "Choice", "Choices", "choose_parts", "is_rolled", "match_late", "split_matchers"]

LATE = frozenset({"le", "quantile"})  # labels that single series of a metric add


@dataclass(frozen=True, slots=True)
class Choice:
    """Part of a metric that a selector chooses, and the name in the answer."""

    metric: Metric
    part: str
    shown: str


Choices = dict[Metric, list[Choice]]


def split_matchers(matchers: Sequence[Matcher]) -> tuple[list[Matcher], list[Matcher]]:
    """Return the matchers of the name, and those of labels in Prometheus' spelling."""
    names = [one for one in matchers if one.name == METRIC_NAME]
    others = [one for one in matchers if one.name != METRIC_NAME]
    return names, [Matcher(translate_label(one.name), one.kind, one.value) for one in others]


def choose_parts(
    metrics: Iterable[Metric], matchers: Sequence[Matcher], check: Callable[[], None]
) -> dict[str, Choices]:
    """Return the parts of metrics whose name matches, by type. Both spellings of a name are accepted."""
    parts = [
        Choice(metric, part, name)
        for metric in metrics
        for part in PARTS.get(metric.kind, ())
        for name in (translate_name(metric) + part, metric.name + part)
    ]
    chosen = match_sets([((METRIC_NAME, one.shown),) for one in parts], matchers, check)
    found: dict[str, Choices] = {}
    seen: set[tuple[Metric, str]] = set()
    for one, is_match in zip(parts, chosen, strict=True):
        if is_match and (one.metric, one.part) not in seen:
            seen.add((one.metric, one.part))
            found.setdefault(one.metric.kind, {}).setdefault(one.metric, []).append(one)
    return found


def match_late(sets: Sequence[Labels], matchers: Sequence[Matcher], check: Callable[[], None]) -> Iterator[Labels]:
    """Yield the label sets whose labels of single series match."""
    late = [one for one in matchers if one.name in LATE]
    if not late:
        yield from sets
        return
    matched = match_sets(sets, late, check)
    yield from (one for one, is_match in zip(sets, matched, strict=True) if is_match)


def is_rolled(metric: Metric, parts: Sequence[Choice]) -> bool:
    """Return whether rollups have the values of a gauge, or the growth of a cumulative counter or of its buckets."""
    if metric.kind == "histogram":
        return not metric.is_delta and [one.part for one in parts] == ["_bucket"]
    return metric.kind == "gauge" or (metric.is_monotonic and not metric.is_delta)
