"""Reader of rows of data files by field id, whatever the columns were called when the files were written."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow

from neve.errors import LakeError
from neve.lake.write.file_schema import FIELD_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.estimate.columns import ColumnSource

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RowReader:
    """Reader of top-level columns of files."""

    table: Table
    names: Sequence[str]

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the columns to read, as in the current table."""
        whole = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        return pa.schema([whole.field(name) for name in self.names])

    def one_group(self, path: str, chance: np.random.Generator) -> pa.Table:
        """Return a random row group of a file."""
        with self._open(path) as file:
            return self._group(file, int(chance.integers(file.metadata.num_row_groups)), self.names)

    def where(self, path: str, names: Sequence[str], holds: Callable[[pa.Table], Mask]) -> pa.Table:
        """Return the rows of a file that satisfy a predicate.

        Columns that the predicate doesn't need are read only in row groups with such rows.
        """
        found = [self.schema.empty_table()]
        with self._open(path) as file:
            for group in range(file.metadata.num_row_groups):
                chosen = np.flatnonzero(holds(self._group(file, group, names)))
                if len(chosen):
                    found.append(self._group(file, group, self.names).take(chosen))
        return pa.concat_tables(found)

    @contextmanager
    def _open(self, path: str) -> Iterator[pq.ParquetFile]:
        try:
            with cast("pa.NativeFile", self.table.io.new_input(path).open()) as source:
                yield pq.ParquetFile(source)
        except (OSError, pa.ArrowInvalid) as error:
            raise LakeError(
                f"can't sample {path} of {'.'.join(self.table.name())}: {str(error).splitlines()[0]}",
                hint="`neve doctor` checks the storage; files must be Parquet",
            ) from error

    def _group(self, file: pq.ParquetFile, group: int, names: Sequence[str]) -> pa.Table:
        written = self._names_in(file.schema_arrow)
        columns_in_file = [written[name] for name in names if name in written]
        rows = file.read_row_group(group, columns=columns_in_file, use_threads=False)
        count = file.metadata.row_group(group).num_rows
        kinds = [self.schema.field(name) for name in names]
        columns = [
            # A column that was added after the file was written has no values in it.
            rows.column(written[field.name]).cast(field.type) if field.name in written else pa.nulls(count, field.type)
            for field in kinds
        ]
        return pa.table(columns, pa.schema(kinds))

    def _names_in(self, schema: pa.Schema) -> dict[str, str]:
        ids = {(field.metadata or {}).get(FIELD_ID): field.name for field in schema}
        fields = {name: self.table.schema().find_field(name) for name in self.names}
        by_id = {name: ids.get(str(one.field_id).encode()) for name, one in fields.items()}
        if set(ids) == {None}:  # a file of another tool: its columns have names, but no ids
            by_id = {name: name if name in schema.names else None for name in self.names}
        return {name: written for name, written in by_id.items() if written is not None}


def extract_values(rows: pa.Table, source: ColumnSource) -> pa.Array:
    """Return the values of a column, of a nested field, or of a map's key."""
    values = rows.column(source.top).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    for name in source.path:
        values = pc.struct_field(values, name)
    return values if source.key is None else pc.map_lookup(values, pa.scalar(source.key, values.type.key_type), "last")
