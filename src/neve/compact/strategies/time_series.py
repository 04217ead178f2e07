"""Time series: what is still being written is left alone; what is older is packed and sorted in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact import triggers
from neve.compact.plan import Layout
from neve.compact.strategies.rewriting import Rewriting

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.verdict import Verdict


class TimeSeries(Rewriting):
    """Packs files that are next to each other in time, so that outputs hardly overlap."""

    name = "time_series"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Packing of the files that are not hot."""
        return self.judged(measure, context, triggers.packing(measure, context), layout=_sorting(context))


def _sorting(context: Context) -> Layout | None:
    table = context.table
    if table.sorting.kind == "sort":
        return table.sorting
    if table.layout.kind == "zorder" or table.time_column is None:
        return None
    return Layout("sort", (table.time_column,))
