"""The files of one snapshot of a table, in a small database of their own that lies on disk.

One pass over the manifests fills it; after that counts and lists are SQL, so that a table of a million files needs no
Python object for each of them, and no more memory than DuckDB is given.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb.sqltypes import DuckDBPyType

from neve.errors import LakeError
from neve.lake import file_index_sql as sql
from neve.lake.duck import literal
from neve.lake.manifest_sources import is_unpartitioned, lots_of
from neve.lake.partition_stats import DeleteCounts, PartitionStats, Share
from neve.lake.partition_values import key_of, label_of, values_of, values_sql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from types import TracebackType

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.bounds import TimeColumn
    from neve.lake.manifest_sources import Lot
    from neve.lake.partition_stats import PartitionId, Question

Connect = Callable[[], duckdb.DuckDBPyConnection]
SHARES = ("hot", "fragments", "undersized", "oversized", "unlaid", "over_deletes", "with_positions", "with_equality")


@dataclass(frozen=True)
class IndexedFile:
    """A data file and the deletes that apply to it: of its partition, of its own alone, and by equality."""

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


class FileIndex:
    """An index over a table's current snapshot, or over another one; a context manager, because it takes disk."""

    def __init__(
        self, table: Table, connect: Connect, *, snapshot: Snapshot | None = None, time: TimeColumn | None = None
    ) -> None:
        self._table = table
        self._connect = connect
        self._snapshot = snapshot or table.current_snapshot()
        self._time = time
        self.manifests = 0

    def __enter__(self) -> FileIndex:
        self._folder = tempfile.TemporaryDirectory(prefix="neve-index-")
        self._duck = self._connect()
        try:
            self._fill()
        except duckdb.Error as error:
            self._close()
            raise LakeError(
                f"can't read the manifests of {'.'.join(self._table.name())}: {str(error).splitlines()[0]}",
                hint="`neve doctor` says whether the storage is reachable",
            ) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._duck.close()
        self._folder.cleanup()

    def stats(self, question: Question) -> list[PartitionStats]:
        """The counts of every partition that has a data file."""
        self._remember(question)
        deletes = self._delete_counts(question)
        rows = self._rows(sql.stats(question))
        return [self._stats(row, deletes.get((row["spec_id"], row["partition"]), DeleteCounts())) for row in rows]

    def candidates(
        self, question: Question, wanted: Mapping[PartitionId, bool], most: int
    ) -> dict[PartitionId, list[IndexedFile]]:
        """The files of some partitions that a rewrite may want, or all that are not hot: so many of each at `most`."""
        self._remember(question)
        self._replace("wanted", [(*partition, everything) for partition, everything in wanted.items()])
        found: dict[PartitionId, list[IndexedFile]] = {partition: [] for partition in wanted}
        for spec_id, partition, *values in self._duck.execute(sql.candidates(question, most)).fetchall():
            found[spec_id, partition].append(IndexedFile(*values))
        return found

    @staticmethod
    def id_of(stats: PartitionStats) -> PartitionId:
        """The name of a partition in the index."""
        return stats.spec_id, stats.text

    def partition_ids(self) -> dict[PartitionId, str]:
        """Every partition, with its key."""
        rows = self._duck.execute("SELECT DISTINCT spec_id, partition FROM files ORDER BY ALL").fetchall()
        return {(spec_id, text): key_of(spec_id, values_of(text)) for spec_id, text in rows}

    def _fill(self) -> None:
        self._duck.execute(f"ATTACH {literal(str(Path(self._folder.name) / 'index.db'))} AS index_db")
        self._duck.execute("USE index_db")
        self._duck.execute(f"SET temp_directory = {literal(self._folder.name)}")
        self._duck.execute("SET enable_external_file_cache = false")  # every manifest is read once
        self._duck.execute("SET preserve_insertion_order = false")  # else rows wait in memory for those before them
        self._duck.execute(sql.TABLES)
        self._replace(
            "commits",
            [
                (snapshot.snapshot_id, snapshot.sequence_number, snapshot.timestamp_ms * 1000)
                for snapshot in self._table.metadata.snapshots
            ],
        )
        lots = lots_of(self._table, self._snapshot) if self._snapshot else []
        for lot in lots:
            self.manifests += len(lot.sources)
            self._read(lot)
        has_deletes = any(lot.holds_deletes for lot in lots)
        self._has_deletes = has_deletes
        self._duck.execute(sql.data(has_deletes=has_deletes))

    def _read(self, lot: Lot) -> None:
        """Add the files of a lot; one whose manifests are of several writers' shapes is read manifest by manifest."""
        columns, fields = self._shape(lot.sources[0].path)
        is_alone = len(lot.sources) == 1
        # DuckDB reads the columns of the first file, and would not say that others have one more.
        if lot.has_sequences and sql.FILE_SEQUENCE not in columns and not is_alone:
            self._read_each(lot)
            return
        try:
            self._insert(lot, columns, fields)
        except duckdb.InvalidInputException:
            if is_alone:
                raise
            self._read_each(lot)

    def _read_each(self, lot: Lot) -> None:
        for source in lot.sources:
            self._read(replace(lot, sources=(source,)))

    def _insert(self, lot: Lot, columns: Collection[str], fields: Mapping[str, DuckDBPyType]) -> None:
        paths = [source.path for source in lot.sources]
        self._replace("manifests", [(source.path, source.sequence, source.snapshot_id) for source in lot.sources])
        kinds = [kind for _name, kind in _children(fields["partition"])] if "partition" in fields else []
        if lot.holds_deletes:
            statement = sql.deletes(
                lot,
                values_sql(kinds),
                columns,
                names_file="referenced_data_file" in fields,
                is_unpartitioned=is_unpartitioned(self._table.specs()[lot.spec_id]),
            )
        else:
            statement = sql.files(lot, values_sql(kinds), self._time, columns)
        self._duck.execute(statement, [paths])

    def _shape(self, path: str) -> tuple[list[str], dict[str, DuckDBPyType]]:
        """The columns of a manifest, and what it tells of a file, with the types that DuckDB sees in it."""
        head = self._duck.sql(f"SELECT * FROM read_avro({literal(path)})")  # noqa: S608
        return head.columns, dict(_children(dict(zip(head.columns, head.types, strict=True))["data_file"]))

    def _remember(self, question: Question) -> None:
        self._replace("laid_out", [(*partition, sequence) for partition, sequence in question.laid_out.items()])

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

    def _delete_counts(self, question: Question) -> dict[PartitionId, DeleteCounts]:
        if not self._has_deletes:
            return {}
        rows = self._duck.execute(sql.delete_counts(question)).fetchall()
        return {(spec_id, partition): DeleteCounts(*counts) for spec_id, partition, *counts in rows}

    def _stats(self, row: dict[str, Any], deletes: DeleteCounts) -> PartitionStats:
        text = row.pop("partition")
        shares: dict[str, Any] = {name: Share(row.pop(f"{name}_files"), row.pop(f"{name}_bytes")) for name in SHARES}
        return PartitionStats(
            values=values_of(text),
            label=self._label(row["spec_id"], text),
            text=text,
            smallest=tuple(row.pop("smallest")),
            rows=row.pop("row_count"),
            deletes=deletes,
            **shares,
            **row,
        )

    def _label(self, spec_id: int, text: str) -> str:
        return label_of([field.name for field in self._table.specs()[spec_id].fields], values_of(text))


def _children(kind: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """The fields of a struct; a record without any, as of a table without partitions, is none for DuckDB."""
    if kind.id != "struct":
        return []
    return [(name, child) for name, child in kind.children if isinstance(child, DuckDBPyType)]
