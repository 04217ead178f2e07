"""Changes to the table, as values: what each does to rows, and how it is said in SQL.

A change that is done twice in a row leaves what it left the first time, except for `Append`; so whoever can't tell
whether one happened does it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.race.rows import Row, Rows, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable

NAP = "race_nap"  # a function that the session must have


@dataclass(frozen=True)
class Append:
    """New rows, as one file for each bucket."""

    rows: tuple[Row, ...]

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        return rows | {row.id: row for row in self.rows}


@dataclass(frozen=True)
class Delete:
    """Some rows go."""

    ids: tuple[int, ...]

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        gone = set(self.ids)
        return {key: row for key, row in rows.items() if key not in gone}

    def sql(self, table: str) -> str:
        """The statement."""
        return f"DELETE FROM {table} WHERE id IN ({_list(self.ids)})"


@dataclass(frozen=True)
class Clear:
    """A whole bucket goes, which Iceberg does without looking at a row."""

    bucket: int

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        return _without(rows, self.bucket)

    def sql(self, table: str) -> str:
        """The statement."""
        return f"DELETE FROM {table} WHERE bucket = {self.bucket}"


@dataclass(frozen=True)
class Update:
    """Some rows get another version, and maybe another bucket."""

    ids: tuple[int, ...]
    version: int
    bucket: int | None

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        changed = [rows[key] for key in self.ids if key in rows]
        return rows | {row.id: self._changed(row) for row in changed}

    def sql(self, table: str) -> str:
        """The statement."""
        moved = "" if self.bucket is None else f", bucket = {self.bucket}"
        payload = f"concat('row ', id, ' of {self.version}')"
        return (
            f"UPDATE {table} SET version = {self.version}, payload = {payload}{moved} WHERE id IN ({_list(self.ids)})"
        )

    def _changed(self, row: Row) -> Row:
        return row_of(row.id, self.version, row.bucket if self.bucket is None else self.bucket)


@dataclass(frozen=True)
class Overwrite:
    """A bucket gets other rows in the place of all that it had."""

    bucket: int
    rows: tuple[Row, ...]

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        return _without(rows, self.bucket) | {row.id: row for row in self.rows}

    def sql(self, table: str) -> str:
        """The statement."""
        columns = "id, payload, version"
        return (
            f"INSERT OVERWRITE {table} PARTITION (bucket = {self.bucket}) ({columns}) "
            f"SELECT {columns} FROM {_values(self.rows)}"
        )


@dataclass(frozen=True)
class Merge:
    """Some rows are changed where they are there and added where they are not, others go.

    It may nap between its look at the table and its commit, so that a compaction falls in between.
    """

    rows: tuple[Row, ...]
    gone: tuple[int, ...]
    nap: float = 0.0

    def apply(self, rows: Rows) -> Rows:
        """The rows afterwards."""
        return Delete(self.gone).apply(rows) | {row.id: row for row in self.rows}

    def sql(self, table: str) -> str:
        """The statement."""
        source = _values((*self.rows, *(row_of(key, -1) for key in self.gone)))
        slow = f" CROSS JOIN {_nap(self.nap)}" if self.nap else ""
        return (
            f"MERGE INTO {table} t USING (SELECT s.* FROM {source}{slow}) s ON t.id = s.id "
            "WHEN MATCHED AND s.version < 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED AND s.version >= 0 THEN INSERT *"
        )


Statement = Delete | Clear | Update | Overwrite | Merge
Change = Append | Statement


def told(change: Change) -> str:
    """A change in one short line."""
    parts = {key: _told(value) for key, value in vars(change).items()}
    return f"{type(change).__name__}({', '.join(f'{key}={value}' for key, value in parts.items())})"


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{' '.join(f'{one.id}@{one.bucket}' if isinstance(one, Row) else str(one) for one in value)}]"
    return str(value)


def new_ids(change: Change) -> int:
    """One more than the largest id that a change brings."""
    return max((row.id + 1 for row in getattr(change, "rows", ())), default=0)


def _without(rows: Rows, bucket: int) -> Rows:
    return {key: row for key, row in rows.items() if row.bucket != bucket}


def _list(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids))


def _nap(seconds: float) -> str:
    """A relation of one row that takes its time when it is read, after the table's snapshot was chosen."""
    return f"(SELECT id AS nap FROM range(0, 1, 1, 1) WHERE {NAP}(id, {seconds:.2f}D)) AS slow"


def _values(rows: Iterable[Row]) -> str:
    values = ", ".join(f"({row.id}L, {row.bucket}, '{row.payload}', {row.version})" for row in rows)
    return f"VALUES {values} AS s(id, bucket, payload, version)"
