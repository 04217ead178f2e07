"""Sizes of benchmarks: whole, quick (`--quick`, within a minute, for use while developing), or from the environment."""

import os
from typing import TypeVar

QUICK = "BENCH_QUICK"  # set by `--quick`, and inherited by the processes that a benchmark starts

T = TypeVar("T")


def is_quick() -> bool:
    """Return whether benchmarks run at their small size."""
    return os.environ.get(QUICK, "") not in ("", "0")


def choose(whole: T, quick: T) -> T:
    """Return the value for the size of this run."""
    return quick if is_quick() else whole


def choose_number(variable: str, whole: int, quick: int) -> int:
    """Return a number that a variable of the environment may set."""
    return int(os.environ.get(variable) or choose(whole, quick))
