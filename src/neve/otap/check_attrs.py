"""Whether attributes are what they should be: in order, once for each parent, values in the column of their type."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.otap.files import first_unsorted
from neve.otap.joins import NONE, ids_of
from neve.otap.report import Findings, Kind
from neve.otap.runs import distinct

if TYPE_CHECKING:
    from neve.otap.runs import Ints

# The column that holds a value, by its type.
ACTIVE = {1: "str", 2: "int", 3: "double", 4: "bool", 5: "ser", 6: "ser", 7: "bytes"}
TYPES = (0, *ACTIVE)
VALUES = ("type", *dict.fromkeys(ACTIVE.values()))


@dataclass
class AttrsCheck:
    """The attributes of one table of a part, seen piece by piece; eight bytes of each are kept: its parent and key."""

    table: str
    findings: Findings
    _keys: dict[str, int] = field(default_factory=dict)
    _seen: list[Ints] = field(default_factory=list)
    _last: tuple[str, pa.Table] | None = None

    def add(self, rows: pa.Table, path: str) -> None:
        """The next rows of a file, with parent, key and value."""
        rows = rows.set_column(rows.column_names.index("key"), "key", rows.column("key").cast(pa.string()))
        self._sorted(rows, path)
        check_values(self.table, rows, path, self.findings)
        parents, codes = ids_of(rows.column("parent_id")), self._codes(rows.column("key"))
        self._seen.append((parents << 32 | codes)[parents != NONE])

    def finish(self) -> Ints:
        """Find keys that a parent has more than once; the distinct parents."""
        pairs = np.sort(np.concatenate([np.zeros(0, np.int64), *self._seen]))
        again = pairs[1:][pairs[1:] == pairs[:-1]]
        if len(again):
            key = list(self._keys)[int(again[0]) & 0xFFFFFFFF]
            self.findings.add(Kind.DUPLICATE_KEY, self.table, f"parent_id {again[0] >> 32}, key {key!r}", len(again))
        return distinct(pairs >> 32)

    def _codes(self, keys: pa.ChunkedArray) -> Ints:
        """Keys as small numbers: there are few of them, and they come again and again."""
        encoded = keys.fill_null("").combine_chunks().dictionary_encode()
        mine = [self._keys.setdefault(key, len(self._keys)) for key in encoded.dictionary.to_pylist()]
        return np.array(mine, np.int64)[np.asarray(encoded.indices)] if mine else np.zeros(0, np.int64)

    def _sorted(self, rows: pa.Table, path: str) -> None:
        """Look for the first row that is out of order, also from the piece before to this one."""
        order = rows.select(["parent_id", "key"]).drop_null()
        before = self._last[1].cast(order.schema) if self._last and self._last[0] == path else order.slice(0, 0)
        wrong = first_unsorted(pa.concat_tables([before, order]))
        if wrong is not None:
            self.findings.add(Kind.NOT_SORTED, self.table, path)
        self._last = path, order.slice(max(order.num_rows - 1, 0))


def check_values(table: str, rows: pa.Table, path: str, findings: Findings) -> None:
    """Find values whose type is not known, or whose column is not that of their type; a column left out is empty."""
    kinds = ids_of(rows.column("type"))
    unknown = ~np.isin(kinds, TYPES)
    if unknown.any():
        findings.add(Kind.UNKNOWN_TYPE, table, f"type {_text(kinds[unknown][0])} in {path}", int(unknown.sum()))
    for column in set(rows.column_names) & set(ACTIVE.values()):
        meant = np.isin(kinds, [kind for kind, name in ACTIVE.items() if name == column])
        there = np.asarray(pc.is_valid(rows.column(column)))
        wrong = (meant != there) & ~unknown
        if wrong.any():
            kind = kinds[wrong][0]
            state = "set" if there[wrong][0] else "null"
            findings.add(Kind.MISFIT, table, f"{column} is {state} where type is {kind} in {path}", int(wrong.sum()))


def _text(kind: int) -> str:
    return "null" if kind == NONE else str(kind)
