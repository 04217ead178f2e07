"""What a sample is drawn by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neve.errors import ConfigError
from neve.reservoir.reference import POINT

Method = Literal["priority", "exact_total"]
LARGEST_EXACT = (1 << 63) // POINT - 1  # whose chances can be added up in 64 bits
# Columns of ours, in a sample and on the way to it: a group of the same name could not be told from them.
SAMPLE = ("key", "weight", "adjusted_weight")
PRIORITY = ("priority", "rank", "top", "light", "one")
EXACT = ("hash", "slice", "whole", "threshold", "chance", "length", "begin", "total", "reached", "start", "wanted")
TAKEN = frozenset(SAMPLE + PRIORITY + EXACT)


@dataclass(frozen=True)
class Draw:
    """k items of each group `by`, by one salt; `key` and `weight` are SQL expressions.

    A key tells an item from every other one, whatever the partitions, orders and retries: nothing is kept or dropped
    by any other chance than that of the salt and the key.
    """

    by: tuple[str, ...]
    key: str
    k: int
    salt: int
    weight: str = "1D"
    method: Method = "priority"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"k = {self.k}: at least 1 item of a group is kept")
        taken = [name for name in self.by if name.lower() in TAKEN]
        if taken:
            raise ConfigError(
                f"by = {', '.join(taken)}: the sample has columns of that name", hint="rename them before"
            )
        if self.method == "exact_total" and self.k > LARGEST_EXACT:
            raise ConfigError(f"k = {self.k}: at most {LARGEST_EXACT:,} with exact_total", hint="use priority sampling")
