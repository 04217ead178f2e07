"""Kept records as a star of their own: all that hangs on them and nothing else, with ids that fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.otap.files import canonical
from neve.otap.joins import NONE, ids_of, with_gaps
from neve.otap.tables import RESOURCE_ATTRS, SCOPE_ATTRS, STARS, is_attrs
from neve.reservoir.star.weights import ATTRIBUTE, DOUBLE, STRING, attributes_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.otap.joins import Ids
    from neve.otap.star_rows import StarRows

LARGEST_SHARED = (1 << 16) - 1  # the largest id of a resource or a scope


@dataclass(frozen=True)
class Numbering:
    """How ids are given, and how the count is written."""

    ids: Literal["keep", "renumber"] = "keep"
    adjusted_count: Literal["double", "string"] = "double"

    def tables(self, star: StarRows, adjusted: npt.NDArray[np.float64], *, repaired: bool) -> dict[str, pa.Table]:
        """The tables of kept records; `adjusted` is what each stands for.

        Where ids of resources had to be repaired, those that are found do not fit the column: they are given anew.
        """
        old = ids_of(star.rows.column("id"))
        new = np.arange(len(old)) if self.ids == "renumber" else _completed(old)
        anew = self.ids == "renumber" or repaired
        resources, scopes = (_Shared.of(ids, anew=anew) for ids in (star.resources, star.scopes))
        tables = {
            star.root: _root(star.rows, new, resources.new, scopes.new),
            RESOURCE_ATTRS: _sorted(RESOURCE_ATTRS, resources.moved(star.child(RESOURCE_ATTRS))),
            SCOPE_ATTRS: _sorted(SCOPE_ATTRS, scopes.moved(star.child(SCOPE_ATTRS))),
        }
        known = {star.root: (old, new)}
        for child in STARS[star.root].children:
            if not child.is_shared:
                rows, ids = self._child(star.child(child.table), *known[child.parent])
                known[child.table] = ids
                tables[child.table] = rows
        own = attributes_of(star.root)
        tables[own] = self._counted(own, tables[own], new, adjusted)
        return {
            table: _sorted(table, rows) if is_attrs(table) else canonical(table, rows)
            for table, rows in tables.items()
            if rows.num_rows
        }

    def _child(self, rows: pa.Table, old: Ids, new: Ids) -> tuple[pa.Table, tuple[Ids, Ids]]:
        """Rows that hang on others, and their own ids before and after."""
        rows = _set(rows, "parent_id", pa.array(_moved(ids_of(rows.column("parent_id")), old, new)))
        if "id" not in rows.column_names:
            return rows, (old[:0], new[:0])
        before = ids_of(rows.column("id"))
        after = before
        if self.ids == "renumber":
            after = np.where(before == NONE, NONE, np.cumsum(before != NONE) - 1)
            rows = _set(rows, "id", with_gaps(after, pa.uint32()))
        return rows, (before, after)

    def _counted(self, table: str, rows: pa.Table, ids: Ids, adjusted: npt.NDArray[np.float64]) -> pa.Table:
        """Attributes with the count that each record stands for, in the place of an earlier one."""
        others = rows.filter(pc.not_equal(rows.column("key"), ATTRIBUTE))
        text = self.adjusted_count == "string"
        counts = pa.array([repr(float(one)) for one in adjusted]) if text else pa.array(adjusted, pa.float64())
        columns = {
            "parent_id": pa.array(ids, pa.uint32()),
            "key": pa.array([ATTRIBUTE] * len(ids)),
            "type": pa.array(np.full(len(ids), STRING if text else DOUBLE, np.uint8)),
            "str" if text else "double": counts,
        }
        return pa.concat_tables([canonical(table, others), canonical(table, pa.table(columns))])


@dataclass(frozen=True)
class _Shared:
    """Resources or scopes: their ids in the records before and after."""

    old: Ids
    new: Ids

    @classmethod
    def of(cls, old: Ids, *, anew: bool) -> _Shared:
        has = old != NONE
        if not has.any() or (not anew and old.max() <= LARGEST_SHARED):
            return cls(old, old)
        new = old.copy()
        new[has] = np.unique(old[has], return_inverse=True)[1]
        return cls(old, new)

    def moved(self, rows: pa.Table) -> pa.Table:
        """Their attributes, under the ids that they have now."""
        return _set(rows, "parent_id", pa.array(_moved(ids_of(rows.column("parent_id")), self.old, self.new)))


def _completed(ids: Ids) -> Ids:
    """Ids, with new ones behind them for records that had none: now they have an attribute, which needs it."""
    missing = ids == NONE
    return np.where(missing, max(int(ids.max(initial=NONE)), NONE) + np.cumsum(missing), ids)


def _moved(ids: Ids, old: Ids, new: Ids) -> Ids:
    """What ids have become; every one of them is among the old."""
    if not len(ids):
        return ids
    order = np.argsort(old, kind="stable")
    return new[order[np.searchsorted(old[order], ids)]]


def _root(rows: pa.Table, ids: Ids, resources: Ids, scopes: Ids) -> pa.Table:
    rows = _set(rows, "id", pa.array(ids, pa.uint32()))
    for name, shared in (("resource", resources), ("scope", scopes)):
        struct = rows.column(name).combine_chunks()
        parts = dict(zip(struct.type.names, struct.flatten(), strict=True)) | {"id": with_gaps(shared, pa.uint16())}
        fields = list(struct.type)
        children = [parts[field.name] for field in fields]
        rebuilt = pa.StructArray.from_arrays(children, fields=fields, mask=struct.is_null())
        rows = _set(rows, name, rebuilt)
    return rows


def _set(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def _sorted(table: str, rows: pa.Table) -> pa.Table:
    rows = canonical(table, rows)
    return rows.take(pc.sort_indices(rows, [("parent_id", "ascending"), ("key", "ascending")]))
