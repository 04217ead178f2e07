"""Adaptive: looks at each partition with the other strategies, and does what they find at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.compact.candidate import Take
from neve.compact.strategies.deletes import Deletes
from neve.compact.strategies.dimensional import Dimensional
from neve.compact.strategies.rewriting import Rewriting
from neve.compact.strategies.small_files import SmallFiles
from neve.compact.strategies.time_series import TimeSeries

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.verdict import Verdict


class Adaptive(Rewriting):
    """Deletes before layout before packing: who rewrites for the first does the others on the way."""

    name = "adaptive"
    _deletes, _dimensional, _time_series, _small_files = Deletes(), Dimensional(), TimeSeries(), SmallFiles()

    def score(self, measure: Measure, context: Context) -> Verdict:
        """The verdicts that find work, joined under the name of the first."""
        packs = self._time_series if context.table.time_column else self._small_files
        packed = packs.score(measure, context)
        verdicts = [self._deletes.score(measure, context), packed]
        laid_out = self._dimensional.score(measure, context)
        if laid_out.take & Take.UNLAID:
            verdicts.insert(1, laid_out)
        found = [verdict for verdict in verdicts if verdict.has_work]
        if not found:
            return packed if not measure.stats.deletes.files else verdicts[0]
        first, *more = found
        joined = first
        for verdict in more:
            joined = joined.joined(verdict)
        return replace(joined, cause=f"{_why(first, context)}: {joined.cause}")


def _why(verdict: Verdict, context: Context) -> str:
    """Why this strategy is the one for the partition."""
    if verdict.moves or verdict.everything:
        return "all is rewritten"
    match verdict.strategy:
        case "deletes":
            return "deletes come first"
        case "dimensional":
            return f"the table wants the layout {context.table.layout}"
        case "time_series":
            return f"its time is {context.table.time_column}"
    return "the table has no time column"
