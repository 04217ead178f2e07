"""Filters of labels. A value that is no number, duration or size keeps its line, with an error."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.lexical.units import UnitError, parse_bytes, parse_float, parse_go_duration
from neve.logql.language.syntax import (
    BytesFilter,
    Combination,
    DurationFilter,
    IpFilter,
    LabelCondition,
    NumberFilter,
    StringFilter,
)
from neve.logql.pipeline.ip_filter import contains_address, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.logql.pipeline.entry import Entry

__all__ = ["LabelFilterStage", "list_names", "match_labels"]

LABEL_ERROR = "LabelFilterErr"
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_CONVERT: dict[type, Callable[[str], float]] = {
    NumberFilter: parse_float,
    DurationFilter: parse_go_duration,
    BytesFilter: parse_bytes,
}


def list_names(condition: LabelCondition) -> set[str]:
    """Return the labels that a condition names."""
    if isinstance(condition, Combination):
        return list_names(condition.left) | list_names(condition.right)
    return {condition.matcher.name if isinstance(condition, StringFilter) else condition.name}


def match_labels(condition: LabelCondition, entries: Sequence[Entry]) -> list[bool]:
    """Return which lines pass a condition."""
    if isinstance(condition, Combination):
        return _combine(condition, entries)
    if isinstance(condition, StringFilter):
        name = condition.matcher.name
        values = [one.value(name) for one in entries]
        distinct = list(dict.fromkeys(values))
        results = dict(zip(distinct, condition.matcher.match_all(distinct), strict=True))
        return [results[value] for value in values]
    if isinstance(condition, IpFilter):
        return _match_addresses(condition, entries)
    convert, compare = _CONVERT[type(condition)], _COMPARE[condition.operator]
    return [_compare(condition.name, condition.value, convert, compare, one) for one in entries]


def _combine(condition: Combination, entries: Sequence[Entry]) -> list[bool]:
    left = match_labels(condition.left, entries)
    if condition.operator == "and":
        right = match_labels(condition.right, entries)
        return [one and other for one, other in zip(left, right, strict=True)]
    rest = [entry for entry, is_kept in zip(entries, left, strict=True) if not is_kept]
    others = iter(match_labels(condition.right, rest))
    return [one or next(others) for one in left]


def _compare(
    name: str, wanted: float, convert: Callable[[str], float], compare: Callable[[Any, Any], bool], entry: Entry
) -> bool:
    text = entry.get(name)
    if text is None:
        return False
    try:
        return compare(convert(text), wanted)
    except UnitError as error:
        entry.fail_softly(LABEL_ERROR, str(error))
        return True


def _match_addresses(condition: IpFilter, entries: Sequence[Entry]) -> list[bool]:
    contains = parse_addresses(condition.pattern)
    found = []
    for entry in entries:
        text = entry.get(condition.name)
        if entry.error:
            found.append(True)  # only comparisons of text drop lines with an error
        elif text is None:
            found.append(False)
        else:
            found.append(contains_address(text, contains) == (condition.operator == "=="))
    return found


@dataclass(frozen=True, slots=True)
class LabelFilterStage:
    """Drop lines by their labels."""

    condition: LabelCondition

    def apply(self, entries: list[Entry]) -> list[Entry]:
        """Return the lines that pass."""
        passed = match_labels(self.condition, entries)
        return [one for one, is_kept in zip(entries, passed, strict=True) if is_kept]
