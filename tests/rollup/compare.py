"""Rows as the product makes them, beside those of the reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.lake.time_ranges import EVERYTHING
from neve.rollup.definition import Definition
from neve.rollup.items import items_of_rows
from neve.rollup.points import items_of_points
from neve.rollup.rows import make_rows
from tests.rollup.points import to_table
from tests.rollup.reference import row_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neve.lake.time_ranges import Ranges
    from neve.model.levels import Level
    from neve.rollup.config import RollupConfig

EXACT = (
    *("points", "count", "first_time_unix_nano", "last_time_unix_nano", "scale", "zero_count", "positive", "negative"),
    *("explicit_bounds", "bucket_counts", "quantile_values", "series_count"),
)
CLOSE = ("sum", "min", "max", "avg", "first", "last", "increase", "rate", "p50", "p95", "p99", "zero_threshold")
MAPS = ("attributes", "resource_attrs", "quantiles", "positive", "negative")


def rolled(
    points: Sequence[Mapping[str, Any]], config: RollupConfig, level: Level, ranges: Ranges = EVERYTHING
) -> pa.Table:
    """The product's rows of some points."""
    definition = Definition.of(config)
    tables = []
    for owner in sorted({point["organization_id"] for point in points}):
        table = to_table([dict(point) for point in points if point["organization_id"] == owner])
        items, identity, ordered, _told = items_of_points(table, definition, ranges, level.micros)
        tables.append(make_rows(items, identity, ordered, level, definition, 0))
    return pa.concat_tables(tables)


def raised(rows: pa.Table, config: RollupConfig, level: Level) -> pa.Table:
    """The product's rows of the next level."""
    definition = Definition.of(config)
    tables = []
    for owner in rows.column("organization_id").unique().to_pylist():
        mine = rows.filter(pa.compute.equal(rows.column("organization_id"), owner)).combine_chunks()
        items, identity = items_of_rows(mine, definition, level.micros)
        tables.append(make_rows(items, identity, mine, level, definition, 0))
    return pa.concat_tables(tables) if tables else rows


def plain(rows: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The product's rows as the reference has them, by what identifies them; none may be there twice."""
    found = {}
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    for row, time in zip(rows.to_pylist(), times, strict=True):
        row["timestamp"] = time
        if row["metric_type"] != "summary":
            row["quantile_values"] = row["quantile_values"] or None  # pyiceberg reads no list as an empty one
        for name in MAPS:
            row[name] = dict(row[name]) if row[name] is not None else None
        assert row_key(row) not in found, row
        found[row_key(row)] = row
    return found


def differences(ours: pa.Table, reference: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is not the same."""
    mine = plain(ours)
    theirs = {row_key(row): row for row in reference}
    found = [f"missing {key}" for key in theirs.keys() - mine.keys()]
    found += [f"extra {key}" for key in mine.keys() - theirs.keys()]
    for key in mine.keys() & theirs.keys():
        found += [
            f"{name} is {mine[key][name]}, expected {theirs[key][name]} in {theirs[key]}"
            for name in (*EXACT, *CLOSE)
            if not (name == "zero_threshold" and not theirs[key]["count"])  # of no observation it says nothing
            and not (
                _close(mine[key][name], theirs[key][name], _rounding(theirs[key]))
                if name in CLOSE
                else mine[key][name] == theirs[key][name]
            )
        ]
        further = mine[key]["quantiles"]  # without those that are not known
        expected = {q: value for q, value in theirs[key]["quantiles"].items() if value is not None}
        if further.keys() != expected.keys() or not all(_close(further[q], expected[q]) for q in expected):
            found.append(f"quantiles are {further}, expected {expected}")
    return found


def _rounding(row: Mapping[str, Any]) -> float:
    """How far sums may be apart that were added up in another order."""
    largest: float = max(abs(row["min"] or 0.0), abs(row["max"] or 0.0))
    return float(max(1e-6, 1e-15 * largest * row["points"]))


def _close(one: float | None, other: float | None, rounding: float = 1e-6) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=rounding)
