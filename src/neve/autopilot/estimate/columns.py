"""What a column of a workload is in a table: a column, a field inside one, or a key of a map."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import MetricModeTypes, compute_statistics_plan
from pyiceberg.types import MapType

from neve.autopilot.estimate.plain import is_known

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

KEYED = re.compile(r"(?P<column>.+)\['(?P<key>.*)'\]", re.DOTALL)
CUT_DEFAULT = 16  # characters that Iceberg keeps of a bound
INFERRED_COLUMNS = 100  # that have bounds unless a property says otherwise
METRICS_COLUMN = "write.metadata.metrics.column."


@dataclass(frozen=True)
class Source:
    """Where the values of a column come from: the top column, the fields on the way down, and a map's key."""

    top: str
    path: tuple[str, ...] = ()
    key: str | None = None


def source_of(name: str) -> Source:
    """The parts of a column's name.

    >>> source_of("attributes['http.route']"), source_of("resource.id")
    (Source(top='attributes', path=(), key='http.route'), Source(top='resource', path=('id',), key=None))
    """
    keyed = KEYED.fullmatch(name)
    top, *path = (keyed["column"] if keyed else name).split(".")
    return Source(top, tuple(path), keyed["key"] if keyed else None)


def types_of(schema: Schema, names: Iterable[str]) -> dict[str, IcebergType]:
    """The types of the columns that a table has and whose values can be compared."""
    found = {name: _type(schema, name) for name in names}
    return {name: kind for name, kind in found.items() if kind is not None and is_known(kind)}


def _type(schema: Schema, name: str) -> IcebergType | None:
    source = source_of(name)
    held = ".".join((source.top, *source.path))
    if held not in schema.column_names:
        return None
    kind: IcebergType = schema.find_type(held)
    if source.key is None:
        return kind
    return kind.value_type if isinstance(kind, MapType) else None


def cut_lengths(schema: Schema, properties: dict[str, str]) -> dict[str, int]:
    """The columns that new files have bounds of, and to how many characters those of text are cut (0: not at all)."""
    plan = compute_statistics_plan(schema, properties)
    inferred = {one.field_id for one in schema.fields[:INFERRED_COLUMNS]}
    found = {}
    for number, how in plan.items():
        name = schema.find_column_name(number) or ""
        bounded = how.mode.type in {MetricModeTypes.TRUNCATE, MetricModeTypes.FULL}
        if bounded and (number in inferred or METRICS_COLUMN + name in properties):
            found[name] = how.mode.length or 0
    return found
