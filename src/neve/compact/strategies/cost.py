"""Cost: a rewrite must save more money, by the queries that it makes cheaper, than it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.compact.candidate import Take
from neve.compact.plan import Executor, Level
from neve.compact.strategies.rewriting import Rewriting
from neve.compact.triggers import Trigger
from neve.compact.words import money, number

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.verdict import Verdict


class Cost(Rewriting):
    """Packs small files where that pays back soon enough."""

    name = "cost"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Packing, with the money that it saves in a day and that it costs."""
        stats, sizes = measure.stats, measure.sizes
        files, total = stats.fragments.files + stats.undersized.files, stats.fragments.bytes + stats.undersized.bytes
        gain = files - sizes.outputs(total)
        if gain <= 0:
            return self.judged(measure, context)
        expected = round(stats.fragments.bytes * context.cost.calibration.ratio) + stats.undersized.bytes
        estimate = context.cost.estimate(files, total, sizes.outputs(expected), expected, Executor.ARROW)
        saved = context.cost.savings(files, total, estimate, context.config.queries_per_day)
        words = (
            f"{number(gain, 'file')} fewer save {money(saved.dollars_per_day)} a day and cost {money(saved.dollars)}: "
            f"paid back in {saved.payback_days:,.3g} days, and {context.config.payback_days:g} are allowed"
        )
        if saved.payback_days > context.config.payback_days:
            verdict = self.judged(measure, context)
            return verdict if verdict.has_work else replace(verdict, cause=words)
        return replace(self.judged(measure, context, Trigger(Level.MAJOR, Take.SMALL, words)), gain=float(gain))
