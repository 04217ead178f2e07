"""Dimensional: files get the layout that the table wants, its sort order or the z-order that was written to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.compact import triggers
from neve.compact.candidate import Take
from neve.compact.strategies.rewriting import Rewriting

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.verdict import Verdict


class Dimensional(Rewriting):
    """Lays out what is not laid out, and packs small files in that layout."""

    name = "dimensional"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """A rewrite into the table's layout."""
        wanted = context.table.layout
        if wanted.kind == "keep":
            verdict = self.judged(measure, context)
            return verdict if verdict.has_work else replace(verdict, cause="the table has no sort order and no z-order")
        packing = triggers.packing(measure, context)
        if wanted.kind == "zorder" and measure.stats.hot.files:
            return self.judged(measure, context, packing)  # the curve has to wait until the partition is closed
        verdict = self.judged(measure, context, triggers.layout(measure, context), packing, layout=wanted)
        # A z-order is remembered of whole partitions: what is packed must not leave files beside it that lack it.
        return replace(verdict, take=verdict.take | Take.UNLAID) if verdict.whole else verdict
