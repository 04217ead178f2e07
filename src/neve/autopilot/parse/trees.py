"""Filters put together, with what is not known and what can never be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.workload import AllOf, AnyOf, Test

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.autopilot.workload import Filter

NEVER = AnyOf(())  # no row passes


def all_of(parts: Iterable[Filter | None]) -> Filter | None:
    """Filters that must hold together; what is not known is left out."""
    known = [part for part in parts if part is not None]
    flat = [one for part in known for one in (part.parts if isinstance(part, AllOf) else (part,))]
    if NEVER in flat:
        return NEVER
    unique = tuple(dict.fromkeys(flat))
    return (unique[0] if len(unique) == 1 else AllOf(unique)) if unique else None


def any_of(parts: Iterable[Filter | None]) -> Filter | None:
    """Filters of which one must hold; where one is not known, nothing is."""
    flat: list[Filter] = []
    for part in parts:
        if part is None:
            return None
        flat += part.parts if isinstance(part, AnyOf) else (part,)
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else AnyOf(unique)


def is_strict(found: Filter) -> bool:
    """Whether a filter fails for a row of nulls."""
    if isinstance(found, Test):
        return found.kind not in {"is_null", "other"}
    return any(map(is_strict, found.parts)) if isinstance(found, AllOf) else all(map(is_strict, found.parts))


def leaves_of(found: Filter) -> Iterator[Test]:
    """All tests in a filter."""
    if isinstance(found, Test):
        yield found
    else:
        for part in found.parts:
            yield from leaves_of(part)
