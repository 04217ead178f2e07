"""Iceberg's filter expressions in JSON as filters.

Java clients mask the values of the filters that they report: `(hash-1a2b3c4d)`, `(2-digit-int)`, `(timestamp)`. Then
nobody can say what a test would prune, only that there was one: it is of the kind `other`, and its function says
`masked` and the kind that it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from neve.autopilot.parse.trees import NEVER, all_of, any_of
from neve.autopilot.workload import Test

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.autopilot.workload import Filter, Value

MASKED = "masked"
MASK = re.compile(r"^\((hash-[0-9a-f]{8}|\d+-digit-(int|float)|date(-.*)?|time|timestamp(-.*)?|variant)\)$")
MOST_DEPTH = 200
OPPOSITE = {
    "eq": "not-eq",
    "not-eq": "eq",
    "lt": "gt-eq",
    "gt-eq": "lt",
    "gt": "lt-eq",
    "lt-eq": "gt",
    "in": "not-in",
    "not-in": "in",
    "is-null": "not-null",
    "not-null": "is-null",
    "starts-with": "not-starts-with",
    "not-starts-with": "starts-with",
    "is-nan": "not-nan",
    "not-nan": "is-nan",
}


def filter_of(expression: Any, *, truth: bool = True, depth: int = 0) -> Filter | None:
    """The filter that an expression is; `None` where everything passes."""
    if depth > MOST_DEPTH:
        return None
    if isinstance(expression, bool):
        return None if expression == truth else NEVER
    kind = str(expression["type"])
    if kind in {"true", "false"}:
        return None if (kind == "true") == truth else NEVER
    if kind == "not":
        return filter_of(expression["child"], truth=not truth, depth=depth + 1)
    if kind in {"and", "or"}:
        parts = [filter_of(expression[side], truth=truth, depth=depth + 1) for side in ("left", "right")]
        return all_of(parts) if (kind == "and") == truth else any_of(parts)
    return _predicate(expression, kind if truth else OPPOSITE.get(kind, ""))


def _predicate(expression: dict[str, Any], kind: str) -> Filter:
    column, transform = _term(expression["term"])
    make = _TESTS.get(kind)
    if make is None or transform:
        return Test(column, "other", function=transform)
    values = [expression["value"]] if "value" in expression else list(expression.get("values") or [])
    if any(isinstance(value, str) and MASK.match(value) for value in values):
        return Test(column, "other", function=f"{MASKED} {_KINDS[kind]}")
    return make(column, tuple(values))


def _term(term: Any) -> tuple[str, str]:
    """A column, and the transform around it."""
    if isinstance(term, str):
        return term, ""
    if term.get("type") == "reference":
        return str(term["term"]), ""
    return _term(term["term"])[0], str(term.get("transform", "transform"))


def _unlike(column: str, values: tuple[Value, ...]) -> Filter:
    parts = [
        any_of([_below(column, value, inclusive=False), _above(column, value, inclusive=False)]) for value in values
    ]
    return all_of(parts) or Test(column, "not_null")


def _below(column: str, value: Value, *, inclusive: bool) -> Test:
    return Test(column, "range", high=value, high_inclusive=inclusive)


def _above(column: str, value: Value, *, inclusive: bool) -> Test:
    return Test(column, "range", low=value, low_inclusive=inclusive)


_TESTS: dict[str, Callable[[str, tuple[Value, ...]], Filter]] = {
    "eq": lambda column, values: Test(column, "eq", values),
    "in": lambda column, values: Test(column, "in", values),
    "starts-with": lambda column, values: Test(column, "prefix", values),
    "is-null": lambda column, _: Test(column, "is_null"),
    "not-null": lambda column, _: Test(column, "not_null"),
    "lt": lambda column, values: _below(column, values[0], inclusive=False),
    "lt-eq": lambda column, values: _below(column, values[0], inclusive=True),
    "gt": lambda column, values: _above(column, values[0], inclusive=False),
    "gt-eq": lambda column, values: _above(column, values[0], inclusive=True),
    "not-eq": _unlike,
    "not-in": _unlike,
}
_KINDS = {
    **dict.fromkeys(("lt", "lt-eq", "gt", "gt-eq", "not-eq", "not-in"), "range"),
    "eq": "eq",
    "in": "in",
    "starts-with": "prefix",
    "is-null": "is_null",
    "not-null": "not_null",
}
