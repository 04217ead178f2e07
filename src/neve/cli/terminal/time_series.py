"""Time series of a result: the first time column, and a series for each column of numbers and each label."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from neve.cli.terminal.cells import CellFormat
from neve.cli.terminal.result_view import is_number
from neve.errors import QueryError
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pyarrow as pa


MAX_POINTS = 200_000  # that are read of a result
MAX_SERIES = 12  # that are drawn: those with the largest values
HINT = (
    "plot a time and numbers: SELECT date_trunc('minute', timestamp) AS minute, count(*) AS n … GROUP BY 1 ORDER BY 1"
)


@dataclass(frozen=True)
class Series:
    """Points of one column and label, in the order of time."""

    label: str
    column: str
    points: tuple[tuple[datetime, float], ...]

    @property
    def peak(self) -> tuple[datetime, float]:
        """The point with the largest value."""
        return max(self.points, key=lambda point: point[1])


@dataclass(frozen=True)
class TimeSeries:
    """All series of a result. `notes` say what is not drawn."""

    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns of numbers, each with its own scale."""
        return list(dict.fromkeys(one.column for one in self.series))

    @property
    def times(self) -> list[datetime]:
        """The times of all points, each once."""
        return sorted({time for one in self.series for time, _value in one.points})

    @property
    def step_seconds(self) -> float:
        """The usual distance of neighbouring points."""
        distances = sorted((later - time).total_seconds() for time, later in pairwise(self.times))
        return distances[(len(distances) - 1) // 2] if distances else 1.0


def read_time_series(reader: pa.RecordBatchReader) -> TimeSeries:
    """Read the series of a result. Raises `QueryError` if it has no times or no numbers."""
    time, numbers, labels = _assign_columns(reader.schema)
    found: dict[tuple[str, str], list[tuple[datetime, float]]] = {}
    rows, notes = 0, []
    for batch in reader:
        _add_points(found, batch, time, numbers, labels)
        rows += batch.num_rows
        if rows >= MAX_POINTS:
            notes.append(f"only the first {rows:,} rows are drawn; group by a longer time")
            break
    series = [Series(label, column, tuple(sorted(points))) for (label, column), points in found.items()]
    if not series:
        raise QueryError(
            "the result has no points to plot", hint="rows without a time or without a number are left out"
        )
    series.sort(key=lambda one: sum(abs(value) for _time, value in one.points), reverse=True)
    if left := len(series[MAX_SERIES:]):
        notes.append(f"{format_count(left, 'smaller series', 'smaller series')} not drawn")
    return TimeSeries(tuple(series[:MAX_SERIES]), tuple(notes))


def _assign_columns(schema: pa.Schema) -> tuple[int, list[int], list[int]]:
    import pyarrow as pa

    times = [place for place, field in enumerate(schema) if pa.types.is_timestamp(field.type) or _is_date(field.type)]
    numbers = [place for place, field in enumerate(schema) if is_number(field.type)]
    if not times or not numbers:
        missing = "a column of times" if not times else "a column of numbers"
        raise QueryError(f"the result can't be plotted: it lacks {missing}", hint=HINT)
    labels = [place for place in range(len(schema)) if place not in (*times, *numbers)]
    return times[0], numbers, labels


def _is_date(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_date(kind))


def _add_points(
    found: dict[tuple[str, str], list[tuple[datetime, float]]],
    batch: pa.RecordBatch,
    time: int,
    numbers: Sequence[int],
    labels: Sequence[int],
) -> None:
    """Add the points of a batch to the series that they belong to."""
    import math

    texts = [CellFormat(nested=30).format_column(batch.column(place)) for place in labels]
    names = [" ".join(row) for row in zip(*texts, strict=True)] if texts else [""] * batch.num_rows
    times = [_as_time(value) for value in batch.column(time).to_pylist()]
    for place in numbers:
        column = batch.schema.names[place]
        values = batch.column(place).to_pylist()
        for name, moment, value in zip(names, times, values, strict=True):
            if moment is not None and value is not None and math.isfinite(value):
                found.setdefault((name, column), []).append((moment, float(value)))


def _as_time(value: Any) -> datetime | None:
    """Return a value of a time column with a zone; times without one are UTC."""
    from datetime import UTC, datetime

    if value is None:
        return None
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
