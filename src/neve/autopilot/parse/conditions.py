"""Which conditions of a SELECT hold for the rows that are read of one of its items.

A condition counts where leaving out the item's rows that fail it changes no result. Where a join may put nulls in the
place of the item's rows, it must fail for nulls as well: then it is strict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.parse.filters import Filters
from neve.autopilot.parse.trees import all_of, is_strict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot import exp

    from neve.autopilot.parse.constants import Constants
    from neve.autopilot.parse.reading import Item, Reading
    from neve.autopilot.parse.terms import Terms
    from neve.autopilot.workload import Filter


@dataclass(frozen=True)
class Condition:
    """A condition, and whether it only counts where it fails for nulls."""

    node: exp.Expr
    strict: bool


def filter_on(terms: Terms, constants: Constants) -> Filter | None:
    """What a statement asks of the table at the end of a path; `None` where it reads everything."""
    return all_of(_filters(terms, constants))


def conditions(reading: Reading, item: Item) -> Iterator[Condition]:
    """The conditions of a SELECT that are about an item."""
    for joined in reading.items:
        on = joined.join.args.get("on") if joined.join is not None else None
        if on is not None and _counts(reading, joined, item):
            yield Condition(on, reading.filled_in(item, but=joined.join))
    for clause in ("prewhere", "where"):
        where = reading.select.args.get(clause)
        if where is not None:
            yield Condition(where.this, reading.filled_in(item))


def _filters(terms: Terms, constants: Constants) -> Iterator[Filter | None]:
    filled_below = False
    for at in reversed(range(len(terms.path))):
        frame = terms.path[at]
        for condition in conditions(frame.reading, frame.item):
            found = Filters(terms, constants, at).filter(condition.node)
            if found is not None and (is_strict(found) or not (condition.strict or filled_below)):
                yield found
        filled_below = filled_below or frame.reading.filled_in(frame.item)


def _counts(reading: Reading, joined: Item, item: Item) -> bool:
    """Whether the ON of a join may leave out rows of an item: those that it has to match, not those that it keeps."""
    join = joined.join
    if join is None or join.method.upper() == "ASOF":
        return False
    if item is joined:
        return join.side.upper() not in {"RIGHT", "FULL"}
    if reading.place(item) > reading.place(joined) or item.is_bracketed or joined.is_bracketed:
        return False
    return join.side.upper() in {"", "RIGHT"} and join.kind.upper() != "ANTI"
