"""Which series a row belongs to: the raw one that counters are compared in, and the rolled one that gets rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.rollup.columns import maps_of, one
from neve.rollup.definition import SERVICE_NAME, keeps
from neve.rollup.groups import order_by
from neve.rollup.series import Entries, encoded, names_of, number_hashes, text_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from neve.rollup.config import Kept
    from neve.rollup.definition import Definition

TEXTS = ("metric_name", "metric_type", "unit")
NUMBERS = ("aggregation_temporality", "is_monotonic")
SOURCE_TEXTS = ("scope_name", "scope_version")
SOURCE_MAPS = ("resource_attr_types", "scope_attrs", "scope_attr_types")


@dataclass(frozen=True)
class Identity:
    """What tells rolled series apart; `given` are the attributes and those of the resource before any was left out."""

    rule: npt.NDArray[np.int64]
    texts: list[npt.NDArray[np.uint64]]
    given: tuple[Entries, Entries]
    attributes: Entries
    resource: Entries
    monotonic: pa.Array
    temporality: pa.Array
    names: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, table: pa.Table, definition: Definition) -> Identity:
        """That of each point, or of each row of a level: keeping what is kept twice changes nothing."""
        metric = encoded(one(table, "metric_name"))
        rules = np.array([*map(definition.rule_of, metric.dictionary.to_pylist()), len(definition.rules) - 1])
        rule = rules[metric.indices.fill_null(len(rules) - 1).to_numpy(zero_copy_only=False)]
        given = (Entries.of(one(table, "attributes")), Entries.of(one(table, "resource_attrs")))
        attributes = _kept(given[0], rule, [one.attributes for one in definition.rules])
        resource = _kept(given[1], rule, [one.resource_attributes for one in definition.rules])
        monotonic, temporality = _kind(table)
        texts = [text_hashes(metric), *_texts(table, TEXTS[1:])]
        kind = [number_hashes(monotonic), number_hashes(temporality)]
        names = names_of([*texts, *kind, attributes.hashes, resource.hashes])
        return cls(rule, texts, given, attributes, resource, monotonic, temporality, names)

    def columns(self, rows: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """The columns that say who some rows are."""
        return {
            "attributes": _maps(self.attributes, rows),
            "resource_attrs": _maps(self.resource, rows),
            "service_name": _services(self.resource, rows),
            "is_monotonic": self.monotonic.take(pa.array(rows)),
            "aggregation_temporality": self.temporality.take(pa.array(rows)),
        }


def raw_names(table: pa.Table, identity: Identity) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The raw series of each point, and the first word for its metric, as one resource and scope sends it."""
    attributes, resource = identity.given
    source = [*_texts(table, SOURCE_TEXTS), resource.hashes, *_maps_of(table, SOURCE_MAPS)]
    numbers = [number_hashes(one(table, name)) for name in NUMBERS]
    metric = names_of([*source, *identity.texts, *numbers])
    return names_of([metric, attributes.hashes, *_maps_of(table, ("attribute_types",))]), metric[:, 0]


def _texts(table: pa.Table, names: Sequence[str]) -> list[npt.NDArray[np.uint64]]:
    return [text_hashes(one(table, name)) for name in names]


def _maps_of(table: pa.Table, names: Sequence[str]) -> list[npt.NDArray[np.uint64]]:
    return [Entries.of(one(table, name)).hashes for name in names]


def _kind(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Whether sums are monotonic, and what the values of those are that are not."""
    is_sum = np.asarray(pa.compute.equal(one(table, "metric_type"), "sum").fill_null(False))
    flag, given = one(table, "is_monotonic").fill_null(False), one(table, "aggregation_temporality").fill_null(0)
    monotonic = np.asarray(flag).astype(bool)
    level = pa.array(np.asarray(given).astype(np.int32), mask=~is_sum | monotonic)
    return pa.array(monotonic, mask=~is_sum), level


def _kept(entries: Entries, rule: npt.NDArray[np.int64], kept: list[Kept]) -> Entries:
    names = entries.keys.dictionary.to_pylist()
    table = np.array([keeps(one, name) for one in kept for name in names], dtype=np.bool_).reshape(len(kept), -1)
    if table.all():
        return entries
    codes = entries.keys.indices.to_numpy(zero_copy_only=False)
    return entries.kept(table[rule[entries.owner], codes])


def _chosen(entries: Entries, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The entries of some rows, in the order of the rows and then of their keys: their places, and whose they are."""
    ends = np.cumsum(np.bincount(entries.owner, minlength=entries.rows))
    begins = np.concatenate(([0], ends[:-1]))
    lengths = (ends - begins)[rows]
    owner = np.repeat(np.arange(len(rows)), lengths)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + begins[rows][owner]
    codes = entries.keys.indices.to_numpy(zero_copy_only=False)[place]
    ranks = np.argsort(np.argsort(np.array(entries.keys.dictionary.to_pylist(), dtype=object))) if len(codes) else codes
    order = order_by((owner, ranks[codes])) if len(codes) else np.zeros(0, dtype=np.int64)
    return place[order], owner


def _maps(entries: Entries, rows: npt.NDArray[np.int64]) -> pa.Array:
    place, owner = _chosen(entries, rows)
    keys, values = (part.take(pa.array(place)) for part in (entries.keys, entries.values))
    everyone = np.ones(len(rows), dtype=bool)
    return maps_of(owner, len(rows), keys.cast(pa.string()), values.cast(pa.string()), everyone)


def _services(entries: Entries, rows: npt.NDArray[np.int64]) -> pa.Array:
    """The service of each row, where its name is kept."""
    known = entries.keys.dictionary.to_pylist()
    if SERVICE_NAME not in known:
        return pa.nulls(len(rows), pa.string())
    mine = np.flatnonzero(entries.keys.indices.to_numpy(zero_copy_only=False) == known.index(SERVICE_NAME))
    place = np.full(entries.rows, -1, dtype=np.int64)
    place[entries.owner[mine]] = mine
    found = place[rows]
    return entries.values.take(pa.array(found, mask=found < 0)).cast(pa.string())
