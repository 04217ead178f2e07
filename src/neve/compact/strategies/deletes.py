"""Delete files: applied for good where reading with them costs too much, so that none of them is needed any more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.compact import triggers
from neve.compact.strategies.rewriting import Rewriting
from neve.compact.words import number

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.verdict import Verdict


class Deletes(Rewriting):
    """Looks at deletes only: position deletes, deletion vectors and equality deletes."""

    name = "deletes"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """A rewrite of the files with deletes; deletes that apply to nothing are only told of."""
        verdict = self.judged(measure, context, triggers.deletes(measure, context))
        deletes = measure.stats.deletes
        if verdict.has_work or not deletes.files:
            return verdict
        words = f"{number(deletes.files, 'delete file')}, too few to be applied now"
        if deletes.dangling:
            words += f"; {deletes.dangling:,} of them apply to no file, `neve maintain deletes` removes those"
        return replace(verdict, cause=words)
