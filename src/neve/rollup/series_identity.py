"""The identity of series: the hashes of names and attributes of each row.

A row belongs to two series: the raw one, within which counters are compared, and the rolled one, which gets rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.model.series_identity import (
    IDENTITY_COLUMNS,
    METRIC_TEXTS,
    Entries,
    encode_dictionary,
    hash_metrics,
    hash_names,
    hash_points,
    hash_sources,
    number_hashes,
    text_hashes,
)
from neve.rollup.arrays import array_column, maps_of, number_values, order_by
from neve.rollup.definition import keeps

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.rollup.config import AttributeChoice
    from neve.rollup.definition import Definition

SERVICE_NAME = "service.name"


@dataclass(frozen=True)
class SeriesIdentity:
    """Identity of rolled series. `given` are the attributes and resource attributes before any was removed."""

    rule: npt.NDArray[np.int64]
    texts: list[npt.NDArray[np.uint64]]
    given: tuple[Entries, Entries]
    attributes: Entries
    resource: Entries
    monotonic: pa.Array
    temporality: pa.Array
    names: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, table: pa.Table, definition: Definition) -> SeriesIdentity:
        """Return the identity of each point, or of each row of a level: the selection of attributes is idempotent."""
        metric = encode_dictionary(array_column(table, "metric_name"))
        rules = np.array([*map(definition.rule_of, metric.dictionary.to_pylist()), len(definition.rules) - 1])
        rule = rules[metric.indices.fill_null(len(rules) - 1).to_numpy(zero_copy_only=False)]
        given = (Entries.of(array_column(table, "attributes")), Entries.of(array_column(table, "resource_attrs")))
        attributes = _keep_entries(given[0], rule, [one.attributes for one in definition.rules])
        resource = _keep_entries(given[1], rule, [one.resource_attributes for one in definition.rules])
        monotonic, temporality = _kind(table)
        texts = [text_hashes(metric), *(text_hashes(array_column(table, name)) for name in METRIC_TEXTS[1:])]
        kind = [number_hashes(monotonic), number_hashes(temporality)]
        names = hash_names([*texts, *kind, attributes.hashes, resource.hashes])
        return cls(rule, texts, given, attributes, resource, monotonic, temporality, names)

    def columns(self, rows: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return the identity columns of some rows."""
        return {
            "attributes": _make_maps(self.attributes, rows),
            "resource_attrs": _make_maps(self.resource, rows),
            "service_name": _services(self.resource, rows),
            "is_monotonic": self.monotonic.take(pa.array(rows)),
            "aggregation_temporality": self.temporality.take(pa.array(rows)),
        }


def raw_names(table: pa.Table, identity: SeriesIdentity) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the raw series of each point, and the first word of the hash of its metric, per resource and scope."""
    attributes, resource = identity.given
    columns = {name: array_column(table, name) for name in IDENTITY_COLUMNS}
    metric = hash_metrics(columns, hash_sources(columns, resource.hashes), identity.texts)
    return hash_points(columns, metric, attributes.hashes), metric[:, 0]


def _kind(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return whether sums are monotonic, and the temporality of those that are not."""
    is_sum = np.asarray(pa.compute.equal(array_column(table, "metric_type"), "sum").fill_null(False))
    flag, given = (
        array_column(table, "is_monotonic").fill_null(False),
        array_column(table, "aggregation_temporality").fill_null(0),
    )
    monotonic = np.asarray(flag).astype(bool)
    level = pa.array(np.asarray(given).astype(np.int32), mask=~is_sum | monotonic)
    return pa.array(monotonic, mask=~is_sum), level


def _keep_entries(entries: Entries, rule: npt.NDArray[np.int64], kept: list[AttributeChoice]) -> Entries:
    names = entries.keys.dictionary.to_pylist()
    table = np.array([keeps(one, name) for one in kept for name in names], dtype=np.bool_).reshape(len(kept), -1)
    if table.all():
        return entries
    codes = entries.keys.indices.to_numpy(zero_copy_only=False)
    return entries.filter(table[rule[entries.owner], codes])


def _choose_entries(
    entries: Entries, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the entries of some rows, ordered by row and then by key: their positions and their owners."""
    ends = np.cumsum(np.bincount(entries.owner, minlength=entries.rows))
    begins = np.concatenate(([0], ends[:-1]))
    lengths = (ends - begins)[rows]
    owner, position = number_values(lengths)
    place = position + begins[rows][owner]
    codes = entries.keys.indices.to_numpy(zero_copy_only=False)[place]
    ranks = np.argsort(np.argsort(np.array(entries.keys.dictionary.to_pylist(), dtype=object))) if len(codes) else codes
    order = order_by((owner, ranks[codes])) if len(codes) else np.zeros(0, dtype=np.int64)
    return place[order], owner


def _make_maps(entries: Entries, rows: npt.NDArray[np.int64]) -> pa.Array:
    place, owner = _choose_entries(entries, rows)
    keys, values = (part.take(pa.array(place)) for part in (entries.keys, entries.values))
    everyone = np.ones(len(rows), dtype=bool)
    return maps_of(owner, len(rows), keys.cast(pa.string()), values.cast(pa.string()), everyone)


def _services(entries: Entries, rows: npt.NDArray[np.int64]) -> pa.Array:
    """Return the service of each row, if its name is kept."""
    known = entries.keys.dictionary.to_pylist()
    if SERVICE_NAME not in known:
        return pa.nulls(len(rows), pa.string())
    mine = np.flatnonzero(entries.keys.indices.to_numpy(zero_copy_only=False) == known.index(SERVICE_NAME))
    place = np.full(entries.rows, -1, dtype=np.int64)
    place[entries.owner[mine]] = mine
    found = place[rows]
    return entries.values.take(pa.array(found, mask=found < 0)).cast(pa.string())
