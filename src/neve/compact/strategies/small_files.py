"""Small files: packed to the target size, as they lie; files that are too large are split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact import triggers
from neve.compact.strategies.rewriting import Rewriting

if TYPE_CHECKING:
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.verdict import Verdict


class SmallFiles(Rewriting):
    """Looks at sizes only; sorted files stay sorted."""

    name = "small_files"

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Packing, where there is anything to pack."""
        return self.judged(measure, context, triggers.packing(measure, context))
