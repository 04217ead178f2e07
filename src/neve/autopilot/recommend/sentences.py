"""Why a layout is recommended, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.estimate.simulate import bounded_by
from neve.autopilot.recommend.words import between, money, percent, size, span

if TYPE_CHECKING:
    from neve.autopilot.recommend.demand import ColumnDemand, Demand
    from neve.autopilot.recommend.recommendation import Recommendation

WHY = {
    "partition": "whole partitions are left out that a filter does not touch",
    "sort": "sorted files hold narrow ranges of values, and those beside a filter are left out",
    "zorder": "the columns are filtered independently of each other, and a z-order keeps files narrow in each of them",
    "promote": "a query that wants one key no longer reads the whole map, and the new column has bounds",
    "bloom": "row groups without the value that is asked for are left out",
    "file_size": "smaller files hold narrower ranges of values",
}


def reasoning(found: Recommendation, demand: Demand, read: float) -> str:
    """Sentences that say what is asked, what changes, what it saves and what it costs; no value of any query."""
    filtered = demand.filtered()
    about = [name for name in filtered if name in {*bounded_by(found.after), *found.after.blooms}]
    asked = [_asked(name, filtered[name], demand.queries) for name in about]
    return ". ".join(
        [
            f"Of {demand.queries:,} queries, {'; '.join(asked)}"
            if asked
            else f"{demand.queries:,} queries were logged",
            f"Change: {found.delta}; {WHY[found.type]}",
            f"A query reads {percent(read)} of the table today, and should read {between(found.reduction)} less",
            f"The rewrite of {size(found.cost.bytes)} takes {span(found.cost.seconds)} on one core and "
            f"{money(found.cost.dollars)}; it saves {size(found.payback.bytes_per_day)} of reading a day at least, and "
            f"is paid back in {found.payback.days:,.3g} days",
        ]
    )


def _asked(name: str, asked: ColumnDemand, queries: int) -> str:
    kinds = (("single values", asked.points), ("ranges", asked.ranges), ("prefixes", asked.prefixes))
    how = " and ".join(word for word, count in kinds if count) or "nulls"
    return f"{percent(asked.queries / queries)} filter {name} by {how}"
