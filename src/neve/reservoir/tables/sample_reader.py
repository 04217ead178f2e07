"""Reader of a sample table: kept records with their adjusted counts, group and value, as input of estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType

from neve.errors import ConfigError
from neve.reservoir.tables.expressions import BETWEEN, resolve_column
from neve.reservoir.weights import parse_number

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema

    from neve.lake.lake import Lake
    from neve.reservoir.otap.sample_reader import SampleRequest

OWNER = "organization_id"
OWN = {
    "sampling_window": "window_start",
    "sampling_window_end": "window_end",
    "sampling_group": "group",
    "sampling_weight": "weight",
    "adjusted_count": "adjusted",
    "sampling_method": "method",
}
ALIASES = {"duration": "duration_ms"}


def read_table_sample(lake: Lake, table: str, request: SampleRequest, organization: str | None = None) -> pa.Table:
    """Read kept records of a sample table as input of `neve.reservoir.estimate.sample.Sample.of`.

    The names of groups include the organization if there are several, because each was sampled separately.
    """
    source = lake.table(table)
    schema = source.schema()
    names = [
        resolve_column(schema, ALIASES.get(name, name))[0] for name in (request.by, request.of) if name is not None
    ]
    selected = tuple(dict.fromkeys((OWNER, *OWN, *names)))
    rows = source.scan(row_filter=_filter(request, organization), selected_fields=selected).to_arrow()
    found = pa.table({name: rows.column(column) for column, name in OWN.items()})
    owners = rows.column(OWNER).cast(pa.string())
    found = found.append_column("tau", pa.array(_thresholds(found, owners)))
    several = len(pc.unique(owners)) > 1
    found = found.set_column(2, "group", _name_groups(owners, found.column("group"), several=several))
    if request.by is not None:
        found = found.append_column("by", _name_groups(owners, _texts(rows, schema, request.by), several=several))
    if request.of is not None:
        found = found.append_column("value", pa.array(_numbers(rows, schema, request.of), from_pandas=True))
    return found


def _filter(request: SampleRequest, organization: str | None) -> BooleanExpression:
    """Return the filter for whole windows of the requested time."""
    wanted: BooleanExpression = AlwaysTrue()
    if organization is not None:
        wanted = And(wanted, EqualTo(term=Reference(OWNER), value=organization))
    if request.since is not None:
        wanted = And(wanted, GreaterThanOrEqual(term=Reference("sampling_window"), value=request.since.isoformat()))
    if request.until is not None:
        wanted = And(wanted, LessThanOrEqual(term=Reference("sampling_window_end"), value=request.until.isoformat()))
    return wanted


def _thresholds(rows: pa.Table, owners: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return the threshold of each record's window and group: the adjusted count of light items, 0 if all are kept."""
    columns = (owners, rows.column("window_start"), rows.column("group"))
    codes = np.stack([np.asarray(_codes(column)) for column in columns])
    strata = np.unique(codes, axis=1, return_inverse=True)[1].reshape(-1)
    adjusted, weight = (np.asarray(rows.column(name)) for name in ("adjusted", "weight"))
    largest = np.zeros(len(strata))
    np.maximum.at(largest, strata, np.where(adjusted > weight, adjusted, 0.0))
    return largest[strata]


def _codes(column: pa.ChunkedArray) -> pa.Array:
    return pc.dictionary_encode(column, null_encoding="encode").combine_chunks().indices


def _name_groups(owners: pa.ChunkedArray, groups: pa.ChunkedArray, *, several: bool) -> pa.ChunkedArray:
    texts = groups.cast(pa.string())
    return pc.binary_join_element_wise(owners, pc.fill_null(texts, ""), BETWEEN) if several else texts


def _texts(rows: pa.Table, schema: Schema, name: str) -> pa.ChunkedArray:
    column, key = resolve_column(schema, name)
    found = rows.column(column)
    if key is not None:
        return pc.map_lookup(found, key, "last")
    if pa.types.is_binary(found.type) or pa.types.is_large_binary(found.type):
        return pa.chunked_array([pa.array([value and value.hex() for value in found.to_pylist()], pa.string())])
    return found.cast(pa.string())


def _numbers(rows: pa.Table, schema: Schema, name: str) -> npt.NDArray[np.float64]:
    """Return a numeric column or attribute of records, with NaN for records without one."""
    column, key = resolve_column(schema, ALIASES.get(name, name))
    if key is not None:
        return np.array([parse_number(text) for text in pc.map_lookup(rows.column(column), key, "last").to_pylist()])
    kind = schema.find_type(column)
    if not isinstance(kind, DoubleType | FloatType | IntegerType | LongType):
        raise ConfigError(f"{name} is {kind}", hint="name a column or an attribute that holds numbers")
    return np.asarray(rows.column(column).cast(pa.float64(), safe=False).fill_null(np.nan))
