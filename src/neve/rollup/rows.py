"""Merge the items of one series and window into a row: all columns of a level are made here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.model.columns import TIMESTAMP
from neve.model.rollups import COLUMNS
from neve.rollup.arrays import Groups, array_column, groups_of, lists_of, maps_of, or_null, order_by
from neve.rollup.histograms import UNSET

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.model.levels import Level
    from neve.rollup.definition import Definition
    from neve.rollup.histograms import ExplicitHistograms, ExponentialHistograms
    from neve.rollup.items import Items
    from neve.rollup.series import HyperLogLog
    from neve.rollup.series_identity import SeriesIdentity

    Floats = npt.NDArray[np.float64]

SCHEMA = pa.schema([column.field for column in COLUMNS])
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
COPIED_COLUMNS = ("metric_name", "metric_type", "unit")


@dataclass(frozen=True)
class MergedHistograms:
    """The histograms of each row, and the minimum and maximum of their values."""

    exponential: ExponentialHistograms
    explicit: ExplicitHistograms
    registers: HyperLogLog
    least: Floats
    most: Floats

    @property
    def is_explicit(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows with explicit bounds."""
        there: npt.NDArray[np.bool_] = np.zeros(len(self.least), dtype=np.bool_)
        there[self.explicit.owner] = True
        return there

    @property
    def is_exponential(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows with exponential buckets."""
        there: npt.NDArray[np.bool_] = self.exponential.scale != UNSET
        return there

    def quantile(self, wanted: float) -> Floats:
        """Return a quantile of each row, or NaN if it has none."""
        of_all = np.full(len(self.least), wanted)
        found = self.exponential.quantiles(of_all)
        if self.is_explicit.any():
            between = self.explicit.quantiles(of_all, self.least, self.most)
            found = np.where(self.is_explicit, between, found)
        return np.where(np.isnan(found), found, np.fmax(np.fmin(found, self.most), self.least))


def make_rows(
    items: Items, identity: SeriesIdentity, table: pa.Table, level: Level, definition: Definition, closed_until: int
) -> pa.Table:
    """Return the rows of one organization. `table` is the source of the items."""
    if not len(items.row):
        return SCHEMA.empty_table()
    order = order_by(
        (items.name[:, 0], items.name[:, 1], items.window, items.first_time, np.nan_to_num(items.first), items.count)
    )
    name, window = items.name[order], items.window[order]
    groups = groups_of((name[:, 0], name[:, 1], window))
    number = len(groups.starts)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = groups.number
    first_row = items.row[order[groups.starts]]
    last_row = items.row[order[groups.lasts]]
    numbers = _numbers(items, order, groups)
    merged = MergedHistograms(
        items.exponential.merge(group, number),
        items.explicit.merge(group, number),
        items.registers.merge(group),
        numbers["min"],
        numbers["max"],
    )
    windows = window[groups.starts]
    whole = {key: pa.array(values) for key, values in _whole(items, order, groups).items()}
    columns = {
        **{name: array_column(table, name).take(pa.array(first_row)) for name in COPIED_COLUMNS},
        **identity.columns(first_row),
        **whole,
        **{name: or_null(values) for name, values in numbers.items()},
        "organization_id": array_column(table, "organization_id").take(pa.array(first_row)),
        "timestamp": pa.array(windows).cast(TIMESTAMP),
        "is_final": pa.array(windows + level.micros <= closed_until),
        "rate": or_null(numbers["increase"] / level.seconds),
        "avg": or_null(_divide(numbers["sum"], np.asarray(whole["count"]))),
        **{name: or_null(merged.quantile(wanted)) for name, wanted in PERCENTILES.items()},
        "quantiles": _extra_quantiles(merged, identity.rule[first_row], definition),
        **_histograms(merged, number),
        "quantile_values": _quantile_values(table, last_row),
    }
    return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)


def _whole(items: Items, order: npt.NDArray[np.int64], groups: Groups) -> dict[str, npt.NDArray[np.int64]]:
    return {
        "points": groups.reduce(np.add, items.points[order]),
        "count": groups.reduce(np.add, items.count[order]),
        "first_time_unix_nano": groups.reduce(np.minimum, items.first_time[order]),
        "last_time_unix_nano": groups.reduce(np.maximum, items.last_time[order]),
    }


def _numbers(items: Items, order: npt.NDArray[np.int64], groups: Groups) -> dict[str, Floats]:
    """Return the numbers of each row, or NaN if the part of an item with values is unknown."""
    empty = items.count[order] == 0
    total, least, most = items.total[order], items.least[order], items.most[order]
    increase = items.increase[order]
    grown = groups.reduce(np.add, np.nan_to_num(increase))
    grown = np.where(groups.reduce(np.logical_or, ~np.isnan(increase)), grown, np.nan)
    return {
        "sum": groups.reduce(np.add, np.where(empty & np.isnan(total), 0.0, total)),
        "min": groups.reduce(np.minimum, np.where(empty, np.inf, least)),
        "max": groups.reduce(np.maximum, np.where(empty, -np.inf, most)),
        "first": items.first[order][groups.starts],
        "last": items.last[order][groups.lasts],
        "increase": grown,
    }


def _divide(total: Floats, count: npt.NDArray[np.int64]) -> Floats:
    return np.asarray(np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0))


def _extra_quantiles(merged: MergedHistograms, rules: npt.NDArray[np.int64], definition: Definition) -> pa.Array:
    """Return the quantiles that rules request, as a map in the order of the rule."""
    owner, keys, values = [np.zeros(0, dtype=np.int64)], [], [np.zeros(0)]
    for wanted in sorted({quantile for rule in definition.rules for quantile in rule.quantiles}):
        asks = np.array([wanted in rule.quantiles for rule in definition.rules])
        found = merged.quantile(wanted)
        mine = np.flatnonzero(asks[rules] & ~np.isnan(found))
        owner.append(mine)
        keys += [repr(wanted)] * len(mine)
        values.append(found[mine])
    owners = np.concatenate(owner)
    order = np.argsort(owners, kind="stable")
    texts = pa.array(keys, pa.string()).take(pa.array(order))
    everyone = np.ones(len(rules), dtype=bool)
    return maps_of(owners[order], len(rules), texts, pa.array(np.concatenate(values)[order]), everyone)


def _histograms(merged: MergedHistograms, number: int) -> dict[str, pa.Array]:
    exponential, explicit, registers = merged.exponential, merged.explicit, merged.registers
    has, bounded = merged.is_exponential, merged.is_explicit
    ending = np.isfinite(explicit.end)
    return {
        "scale": pa.array(exponential.scale.astype(np.int32), mask=~has),
        "zero_count": pa.array(exponential.zero_count, mask=~has),
        "zero_threshold": pa.array(exponential.zero_threshold, mask=~has),
        "positive": _buckets(exponential, ~exponential.negative, number, has),
        "negative": _buckets(exponential, exponential.negative, number, has),
        "explicit_bounds": lists_of(explicit.owner[ending], number, pa.array(explicit.end[ending]), bounded),
        "bucket_counts": lists_of(explicit.owner, number, pa.array(explicit.count), bounded),
        "series_count": pa.array(registers.estimates(number)),
        "series_registers": maps_of(
            registers.owner,
            number,
            pa.array(registers.number.astype(np.int32)),
            pa.array(registers.value.astype(np.int32)),
            np.ones(number, dtype=bool),
        ),
    }


def _buckets(
    exponential: ExponentialHistograms, mine: npt.NDArray[np.bool_], number: int, has: npt.NDArray[np.bool_]
) -> pa.Array:
    index = pa.array(exponential.index[mine].astype(np.int32))
    return maps_of(exponential.owner[mine], number, index, pa.array(exponential.count[mine]), has)


def _quantile_values(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Array:
    """Return the quantiles of the last summary. Other types have none."""
    found = array_column(table, "quantile_values").take(pa.array(rows))
    is_summary = pa.compute.equal(array_column(table, "metric_type").take(pa.array(rows)).cast(pa.string()), "summary")
    return pa.compute.if_else(is_summary, found, pa.scalar(None, found.type))
