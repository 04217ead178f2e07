"""The one writer: each change goes to the table and, when it is there, to the rows that the table should have."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import CommitFailedException
from pyspark.errors import PySparkException

from tests.race.changes import Append, new_ids
from tests.race.draws import draw_append, draw_change
from tests.race.house import TABLE

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from tests.race.changes import Change
    from tests.race.rows import Row, Rows

CHANGE = "race.change"
ATTEMPTS = 30
# Another commit was first, or nobody can tell whether this one happened. Anything else is no race, but a fault.
LOST = ("ValidationException", "CommitFailedException", "CommitStateUnknownException")
SCHEMA = pa.schema([("id", pa.int64()), ("bucket", pa.int32()), ("payload", pa.string()), ("version", pa.int32())])


class Writer:
    """Draws changes and does them, again and again where compaction was first."""

    def __init__(self, lake: Lake, seed: str) -> None:
        self.rows: Rows = {}
        self.done: list[Change] = []
        self.lost: list[str] = []
        self._lake = lake
        self._rng = random.Random(seed)
        self._version = 0
        self._next_id = 0

    def append(self) -> None:
        """Do a random append: what makes compaction have something to do."""
        self._do(draw_append(self._next_version(), self._next_id, self._rng))

    def change(self) -> None:
        """Do a random change."""
        self._do(draw_change(self.rows, self._next_version(), self._next_id, self._rng))

    @property
    def kinds(self) -> Counter[str]:
        """How many changes of each kind were done."""
        return Counter(type(change).__name__.lower() for change in self.done)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _do(self, change: Change) -> None:
        for _ in range(ATTEMPTS):
            if self._attempt(change):
                self.rows = change.apply(self.rows)
                self.done.append(change)
                self._next_id = max(self._next_id, new_ids(change))
                return
        raise RuntimeError(f"{type(change).__name__} lost {ATTEMPTS} times: {self.lost[-1]}")

    def _attempt(self, change: Change) -> bool:
        try:
            if isinstance(change, Append):
                self._append(change)
            else:
                self._lake.spark.sql(change.sql(self._lake.spark_name(TABLE)))
        except CommitFailedException as error:
            return self._has_lost(change, str(error))
        except (Py4JJavaError, PySparkException) as error:
            words = next((line for line in str(error).splitlines() if any(kind in line for kind in LOST)), None)
            if words is None:
                raise
            return self._has_lost(change, words)
        return True

    def _has_lost(self, change: Change, words: str) -> bool:
        self.lost.append(f"{type(change).__name__}: {words.strip()[:300]}")
        return False

    def _append(self, change: Append) -> None:
        """An append is no change that could be done twice: its version tells whether it is there."""
        table, version = self._lake.table(TABLE), str(change.rows[0].version)
        if not _has(table, version):
            table.append(arrow_of(change.rows), snapshot_properties={CHANGE: version})


def arrow_of(rows: tuple[Row, ...]) -> pa.Table:
    """Rows as pyiceberg takes them."""
    return pa.Table.from_pylist([vars(row) for row in rows], schema=SCHEMA)


def _has(table: Table, version: str) -> bool:
    said = (snapshot.summary.additional_properties for snapshot in table.metadata.snapshots if snapshot.summary)
    return any(properties.get(CHANGE) == version for properties in said)
