"""Some rows of a root table with everything that hangs on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from neve.otap.tables import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from neve.otap.joins import Ids

# Beside OTAP's columns: the id that a record has in the lake that it comes from. It hashes what OTAP does not keep.
RECORD_ID = "neve_record_id"
SIGNALS = {"logs": Signal.LOGS, "spans": Signal.TRACES}


@dataclass(frozen=True)
class StarRows:
    """Rows of a root and of its children, with the columns of `schema` in plain types.

    `resources` and `scopes` are the ids by which the attributes of a row's resource and scope are found; where the
    files break the specification these are not the ids that stand in the rows.
    """

    root: str
    rows: pa.Table
    children: Mapping[str, pa.Table]
    resources: Ids
    scopes: Ids

    def column(self, name: str) -> pa.Array:
        """A column of the root."""
        return whole(self.rows.column(name))

    @property
    def record_ids(self) -> pa.Array | None:
        """The ids that the records had in a lake, where the file tells them."""
        return self.column(RECORD_ID) if RECORD_ID in self.rows.column_names else None

    def child(self, table: str) -> pa.Table:
        """The rows of a child; none where it has none."""
        return self.children[table] if table in self.children else schema(table).empty_table()


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks()


def fields(struct: pa.StructArray) -> dict[str, pa.Array]:
    """The fields of structs, null where the struct is."""
    return dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
