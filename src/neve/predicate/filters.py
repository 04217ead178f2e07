"""Filters: what the conditions of a query require of the rows of one table, as tests of columns joined by AND and OR.

A filter may let more rows through than the query, never fewer. `None` in the place of a filter is no restriction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


Value = str | int | float | bool | bytes | Decimal | date | datetime
Kind = Literal["eq", "in", "range", "prefix", "is_null", "not_null", "other"]


@dataclass(frozen=True)
class Test:
    """Condition of a query on one column.

    `column` is a column's name, a nested field's path (`resource.id`) or a key of a map (`attributes['http.route']`). A
    range has a `low`, a `high` or both. `values` are those of `eq`, `in` and `prefix`. `other` is a test that no
    statistics can answer (a regular expression, a function that can't be inverted): it may hold in any file.
    """

    __test__ = False  # pytest collects classes of this name as tests

    column: str
    kind: Kind
    values: tuple[Value, ...] = ()
    low: Value | None = None
    high: Value | None = None
    low_inclusive: bool = True
    high_inclusive: bool = True
    function: str = ""  # around the column, as in the query: date_trunc, cast, lower


@dataclass(frozen=True)
class AllOf:
    """Parts that must all hold; without parts, everything is read."""

    parts: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """Parts of which one must hold."""

    parts: tuple[Filter, ...]


Filter = Test | AllOf | AnyOf


NEVER = AnyOf(())  # no row passes


def all_of(parts: Iterable[Filter | None]) -> Filter | None:
    """Return the conjunction of filters; unknown filters are skipped."""
    known = [part for part in parts if part is not None]
    flat = [one for part in known for one in (part.parts if isinstance(part, AllOf) else (part,))]
    if NEVER in flat:
        return NEVER
    unique = tuple(dict.fromkeys(flat))
    return (unique[0] if len(unique) == 1 else AllOf(unique)) if unique else None


def any_of(parts: Iterable[Filter | None]) -> Filter | None:
    """Return the disjunction of filters, or None if one of them is unknown."""
    flat: list[Filter] = []
    for part in parts:
        if part is None:
            return None
        flat += part.parts if isinstance(part, AnyOf) else (part,)
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else AnyOf(unique)


def is_strict(found: Filter) -> bool:
    """Return whether a filter fails for a row of nulls."""
    if isinstance(found, Test):
        return found.kind not in {"is_null", "other"}
    return any(map(is_strict, found.parts)) if isinstance(found, AllOf) else all(map(is_strict, found.parts))


def iter_tests(found: Filter) -> Iterator[Test]:
    """Yield all tests in a filter."""
    if isinstance(found, Test):
        yield found
    else:
        for part in found.parts:
            yield from iter_tests(part)
