"""Index of the files of one snapshot, in a temporary DuckDB database on disk.

One pass over the manifests fills it. After that, counts and lists are SQL. So a table of a million files needs no
Python object per file, and no more memory than DuckDB's limit.

Manifests are immutable. A process can keep the index of a large table on disk (`IndexStore`): the next one reads only
the manifests that are new, and removes the files of those that are gone.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb.sqltypes import DuckDBPyType

from neve.errors import LakeError
from neve.lake.duckdb import quote_literal
from neve.lake.read import file_index_sql as sql
from neve.lake.read.manifests import batch_manifests, is_unpartitioned
from neve.lake.read.partition_stats import (
    DeleteCounts,
    FileTotals,
    PartitionStats,
    format_partition,
    make_partition_id,
    parse_partition_values,
    partition_values_sql,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from types import TracebackType

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.read.manifests import ManifestBatch
    from neve.lake.read.partition_stats import FileCriteria, PartitionId
    from neve.lake.read.statistics import TimeColumn

Connect = Callable[[], duckdb.DuckDBPyConnection]
TOTALS = ("hot", "fragments", "undersized", "oversized", "unlaid", "over_deletes", "with_positions", "with_equality")


@dataclass(frozen=True)
class IndexedFile:
    """A data file and the deletes that apply to it: of its partition, of this file alone, and by equality."""

    path: str
    bytes: int
    rows: int
    sequence: int
    format: str
    sort_order_id: int | None
    time_low: int | None
    time_high: int | None
    position_files: int
    own_files: int
    own_rows: int
    equality_files: int
    unlaid: bool


@dataclass(frozen=True)
class SizeClass:
    """Data files of at least `least` bytes and less than twice as many."""

    least: int
    files: int
    bytes: int
    rows: int


IndexKey = tuple[object, ...]  # table, place and time column


@dataclass(frozen=True)
class StoredIndex:
    """Index on disk: the manifests that it has, the snapshots that were known, and whether all files have a time."""

    folder: tempfile.TemporaryDirectory[str]
    manifests: frozenset[str]
    snapshots: frozenset[int]
    is_timed: bool

    def can_follow(self, snapshots: Iterable[int]) -> bool:
        """Return whether the index of later snapshots can start from this one.

        A file without a time has that of its snapshot, which is unknown after it has expired.
        """
        return self.is_timed or self.snapshots.issubset(snapshots)


@dataclass
class IndexStore:
    """Indexes of large tables without delete files, that a process keeps on disk from one plan to the next."""

    most: int = 8  # tables
    least_files: int = 10_000  # smaller tables are read in less than a second
    _stored: dict[IndexKey, StoredIndex] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: IndexKey) -> StoredIndex | None:
        """Take an index out: nobody else uses it meanwhile."""
        with self._lock:
            return self._stored.pop(key, None)

    def put(self, key: IndexKey, index: StoredIndex) -> None:
        """Keep an index, and remove the one that was kept first if there are too many."""
        with self._lock:
            removed = [one for one in (self._stored.pop(key, None),) if one]
            self._stored[key] = index
            while len(self._stored) > self.most:
                removed.append(self._stored.pop(next(iter(self._stored))))
        for one in removed:
            one.folder.cleanup()

    def clear(self) -> None:
        """Remove all indexes."""
        with self._lock:
            removed, self._stored = list(self._stored.values()), {}
        for one in removed:
            one.folder.cleanup()


@cache
def shared_indexes() -> IndexStore:
    """Return the store of this process."""
    return IndexStore()


class FileIndex:
    """Index of a table's current snapshot, or of another one. A context manager, because it uses disk space."""

    def __init__(
        self,
        table: Table,
        connect: Connect,
        *,
        snapshot: Snapshot | None = None,
        time: TimeColumn | None = None,
        store: IndexStore | None = None,
    ) -> None:
        self._table = table
        self._connect = connect
        self._snapshot = snapshot or table.current_snapshot()
        self._time = time
        self._store = store
        self._has_deletes = False
        self._paths: frozenset[str] = frozenset()
        self.manifests = 0
        self.manifests_read = 0

    def __enter__(self) -> FileIndex:
        batches = batch_manifests(self._table, self._snapshot) if self._snapshot else []
        self._paths = frozenset(source.path for batch in batches for source in batch.sources)
        self._has_deletes = any(batch.holds_deletes for batch in batches)
        stored = self._take_stored()
        self._folder = stored.folder if stored else tempfile.TemporaryDirectory(prefix="neve-index-")
        self._duck = self._connect()
        try:
            self._fill(batches, stored)
        except duckdb.Error as error:
            self._close()
            raise LakeError(
                f"can't read the manifests of {'.'.join(self._table.name())}: {str(error).splitlines()[0]}",
                hint="run `neve doctor` to check the storage",
            ) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None and self._store is not None and not self._has_deletes:
            files, timeless = self._duck.execute(sql.count_files()).fetchall()[0]
            if files >= self._store.least_files:
                self._duck.execute("USE memory")
                self._duck.execute("DETACH index_db")
                self._duck.close()
                self._store.put(self._key, StoredIndex(self._folder, self._paths, self._snapshots, timeless == 0))
                return
        self._close()

    @property
    def _key(self) -> IndexKey:
        return self._table.metadata.table_uuid, self._table.location(), self._time

    @property
    def _snapshots(self) -> frozenset[int]:
        return frozenset(snapshot.snapshot_id for snapshot in self._table.metadata.snapshots)

    def _take_stored(self) -> StoredIndex | None:
        """Return the index to start from. Which deletes apply to a file depends on all of them: it is made anew."""
        stored = self._store.take(self._key) if self._store is not None else None
        if stored is None or (not self._has_deletes and stored.can_follow(self._snapshots)):
            return stored
        stored.folder.cleanup()
        return None

    def _close(self) -> None:
        self._duck.close()
        self._folder.cleanup()

    def stats(self, criteria: FileCriteria) -> list[PartitionStats]:
        """Return the counts of every partition with a data file."""
        self._remember(criteria)
        deletes = self._delete_counts(criteria)
        rows = self._rows(sql.stats(criteria))
        return [self._stats(row, deletes.get((row["spec_id"], row["partition"]), DeleteCounts())) for row in rows]

    def candidates(
        self, criteria: FileCriteria, wanted: Mapping[PartitionId, bool], most: int
    ) -> dict[PartitionId, list[IndexedFile]]:
        """Return the candidates of a rewrite by partition, or all files that are not hot: at most `most` of each."""
        self._remember(criteria)
        self._replace("wanted", [(*partition, everything) for partition, everything in wanted.items()])
        found: dict[PartitionId, list[IndexedFile]] = {partition: [] for partition in wanted}
        for spec_id, partition, *values in self._duck.execute(sql.candidates(criteria, most)).fetchall():
            found[spec_id, partition].append(IndexedFile(*values))
        return found

    def size_classes(self) -> list[SizeClass]:
        """Return the distribution of file sizes, smallest first. Empty files count as files of one byte."""
        rows = self._duck.execute(sql.SIZE_CLASSES).fetchall()
        return [SizeClass(2**power, files, total, count) for power, files, total, count in rows]

    def partition_ids(self) -> dict[PartitionId, str]:
        """Return every partition, with its key."""
        rows = self._duck.execute("SELECT DISTINCT spec_id, partition FROM files ORDER BY ALL").fetchall()
        return {(spec_id, text): make_partition_id(spec_id, parse_partition_values(text)) for spec_id, text in rows}

    def _fill(self, batches: Sequence[ManifestBatch], stored: StoredIndex | None) -> None:
        self._duck.execute(f"ATTACH {quote_literal(str(Path(self._folder.name) / 'index.db'))} AS index_db")
        self._duck.execute("USE index_db")
        self._duck.execute(f"SET temp_directory = {quote_literal(self._folder.name)}")
        self._duck.execute("SET enable_external_file_cache = false")  # every manifest is read once
        self._duck.execute("SET preserve_insertion_order = false")  # otherwise rows wait in memory for earlier ones
        if stored is None:
            self._duck.execute(sql.TABLES)
        elif gone := stored.manifests - self._paths:
            self._duck.execute(sql.remove_manifests(), [sorted(gone)])
        self._replace(
            "commits",
            [
                (snapshot.snapshot_id, snapshot.sequence_number, snapshot.timestamp_ms * 1000)
                for snapshot in self._table.metadata.snapshots
            ],
        )
        self.manifests = len(self._paths)
        for batch in batches:
            new = tuple(one for one in batch.sources if stored is None or one.path not in stored.manifests)
            self.manifests_read += len(new)
            if new:
                self._read(replace(batch, sources=new))
        self._duck.execute(sql.data(has_deletes=self._has_deletes))

    def _read(self, batch: ManifestBatch) -> None:
        """Add the files of a batch. A batch with manifests of different shapes is read manifest by manifest."""
        columns, fields = self._shape(batch.sources[0].path)
        is_alone = len(batch.sources) == 1
        # DuckDB uses the columns of the first file, and does not report an additional column in others.
        if batch.has_sequences and sql.FILE_SEQUENCE not in columns and not is_alone:
            self._read_each(batch)
            return
        try:
            self._insert(batch, columns, fields)
        except duckdb.InvalidInputException:
            if is_alone:
                raise
            self._read_each(batch)

    def _read_each(self, batch: ManifestBatch) -> None:
        for source in batch.sources:
            self._read(replace(batch, sources=(source,)))

    def _insert(self, batch: ManifestBatch, columns: Collection[str], fields: Mapping[str, DuckDBPyType]) -> None:
        paths = [source.path for source in batch.sources]
        self._replace("manifests", [(source.path, source.sequence, source.snapshot_id) for source in batch.sources])
        kinds = [kind for _name, kind in _struct_fields(fields["partition"])] if "partition" in fields else []
        if batch.holds_deletes:
            statement = sql.deletes(
                batch,
                partition_values_sql(kinds),
                columns,
                names_file="referenced_data_file" in fields,
                is_unpartitioned=is_unpartitioned(self._table.specs()[batch.spec_id]),
            )
        else:
            statement = sql.files(batch, partition_values_sql(kinds), self._time, columns)
        self._duck.execute(statement, [paths])

    def _shape(self, path: str) -> tuple[list[str], dict[str, DuckDBPyType]]:
        """Return the columns of a manifest, and the fields of its file entries with their DuckDB types."""
        head = self._duck.sql(f"SELECT * FROM read_avro({quote_literal(path)})")  # noqa: S608
        return head.columns, dict(_struct_fields(dict(zip(head.columns, head.types, strict=True))["data_file"]))

    def _remember(self, criteria: FileCriteria) -> None:
        self._replace("laid_out", [(*partition, sequence) for partition, sequence in criteria.laid_out.items()])

    def _replace(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        self._duck.execute(f"DELETE FROM {table}")  # noqa: S608 - one of our own names
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            marks = ", ".join("unnest(?)" for _column in columns)
            self._duck.execute(f"INSERT INTO {table} SELECT {marks}", columns)

    def _rows(self, statement: str) -> Iterable[dict[str, Any]]:
        result = self._duck.execute(statement)
        names = [column[0] for column in result.description or ()]
        while batch := result.fetchmany(10_000):
            yield from (dict(zip(names, row, strict=True)) for row in batch)

    def _delete_counts(self, criteria: FileCriteria) -> dict[PartitionId, DeleteCounts]:
        if not self._has_deletes:
            return {}
        rows = self._duck.execute(sql.delete_counts(criteria)).fetchall()
        return {(spec_id, partition): DeleteCounts(*counts) for spec_id, partition, *counts in rows}

    def _stats(self, row: dict[str, Any], deletes: DeleteCounts) -> PartitionStats:
        text = row.pop("partition")
        shares: dict[str, Any] = {
            name: FileTotals(row.pop(f"{name}_files"), row.pop(f"{name}_bytes")) for name in TOTALS
        }
        return PartitionStats(
            values=parse_partition_values(text),
            label=self._label(row["spec_id"], text),
            text=text,
            smallest=tuple(row.pop("smallest")),
            rows=row.pop("row_count"),
            deletes=deletes,
            **shares,
            **row,
        )

    def _label(self, spec_id: int, text: str) -> str:
        return format_partition(
            [field.name for field in self._table.specs()[spec_id].fields], parse_partition_values(text)
        )


def _struct_fields(kind: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """Return the fields of a struct. DuckDB has no struct for an empty record, as of an unpartitioned table."""
    if kind.id != "struct":
        return []
    return [(name, child) for name, child in kind.children if isinstance(child, DuckDBPyType)]
