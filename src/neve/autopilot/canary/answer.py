"""What an engine answered, and whether two answers are the same: without order, with types, by hash."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[object, ...]


@dataclass(frozen=True)
class Answer:
    """One answer. `values` are its rows where numbers may differ a little, each with those numbers at the end."""

    types: tuple[str, ...]
    rows: int
    hash: int = 0
    values: tuple[tuple[Row, tuple[float | None, ...]], ...] | None = None
    planned_bytes: int = 0
    read_bytes: int | None = None
    seconds: float = 0.0


def difference(main: Answer, branch: Answer, tolerance: float) -> str:
    """In what two answers differ; empty where they are the same."""
    if main.types != branch.types:
        return f"types {', '.join(main.types)} on main, {', '.join(branch.types)} on the branch"
    if main.rows != branch.rows:
        return f"{main.rows} rows on main, {branch.rows} on the branch"
    if main.values is None or branch.values is None:
        return "" if main.hash == branch.hash else "other values"
    return _in_values(_sorted(main.values), _sorted(branch.values), tolerance)


def _sorted(rows: Sequence[tuple[Row, tuple[float | None, ...]]]) -> list[tuple[Row, tuple[float | None, ...]]]:
    return sorted(rows, key=lambda row: (repr(row[0]), [_rank(value) for value in row[1]]))


def _rank(value: float | None) -> tuple[int, float]:
    """Null first, then numbers, then what is not a number."""
    if value is None:
        return 0, 0.0
    return (2, 0.0) if math.isnan(value) else (1, value)


def _in_values(
    main: Sequence[tuple[Row, tuple[float | None, ...]]],
    branch: Sequence[tuple[Row, tuple[float | None, ...]]],
    tolerance: float,
) -> str:
    for (exact, numbers), (other_exact, other_numbers) in zip(main, branch, strict=True):
        if exact != other_exact:
            return "other values"
        if not all(_is_close(one, other, tolerance) for one, other in zip(numbers, other_numbers, strict=True)):
            return f"numbers that differ by more than {tolerance:g} of themselves"
    return ""


def _is_close(one: float | None, other: float | None, tolerance: float) -> bool:
    if one is None or other is None or math.isnan(one) or math.isnan(other):
        return one is other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))
    # Sums that cancel out are near nothing, where no number is near in its own measure.
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
