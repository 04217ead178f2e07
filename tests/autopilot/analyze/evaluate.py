"""A filter on one row, as the estimate would ask it: a row that may pass must not be left out."""

import re
from datetime import UTC, datetime
from typing import Any

from neve.predicate import filters

KEY = re.compile(r"^(\w+)\['(.*)'\]$")


def may_pass(found: filters.Filter, row: dict[str, Any]) -> bool:
    """Whether a row may pass; what nobody can tell may."""
    if isinstance(found, filters.AllOf):
        return all(may_pass(part, row) for part in found.parts)
    if isinstance(found, filters.AnyOf):
        return any(may_pass(part, row) for part in found.parts)
    return found.kind == "other" or _passes(found, _value(found.column, row))


def understood(found: filters.Filter) -> bool:
    """Whether no test in it is of the kind `other`."""
    if isinstance(found, filters.Test):
        return found.kind != "other"
    return all(understood(part) for part in found.parts)


def _value(column: str, row: dict[str, Any]) -> Any:
    key = KEY.match(column)
    value = (row[key[1]] or {}).get(key[2].replace("''", "'")) if key else row[column]
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _passes(test: filters.Test, value: Any) -> bool:
    if test.kind in {"is_null", "not_null"}:
        return (value is None) == (test.kind == "is_null")
    if value is None:
        return False
    if test.kind == "prefix":
        return any(value.startswith(one) for one in test.values)
    if test.kind == "range":
        return _is_above(value, test.low, test.low_inclusive) and _is_below(value, test.high, test.high_inclusive)
    return any(value == one for one in test.values)


def _is_above(value: Any, low: Any, inclusive: bool) -> bool:
    return low is None or value > low or (inclusive and value == low)


def _is_below(value: Any, high: Any, inclusive: bool) -> bool:
    return high is None or value < high or (inclusive and value == high)
