"""Partition values as Iceberg writes single values in JSON, and the label that people read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb.sqltypes import DuckDBPyType

Value = str | int | float | bool | None

PARTITION = "data_file.partition"
_FORMS = {
    "date": "{}::VARCHAR",
    "time": "{}::VARCHAR",
    "timestamp": "strftime({}, '%Y-%m-%dT%H:%M:%S.%f')",
    "timestamp_ns": "strftime({}, '%Y-%m-%dT%H:%M:%S.%n')",
    "timestamp with time zone": "strftime({}, '%Y-%m-%dT%H:%M:%S.%f+00:00')",
    "decimal": "{}::VARCHAR",
    "uuid": "{}::VARCHAR",
    "blob": "lower(hex({}))",
}


def values_sql(kinds: Sequence[DuckDBPyType]) -> str:
    """SQL for the JSON list of a file's partition values, from the types that its manifest gives them."""
    values = (
        _FORMS.get(kind.id, "{}").format(f"struct_extract_at({PARTITION}, {position})")
        for position, kind in enumerate(kinds, start=1)
    )
    return f"json_array({', '.join(values)})::VARCHAR"


def values_of(text: str) -> tuple[Value, ...]:
    """The values of such a list."""
    return tuple(json.loads(text))


def key_of(spec_id: int, values: Sequence[Value]) -> str:
    """A partition's name among those of its table, for machines: short, and another one for NULL than for 'null'.

    >>> key_of(0, ["null"]) == key_of(0, [None]), len(key_of(7, ["a" * 5000]))
    (False, 34)
    """
    return f"{spec_id}:{xxhash.xxh3_128_hexdigest(json.dumps(list(values)).encode())}"


def label_of(names: Sequence[str], values: Sequence[Value]) -> str:
    """How a partition is called: as the folder of its files is, by most writers.

    >>> label_of(("organization_id", "day"), ("a/b", None))
    'organization_id=a%2Fb/day=null'
    """
    return "/".join(f"{quote(name, safe='')}={_text(value)}" for name, value in zip(names, values, strict=True))


def _text(value: Value) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe=":+,-. ")
