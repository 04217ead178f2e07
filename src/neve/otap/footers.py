"""What the footer of a file tells: how many rows, of which time, of which part, and how they are numbered."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.otap.footer_repair import open_parquet
from neve.otap.tables import IDS, PART_ID, STARS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs as pafs
    import pyarrow.parquet as pq

    from neve.otap.folder import OtapFile

NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file without its rows.

    Times are nanoseconds since 1970 of the star's own time; only root tables have one, and only with rows. `part` and
    `convention` are what the writer says, and empty where it says nothing: the exporter names the part in root tables,
    and we name the convention of the ids, too.
    """

    rows: int
    bytes: int
    time_min: int | None
    time_max: int | None
    without_id: int
    part: str
    convention: str
    created_by: str


def facts_of(file: OtapFile, filesystem: pafs.FileSystem) -> FileFacts:
    """The facts of a file; a column is read only where the footer has no statistics of it."""
    with opened_file(file.path, filesystem) as parquet:
        least, most = _times(file, parquet)
        columns = parquet.schema_arrow
        return FileFacts(
            rows=parquet.metadata.num_rows,
            bytes=file.size,
            time_min=least,
            time_max=most,
            without_id=_without_id(parquet),
            part=file.part or told_part(columns),
            convention=_told(columns, IDS),
            created_by=parquet.metadata.created_by or "",
        )


def told_part(columns: pa.Schema) -> str:
    """The part that a file says it is of; only root tables do."""
    return _told(columns, PART_ID)


@contextmanager
def opened_file(path: str, filesystem: pafs.FileSystem) -> Iterator[pq.ParquetFile]:
    """A Parquet file, closed afterwards; one that is gone, cut off or damaged is an error that names it."""
    try:
        with filesystem.open_input_file(path) as source:
            yield open_parquet(source)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    except FileNotFoundError as error:
        raise InputError(f"no such file: {path}", hint="it may have been removed meanwhile") from error
    except (pa.ArrowException, OSError) as error:
        words = (str(error).splitlines() or [""])[0]
        raise InputError(f"can't read {path} as Parquet: {words}", hint="fetch or write the file again") from error


def nulls_in(parquet: pq.ParquetFile, name: str) -> int:
    """How many rows have nothing in a column that is not nested."""
    return sum(_nulls(parquet, name, group) for group in _groups_with_rows(parquet))


def _told(columns: pa.Schema, key: str) -> str:
    return str((columns.metadata or {}).get(key.encode(), b"").decode())


def _times(file: OtapFile, parquet: pq.ParquetFile) -> tuple[int | None, int | None]:
    if file.table not in STARS:
        return None, None
    name = STARS[file.table].time_column
    if name not in parquet.schema_arrow.names:
        raise InputError(f"there is no column {name}, which {file.table} must have")
    kind = parquet.schema_arrow.field(name).type
    factor = NANOS[kind.unit] if pa.types.is_timestamp(kind) else 1
    bounds = [_bounds(parquet, name, group) for group in _groups_with_rows(parquet)]
    least = [one[0] for one in bounds if one is not None]
    most = [one[1] for one in bounds if one is not None]
    return (min(least) * factor, max(most) * factor) if least else (None, None)


def _bounds(parquet: pq.ParquetFile, name: str, group: int) -> tuple[int, int] | None:
    """The least and the largest whole number of a column in a row group; none where all are null."""
    statistics = parquet.metadata.row_group(group).column(_leaf(parquet, name)).statistics
    if statistics is not None and statistics.has_min_max:
        return statistics.min_raw, statistics.max_raw
    column = parquet.read_row_group(group, columns=[name]).column(name)
    found = pc.min_max(column.cast(pa.int64()))
    return None if found["min"].as_py() is None else (found["min"].as_py(), found["max"].as_py())


def _without_id(parquet: pq.ParquetFile) -> int:
    """Rows that have no id; a column that was left out has none in any row, and a table of attributes needs none."""
    names = parquet.schema_arrow.names
    if "id" not in names:
        return 0 if "parent_id" in names else parquet.metadata.num_rows
    return nulls_in(parquet, "id")


def _nulls(parquet: pq.ParquetFile, name: str, group: int) -> int:
    statistics = parquet.metadata.row_group(group).column(_leaf(parquet, name)).statistics
    if statistics is not None and statistics.has_null_count:
        return int(statistics.null_count)
    return int(parquet.read_row_group(group, columns=[name]).column(name).null_count)


def _groups_with_rows(parquet: pq.ParquetFile) -> list[int]:
    footer = parquet.metadata
    return [group for group in range(footer.num_row_groups) if footer.row_group(group).num_rows]


def _leaf(parquet: pq.ParquetFile, name: str) -> int:
    """The number of a column that is not nested, among the leaves of all."""
    return next(place for place in range(len(parquet.schema)) if parquet.schema.column(place).path == name)
