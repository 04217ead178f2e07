"""What a plot shows: the largest groups, and the others as one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.reservoir.estimate.result import RATE, SHARE, SUM, TOTAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.reservoir.estimate.result import Estimate, Estimates
    from neve.reservoir.estimate.truth import Comparison

ADDABLE = (TOTAL, RATE, SHARE, SUM)
NO_NAME = "(no name)"
LONGEST = 32


@dataclass(frozen=True)
class Bar:
    """One group: its name, the estimate with its limits, and the true number where it is known."""

    name: str
    value: float
    low: float
    high: float
    truth: float | None = None


@dataclass(frozen=True)
class Bars:
    """The groups to show, the largest first; `left` groups are not shown, as their numbers can't be added up."""

    bars: tuple[Bar, ...]
    left: int = 0


def bars(told: Estimates, kind: str, limit: int, beside: Comparison | None = None) -> Bars:
    """The first groups of some estimates, and the rest as one where that can be."""
    found = [
        _bar(short(line.group), line.estimates[kind], _truth(beside, place, kind))
        for place, line in enumerate(told.groups)
        if not math.isnan(line.estimates[kind].value)
    ]
    rest = found[limit:]
    if not rest or kind not in ADDABLE:
        return Bars(tuple(found[:limit]), len(rest))
    return Bars((*found[:limit], _others(rest)))


def short(name: str | None, longest: int = LONGEST) -> str:
    """A name that fits beside a plot; long ones lose their middle, as their ends tell them apart.

    >>> short("payments-gateway-europe-west-production", 20)
    'payments-g…roduction'
    """
    if name is None:
        return NO_NAME
    plain = "".join(letter if letter.isprintable() else "·" for letter in name)
    if len(plain) <= longest:
        return plain
    tail = (longest - 1) // 2
    return f"{plain[: longest - 1 - tail]}…{plain[-tail:]}"


def _bar(name: str, estimate: Estimate, truth: float | None) -> Bar:
    return Bar(name, estimate.value, estimate.low, estimate.high, truth)


def _truth(beside: Comparison | None, place: int, kind: str) -> float | None:
    compared = None if beside is None else beside.groups[place].get(kind)
    return None if compared is None else compared.truth


def _others(rest: Sequence[Bar]) -> Bar:
    """Groups as one: errors of groups are not correlated, or against each other, so that their squares add up."""
    value = math.fsum(one.value for one in rest)
    down = math.hypot(*(one.value - one.low for one in rest))
    up = math.hypot(*(one.high - one.value for one in rest))
    truths = [one.truth for one in rest if one.truth is not None]
    name = f"{len(rest):,} others" if len(rest) > 1 else rest[0].name
    return Bar(name, value, value - down, value + up, math.fsum(truths) if len(truths) == len(rest) else None)
