"""The erasure of records from all tables of a lake, and its proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from neve.erase.file_rewrite import search_file
from neve.erase.old_snapshots import SnapshotErasure, expire_old_snapshots
from neve.erase.table_erasure import Search, TableErasure, erase_audit, erase_index, erase_rows, search_old_files
from neve.lake.spark.tasks import run_tasks
from neve.model.audit import AUDIT
from neve.model.signals import NAMESPACE
from neve.model.tables import SEARCH_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.erase.condition import Condition
    from neve.erase.file_rewrite import SearchedFile, SearchTask
    from neve.lake.lake import Lake

SPARK_BYTES = 4 * 1024**3  # of the files of one table: above, Spark distributes the search
NOT_ERASED = frozenset({AUDIT.name, SEARCH_INDEX.name})  # rows of the audit log are changed; the index has no texts

Progress = Callable[[str, int, int], None]
Readers = Callable[[str], "Iterable[tuple[str, int]]"]


@dataclass(frozen=True)
class Erasure:
    """Result of an erasure. `remaining` are copies that it could not erase yet, with the reasons."""

    is_dry_run: bool
    organization: str
    condition: str
    tables: tuple[TableErasure, ...]
    old: dict[str, int] = field(default_factory=dict)  # rows in files of earlier snapshots, by table
    snapshots: tuple[SnapshotErasure, ...] = ()
    proof: tuple[TableErasure, ...] = ()
    documents: int = 0
    segments: int = 0
    remaining: tuple[str, ...] = ()

    @property
    def matched_rows(self) -> int:
        """Number of rows that were erased, or would be."""
        return sum(one.matched for one in self.tables)

    @property
    def is_proven(self) -> bool:
        """Return whether a search after the erasure found nothing, and no copy remains."""
        return not self.is_dry_run and not self.remaining and not any(one.matched for one in self.proof)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values. Hashes are text, because they have 128 bits."""
        whole = {**asdict(self), "matched": self.matched_rows, "proven": self.is_proven}
        for one in (*whole["tables"], *whole["proof"]):
            one["kept"]["hash"] = str(one["kept"]["hash"])
            one["replaced"] = len(one["replaced"])
        return whole


@dataclass(frozen=True)
class Eraser:
    """Erases records from the tables of a lake. `readers` returns the incremental readers of a table."""

    lake: Lake
    condition: Condition
    organization: str
    now_ms: int
    readers: Readers = lambda _table: ()
    progress: Progress = lambda _step, _done, _total: None
    drop_refs: bool = False
    spark_bytes: int = SPARK_BYTES
    others: tuple[str, ...] = ()  # tables outside of the namespace, with an organization in each row

    def search(self) -> tuple[TableErasure, ...]:
        """Count the matching rows of every table, and change nothing."""
        return self._each_table(is_dry_run=True)

    def erase(self) -> tuple[TableErasure, ...]:
        """Rewrite the files with matching rows, one commit for each table."""
        return self._each_table(is_dry_run=False)

    def search_old(self) -> dict[str, int]:
        """Count the matching rows of files that only earlier snapshots refer to, by table."""
        search = Search(self.organization, self._search, is_dry_run=True)
        names = (name for name in self._table_names() if name != SEARCH_INDEX.name)
        found = {name: search_old_files(self.lake.table(name), self.condition, search) for name in names}
        return {name: matched for name, matched in found.items() if matched}

    def expire(self, names: Iterable[str]) -> tuple[SnapshotErasure, ...]:
        """Expire the earlier snapshots of tables, and remove their files."""
        return tuple(
            expire_old_snapshots(self.lake, name, self.readers(name), self.now_ms, drop_refs=self.drop_refs)
            for name in names
        )

    def _each_table(self, *, is_dry_run: bool) -> tuple[TableErasure, ...]:
        found: list[TableErasure] = []
        search = Search(self.organization, self._search, is_dry_run)
        names = [name for name in self._table_names() if name not in NOT_ERASED]
        for number, name in enumerate(names):
            self.progress("tables", number, len(names))
            found.append(erase_rows(self.lake, name, self.condition, search))
        self.progress("tables", len(names), len(names))
        if AUDIT.name in self.lake.table_names():
            found.append(erase_audit(self.lake, self.condition, search))
        if SEARCH_INDEX.name in self.lake.table_names():
            replaced = [path for one in found for path in one.replaced]
            found.append(erase_index(self.lake, replaced, search))
        return tuple(found)

    def _table_names(self) -> list[str]:
        """Return the tables of the lake, then further ones that Neve has written to."""
        own = self.lake.table_names()
        return [*own, *(name for name in self.others if name.removeprefix(f"{NAMESPACE}.") not in own)]

    def _search(self, tasks: Sequence[SearchTask]) -> list[SearchedFile]:
        if sum(task.file.file.file_size_in_bytes for task in tasks) > self.spark_bytes:
            return run_tasks(self.lake.spark, search_file, tasks)
        return [search_file(task) for task in tasks]
