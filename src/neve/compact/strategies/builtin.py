"""The strategies: small files, deletes, time series, dimensional, cost, and adaptive, which combines the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.compact.plan import Executor, Layout, Level
from neve.compact.planning.candidates import FileKind
from neve.compact.strategies import triggers
from neve.compact.strategies.base import RewriteStrategy
from neve.compact.strategies.triggers import Trigger
from neve.text import format_count, format_dollars

if TYPE_CHECKING:
    from neve.compact.health import Measure
    from neve.compact.planning.context import Context
    from neve.compact.strategies.verdict import Verdict


class SmallFiles(RewriteStrategy):
    """Considers sizes only. Sorted files stay sorted."""

    name = "small_files"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Pack files if there are any to pack."""
        return self.decide(measure, context, triggers.packing(measure, context))


class Deletes(RewriteStrategy):
    """Considers deletes only: position deletes, deletion vectors and equality deletes."""

    name = "deletes"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Rewrite the files with deletes. Deletes that apply to no file are only reported."""
        verdict = self.decide(measure, context, triggers.deletes(measure, context))
        deletes = measure.stats.deletes
        if verdict.has_work or not deletes.files:
            return verdict
        reason = f"{format_count(deletes.files, 'delete file')}, too few to be applied now"
        if deletes.dangling:
            reason += f"; {deletes.dangling:,} of them apply to no file, `neve maintain deletes` removes those"
        return replace(verdict, cause=reason)


class TimeSeries(RewriteStrategy):
    """Packs files that are adjacent in time, so that outputs hardly overlap."""

    name = "time_series"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Pack the files that are not hot."""
        return self.decide(measure, context, triggers.packing(measure, context), layout=_choose_sorting(context))


def _choose_sorting(context: Context) -> Layout | None:
    table = context.table
    if table.sorting.kind == "sort":
        return table.sorting
    if table.layout.kind == "zorder" or table.time_column is None:
        return None
    return Layout("sort", (table.time_column,))


class Dimensional(RewriteStrategy):
    """Applies the layout to files that lack it, and packs small files in that layout."""

    name = "dimensional"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Rewrite files into the table's layout."""
        wanted = context.table.layout
        if wanted.kind == "keep":
            verdict = self.decide(measure, context)
            return verdict if verdict.has_work else replace(verdict, cause="the table has no sort order and no z-order")
        packing = triggers.packing(measure, context)
        if wanted.kind == "zorder" and measure.stats.hot.files:
            return self.decide(measure, context, packing)  # the z-order has to wait until the partition is closed
        verdict = self.decide(measure, context, triggers.layout(measure, context), packing, layout=wanted)
        # A z-order is recorded for whole partitions: packing must not leave files in the partition that lack it.
        return replace(verdict, take=verdict.take | FileKind.UNLAID) if verdict.whole else verdict


class Cost(RewriteStrategy):
    """Packs small files if that pays back soon enough."""

    name = "cost"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Pack files, with the daily savings and the cost in dollars."""
        stats, sizes = measure.stats, measure.sizes
        files, total = stats.fragments.files + stats.undersized.files, stats.fragments.bytes + stats.undersized.bytes
        gain = files - sizes.outputs(total)
        if gain <= 0:
            return self.decide(measure, context)
        expected = round(stats.fragments.bytes * context.cost.calibration.ratio) + stats.undersized.bytes
        estimate = context.cost.estimate(files, total, sizes.outputs(expected), expected, Executor.ARROW)
        saved = context.cost.savings(files, total, estimate, context.config.queries_per_day)
        reason = (
            f"{format_count(gain, 'file')} fewer save {format_dollars(saved.dollars_per_day)} a day "
            f"and cost {format_dollars(saved.dollars)}: "
            f"paid back in {saved.payback_days:,.3g} days, {context.config.payback_days:g} are allowed"
        )
        if saved.payback_days > context.config.payback_days:
            verdict = self.decide(measure, context)
            return verdict if verdict.has_work else replace(verdict, cause=reason)
        return replace(self.decide(measure, context, Trigger(Level.MAJOR, FileKind.SMALL, reason)), gain=float(gain))


class Adaptive(RewriteStrategy):
    """Deletes before layout before packing: a rewrite for the first does the others as well."""

    name = "adaptive"
    _deletes, _dimensional, _time_series, _small_files = Deletes(), Dimensional(), TimeSeries(), SmallFiles()

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Join the verdicts that find work under the name of the first."""
        packs = self._time_series if context.table.time_column else self._small_files
        packed = packs.score(measure, context)
        verdicts = [self._deletes.score(measure, context), packed]
        laid_out = self._dimensional.score(measure, context)
        if laid_out.take & FileKind.UNLAID:
            verdicts.insert(1, laid_out)
        found = [verdict for verdict in verdicts if verdict.has_work]
        if not found:
            return packed if not measure.stats.deletes.files else verdicts[0]
        first, *more = found
        joined = first
        for verdict in more:
            joined = joined.join(verdict)
        return replace(joined, cause=f"{_explain_choice(first, context)}: {joined.cause}")


def _explain_choice(verdict: Verdict, context: Context) -> str:
    """Return why this strategy was chosen for the partition."""
    if verdict.moves or verdict.everything:
        return "everything is rewritten"
    match verdict.strategy:
        case "deletes":
            return "deletes come first"
        case "dimensional":
            return f"the table has the layout {context.table.layout}"
        case "time_series":
            return f"its time column is {context.table.time_column}"
    return "the table has no time column"
