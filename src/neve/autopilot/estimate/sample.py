"""Rows of a table, few of each file: one row group of it that chance picks, and of that some rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow

from neve.autopilot.estimate.columns import source_of, types_of
from neve.errors import LakeError
from neve.lake.fields import FIELD_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.columns import Source
    from neve.autopilot.estimate.files import TableFiles


@dataclass(frozen=True)
class Sample:
    """Sampled rows; each stands for `weights` rows of the table, and came from the file with its number in `files`.

    Rows that delete files mark are among them: few are, and a rewrite of a table with many begins with compaction.
    `key_shares` says of keys of maps how much of the map's bytes they and their values are.
    """

    columns: Mapping[str, pa.Array]
    types: Mapping[str, IcebergType]
    weights: npt.NDArray[np.float64]
    files: npt.NDArray[np.int64]
    key_shares: Mapping[str, float]

    @property
    def rows(self) -> int:
        """How many rows were sampled."""
        return len(self.weights)

    def thinned(self, rows: int, seed: int) -> Sample:
        """Some rows of the sample, for a first look at many candidates."""
        if self.rows <= rows:
            return self
        chosen = np.sort(np.random.default_rng(seed).permutation(self.rows)[:rows])
        weights = self.weights[chosen]
        return replace(
            self,
            columns={name: column.take(chosen) for name, column in self.columns.items()},
            weights=weights * (self.weights.sum() / weights.sum()),
            files=self.files[chosen],
        )


@dataclass(frozen=True)
class Size:
    """How much is sampled: rows in all, and files at most."""

    rows: int
    files: int
    seed: int


def take_sample(table: Table, files: TableFiles, names: Sequence[str], size: Size) -> Sample:
    """Sample the columns of a table that queries ask for; the same files and seed give the same rows."""
    types = types_of(table.schema(), names)
    chance = np.random.default_rng(size.seed)
    known = _in_order(files)
    chosen = np.sort(chance.permutation(len(known))[: size.files])
    total = sum(known[place][1] for place in chosen)
    reader = _Reader(table, sorted({source_of(name).top for name in types}))
    pieces, weights, numbers = [], [], []
    for number, place in enumerate(chosen):
        path, rows = known[place]
        wanted = max(1, round(size.rows * rows / total))
        piece = reader.read(path, wanted, chance)
        pieces.append(piece)
        weights.append(np.full(piece.num_rows, rows / max(1, piece.num_rows)))
        numbers.append(np.full(piece.num_rows, number, dtype=np.int64))
    rows = pa.concat_tables(pieces).combine_chunks() if pieces else reader.schema.empty_table()
    columns = {name: _values(rows, source_of(name)) for name in types}
    shares = {name: _key_share(rows, source_of(name), columns[name]) for name in types if source_of(name).key}
    scale = files.rows / total if total else 0.0
    none = np.zeros(0)
    return Sample(
        columns=columns,
        types=types,
        weights=np.concatenate([none, *weights]) * scale,
        files=np.concatenate([none, *numbers]).astype(np.int64),
        key_shares=shares,
    )


def _in_order(files: TableFiles) -> list[tuple[str, int]]:
    """The files that have rows, as they were written: a rewrite that sorts by nothing leaves rows in that order."""
    every = [
        (sequence, path, rows)
        for spec in files.specs.values()
        for sequence, path, rows in zip(spec.sequences, spec.paths, spec.rows, strict=True)
        if rows
    ]
    return [(path, rows) for _sequence, path, rows in sorted(every, key=itemgetter(0))]


@dataclass(frozen=True)
class _Reader:
    """Reads top columns of files, whatever they were called when the files were written."""

    table: Table
    names: Sequence[str]

    @property
    def schema(self) -> pa.Schema:
        whole = schema_to_pyarrow(self.table.schema(), include_field_ids=False)
        return pa.schema([whole.field(name) for name in self.names])

    def read(self, path: str, wanted: int, chance: np.random.Generator) -> pa.Table:
        try:
            with cast("pa.NativeFile", self.table.io.new_input(path).open()) as source:
                file = pq.ParquetFile(source)
                group = int(chance.integers(file.metadata.num_row_groups))
                written = self._names_in(file.schema_arrow)
                rows = file.read_row_group(group, columns=list(written.values()), use_threads=False)
        except (OSError, pa.ArrowInvalid) as error:
            raise LakeError(
                f"can't sample {path} of {'.'.join(self.table.name())}: {str(error).splitlines()[0]}",
                hint="`neve doctor` says whether the storage is reachable; files must be Parquet",
            ) from error
        count = file.metadata.row_group(group).num_rows
        picked = pa.array(np.sort(chance.permutation(count)[:wanted]))
        return pa.table([self._column(rows, written.get(name), picked, name) for name in self.names], self.schema)

    def _column(self, rows: pa.Table, written: str | None, picked: pa.Array, name: str) -> pa.ChunkedArray:
        kind = self.schema.field(name).type
        if written is None:  # the column is younger than the file
            return pa.chunked_array([pa.nulls(len(picked), kind)])
        return rows.column(written).cast(kind).take(picked)

    def _names_in(self, schema: pa.Schema) -> dict[str, str]:
        ids = {(field.metadata or {}).get(FIELD_ID): field.name for field in schema}
        fields = {name: self.table.schema().find_field(name) for name in self.names}
        by_id = {name: ids.get(str(one.field_id).encode()) for name, one in fields.items()}
        if set(ids) == {None}:  # a file that another tool wrote: its columns have names only
            by_id = {name: name if name in schema.names else None for name in self.names}
        return {name: written for name, written in by_id.items() if written is not None}


def _values(rows: pa.Table, source: Source) -> pa.Array:
    values = rows.column(source.top).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    for name in source.path:
        values = pc.struct_field(values, name)
    return values if source.key is None else pc.map_lookup(values, pa.scalar(source.key, values.type.key_type), "last")


def _key_share(rows: pa.Table, source: Source, values: pa.Array) -> float:
    """How much of a map's bytes is one key with its values."""
    whole = _values(rows, replace(source, key=None))
    everything = sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in (whole.keys, whole.items))
    length = len((source.key or "").encode()) * (len(values) - values.null_count)
    return ((pc.sum(pc.binary_length(values)).as_py() or 0) + length) / everything if everything else 1.0
