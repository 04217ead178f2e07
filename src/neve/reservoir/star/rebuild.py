"""The work of a task: the kept records of one root file with all that hangs on them, written as parts of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neve.errors import InvalidWeight
from neve.lake.filesystem import filesystem_of
from neve.otap.files import put, write_file
from neve.otap.folder import part_path
from neve.otap.joins import NONE, ids_of
from neve.otap.read import CHUNK_ROWS, PartReader
from neve.reservoir.star.decisions import Decisions
from neve.reservoir.star.files import WITHOUT_ID, times_of
from neve.reservoir.star.numbering import LARGEST_SHARED
from neve.reservoir.star.weights import ATTRIBUTE, attributes_of, can_be, numbers_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.joins import Ids
    from neve.otap.read import PartFiles
    from neve.otap.star_rows import StarRows
    from neve.reservoir.star.files import RootFile
    from neve.reservoir.star.numbering import Numbering
    from neve.reservoir.window import Window

DECISIONS = "decisions"
# Each record of a batch alone has a resource of its own, and ids of resources have 16 bits.
MOST_REPAIRED = LARGEST_SHARED + 1 - CHUNK_ROWS


@dataclass(frozen=True)
class Piece:
    """A root file of a window, by its place among the window's files, and the files of its part."""

    file: RootFile
    ordinal: int
    part: PartFiles


@dataclass(frozen=True)
class Rebuilt:
    """What came of a piece: files under the staging folder, by table, and how many records."""

    files: tuple[tuple[str, str], ...]
    records: int
    kept: int
    bytes: int
    counted_as_one: int
    guessed: int


@dataclass(frozen=True)
class Rebuild:
    """Rebuilds pieces of a window; `decisions` is where they were written, or empty where everything passes."""

    signal: str
    window: Window
    generation: int
    staging: str
    decisions: str
    method: str
    numbering: Numbering
    weights: Literal["adjusted_count", "one"]
    invalid_weights: Literal["refuse", "one"]
    rows_per_file: int
    s3: S3Config

    def __call__(self, piece: Piece) -> Rebuilt:
        """Rebuild one piece."""
        kept = Decisions(self.decisions, self.s3).about(piece.file.part) if self.decisions else None
        reader = PartReader(piece.part, self.s3)
        files: list[tuple[str, str]] = []
        records = rows = size = ones = 0

        def keep(batch: pa.Table, start: int) -> npt.NDArray[np.bool_]:
            nonlocal records
            times = times_of(batch, self.signal)
            mine = (times >= self.window.start_ns) & (times < self.window.end_ns)
            records += int(mine.sum())
            return mine if kept is None else mine & kept.holds(_told(batch, start, piece.ordinal))

        most = self.rows_per_file if piece.part.offsets is None else min(self.rows_per_file, MOST_REPAIRED)
        for number, (star, places) in enumerate(reader.kept(self.signal, piece.file.path, keep, most)):
            part = self._part(piece, number)
            if kept is None:
                adjusted, wrong = self._weights(star)
                ones += wrong
            else:
                decided = kept.about(_told(star.rows, places, piece.ordinal))
                adjusted = np.asarray(decided.column("adjusted"))
            tables = self.numbering.tables(star, adjusted, repaired=piece.part.offsets is not None)
            if kept is not None:
                files.append((DECISIONS, self._write_decisions(decided, tables[self.signal].column("id"), part)))
            written = self._write(tables, part)
            files += [(table, path) for table, path, _bytes in written]
            size += sum(each for _table, _path, each in written)
            rows += star.rows.num_rows
        return Rebuilt(tuple(files), records, rows, size, ones, reader.guessed)

    def _part(self, piece: Piece, number: int) -> str:
        """A part of its own: its name tells the window and the file, so that doing it again gives the same."""
        name = f"{self.signal}/{self.window}/{self.window.seconds}/{piece.file.path}/{number}"
        return str(uuid5(NAMESPACE_URL, name))

    def _file(self, part: str, table: str) -> str:
        return str(uuid5(NAMESPACE_URL, f"{part}/{table}/{self.generation}"))

    def _write(self, tables: dict[str, pa.Table], part: str) -> list[tuple[str, str, int]]:
        filesystem, base = filesystem_of(self.staging, self.s3)
        millis = self.window.start_ns // 1_000_000
        written = []
        for table, rows in tables.items():
            path = part_path("", table, part, millis, self._file(part, table))
            written.append((table, path, write_file(filesystem, base + path, table, rows, part).bytes))
        return written

    def _write_decisions(self, decided: pa.Table, ids: pa.ChunkedArray, part: str) -> str:
        """Decisions, under the ids that records have in the sample, beside those that they came with."""
        count = decided.num_rows
        rows = pa.table(
            {
                "window_start": pa.array([self.window.start] * count, pa.timestamp("us", "UTC")),
                "window_end": pa.array([self.window.end] * count, pa.timestamp("us", "UTC")),
                "group": decided.column("group"),
                "part": pa.array([part] * count),
                "id": ids.cast(pa.int64()),
                "source_part": decided.column("part"),
                "source_id": decided.column("id"),
                "weight": decided.column("weight"),
                "adjusted": decided.column("adjusted"),
                "method": pa.array([self.method] * count),
            }
        )
        filesystem, base = filesystem_of(self.staging, self.s3)
        path = f"/_neve/decisions/{self.signal}/{self.window}-{self._file(part, DECISIONS)}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd")
        put(filesystem, base + path, sink.getvalue())
        return path

    def _weights(self, star: StarRows) -> tuple[npt.NDArray[np.float64], int]:
        """What records say that they stand for, 1 where they say nothing, and how many say what can't be."""
        attributes = star.child(attributes_of(self.signal))
        said = attributes.filter(pc.equal(attributes.column("key"), ATTRIBUTE))
        if not said.num_rows or self.weights == "one":
            return np.ones(star.rows.num_rows), 0
        values = numbers_of(said)
        wrong = ~can_be(values)
        if wrong.any() and self.invalid_weights == "refuse":
            row = said.slice(int(np.flatnonzero(wrong)[0]), 1).to_pylist()[0]
            value = next((row[name] for name in ("str", "int", "double", "bool") if row[name] is not None), None)
            raise InvalidWeight(
                f"record {row['parent_id']} of {self.signal} has {ATTRIBUTE} = {value!r}, "
                "expected a finite number above 0",
                hint="set reservoir.invalid_weights: one to count such records as 1",
            )
        ids = ids_of(star.rows.column("id"))
        order = np.argsort(ids, kind="stable")
        places = order[np.searchsorted(ids[order], ids_of(said.column("parent_id")))]
        weights = np.zeros(star.rows.num_rows)
        np.maximum.at(weights, places, np.where(wrong, 1.0, values))
        return np.where(weights == 0, 1.0, weights), len(np.unique(places[wrong]))


def _told(rows: pa.Table, places: int | Ids, ordinal: int) -> Ids:
    """The ids that decisions tell records by: their own, else one below 0 from their place in the file."""
    ids = ids_of(rows.column("id"))
    at = np.arange(places, places + len(ids)) if isinstance(places, int) else places
    return np.where(ids == NONE, -1 - ordinal * WITHOUT_ID - at, ids)
