"""Whether the columns of a file are those of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.otap.footers import nulls_in
from neve.otap.report import Findings, Kind
from neve.otap.tables import DEFAULTS, schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow.parquet as pq


def check_columns(table: str, found: pa.Schema, path: str, findings: Findings) -> bool:
    """Find columns that are missing, and those of a wrong type; whether there are none."""
    before = findings.count
    for field in schema(table):
        if field.name in found.names:
            for problem in _misfits(field.name, found.field(field.name).type, field.type):
                findings.add(Kind.WRONG_TYPE, table, f"{problem} in {path}")
        elif not (field.nullable or (table, field.name) in DEFAULTS):
            findings.add(Kind.COLUMN_MISSING, table, f"{field.name} in {path}")
    return findings.count == before


def check_nulls(table: str, parquet: pq.ParquetFile, path: str, findings: Findings) -> None:
    """Find rows without what they must have, from the footer; a file whose columns are right is given."""
    for field in schema(table):
        if not field.nullable and field.name in parquet.schema_arrow.names and (table, field.name) not in DEFAULTS:
            kind = Kind.NO_PARENT if field.name == "parent_id" else Kind.NO_VALUE
            findings.add(kind, table, f"{field.name} in {path}", nulls_in(parquet, field.name))


def _misfits(place: str, found: pa.DataType, wanted: pa.DataType) -> Iterable[str]:
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        for field in wanted:
            if found.get_field_index(field.name) >= 0:
                yield from _misfits(f"{place}.{field.name}", found.field(field.name).type, field.type)
    elif not _fits(found.value_type if pa.types.is_dictionary(found) else found, wanted):
        yield f"{place} is {found}, expected {wanted}"


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column may be of a type: ids may be narrower, texts of any layout, times in a zone."""
    kinds = pa.types
    if kinds.is_fixed_size_binary(wanted) and kinds.is_fixed_size_binary(found):
        return bool(found == wanted)
    if kinds.is_timestamp(wanted):
        return bool(kinds.is_timestamp(found) and found.unit == "ns")
    if kinds.is_duration(wanted):  # Parquet has no such type: without Arrow's own schema it is a whole number
        return bool(found == wanted or found == pa.int64())
    families = (kinds.is_unsigned_integer, kinds.is_signed_integer, _is_text, _is_bytes)
    family = next((is_member for is_member in families if is_member(wanted)), None)
    return bool(family(found) if family else found == wanted)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_binary(kind) or kind in (pa.binary(), pa.large_binary(), pa.binary_view())
