"""Functions of PromQL by family, and the table of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.promql.functions import (
    buckets,
    changes,
    dates,
    elementwise,
    info,
    labeling,
    over_time,
    rates,
    regression,
    scalars,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.language.syntax import Call
    from neve.promql.matrix import Value

__all__ = ["FUNCTIONS"]

FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    **elementwise.FUNCTIONS,
    **dates.FUNCTIONS,
    **scalars.FUNCTIONS,
    **labeling.FUNCTIONS,
    **buckets.FUNCTIONS,
    **rates.FUNCTIONS,
    **changes.FUNCTIONS,
    **over_time.FUNCTIONS,
    **regression.FUNCTIONS,
    **info.FUNCTIONS,
}
