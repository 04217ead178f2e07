"""Erase rows of one table: search its files, replace those with matching rows in one commit, and search new files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, EqualTo, Reference
from pyiceberg.table import FileScanTask

from neve.erase.file_rewrite import Fingerprint, SearchedFile, SearchTask, open_evaluator
from neve.errors import CommitConflict
from neve.lake.arrow_types import to_arrow_schema
from neve.lake.commit.append import TableMoved, append_once
from neve.lake.duckdb import quote_literal
from neve.lake.read.snapshot_files import iterate_data_files, scan_files
from neve.lake.write.table_writer import Target
from neve.model.audit import AUDIT
from neve.model.commits import ERASE
from neve.model.settings import LAKE_OWNER
from neve.model.tables import ORGANIZATION, SEARCH_INDEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.erase.condition import Condition, TextTest
    from neve.lake.lake import Lake

MAX_ROUNDS = 10  # each searches the files that other writers committed meanwhile


@dataclass(frozen=True)
class Search:
    """Organization whose rows are searched, runner of the search tasks, and whether nothing is changed."""

    organization: str
    run: Callable[[Sequence[SearchTask]], list[SearchedFile]]
    is_dry_run: bool
    replaced: tuple[str, ...] = ()  # texts that are replaced in rows, instead of rows that are removed


@dataclass(frozen=True)
class TableErasure:
    """Rows that were erased, or would be, and the rewritten rows that stay.

    `how` is `condition`, `texts`, `replaced` for rows that stay without the texts, `files` for the index of rewritten
    files, `empty`, or `not searched`.
    """

    table: str
    how: str
    files: int = 0
    matched: int = 0
    kept: Fingerprint = field(default_factory=Fingerprint)
    replaced: tuple[str, ...] = ()
    snapshots: tuple[int, ...] = ()


def erase_rows(lake: Lake, name: str, condition: Condition, search: Search) -> TableErasure:
    """Erase the rows of an organization that match. Raises `CommitConflict` if other writers are always faster."""
    table = lake.table(name)
    if table.metadata.current_snapshot_id is None:
        return TableErasure(name, "empty")
    how, sql = choose_search(table, condition, search.organization)
    if sql is None:
        return TableErasure(name, how)
    return _erase(lake, name, how, sql, search)


def erase_audit(lake: Lake, condition: Condition, search: Search) -> TableErasure:
    """Replace texts in entries of the audit log, also in those of the whole lake. The entries themselves stay."""
    name, test = AUDIT.name, condition.text_test
    table = lake.table(name)
    if table.metadata.current_snapshot_id is None or test is None:
        return TableErasure(name, "empty")  # entries have no values of records, but names in them may be such texts
    sql = _search_audit(table, test, search.organization)
    return _erase(lake, name, "replaced", sql, replace(search, organization="", replaced=test.leaves))


def _search_audit(table: Table, test: TextTest, organization: str) -> str:
    owners = ", ".join(map(quote_literal, (organization, LAKE_OWNER)))
    return f"({test.to_sql(to_arrow_schema(table.schema()))}) AND {ORGANIZATION.name} IN ({owners})"


def erase_index(lake: Lake, replaced: Iterable[str], search: Search) -> TableErasure:
    """Erase the full-text index of files that were rewritten. The next build indexes the new files."""
    paths = sorted(replaced)
    if not paths:
        return TableErasure(SEARCH_INDEX.name, "files")
    sql = f"file_path IN ({', '.join(map(quote_literal, paths))})"
    return _erase(lake, SEARCH_INDEX.name, "files", sql, search)


def choose_search(table: Table, condition: Condition, organization: str) -> tuple[str, str | None]:
    """Return how a table is searched, and the SQL condition; None if nothing can be searched for."""
    schema = to_arrow_schema(table.schema())
    is_bound = bool(condition.where) and open_evaluator(schema).is_bound(condition.where)
    sql = condition.to_sql(schema, is_bound=is_bound)
    if sql is None:
        return "not searched", None
    owned = f"({sql}) AND {ORGANIZATION.name} = {quote_literal(organization)}"
    return "condition" if is_bound else "texts", owned


def _erase(lake: Lake, name: str, how: str, sql: str, search: Search) -> TableErasure:
    searched: set[str] = set()
    found: list[SearchedFile] = []
    snapshots: list[int] = []
    for _round in range(MAX_ROUNDS):
        table = lake.table(name)
        files = [
            one for one in scan_files(table, _owner_filter(search.organization)) if one.file.file_path not in searched
        ]
        if not files:
            return _sum_up(name, how, len(searched), found, snapshots)
        target = Target.of(table)
        results = search.run([SearchTask(target, file, sql, search.is_dry_run, search.replaced) for file in files])
        hits = [one for one in results if one.matched]
        if hits and not search.is_dry_run:
            try:
                snapshots.append(_commit(table, hits))
            except TableMoved:  # compaction replaced a file: its rows are in a new one, which is searched next
                continue
        searched |= {one.path for one in results}
        searched |= {file.file_path for one in hits for file in one.added}
        found += hits
        if search.is_dry_run:
            return _sum_up(name, how, len(searched), found, snapshots)
    raise CommitConflict(
        f"other writers changed {name} during each of {MAX_ROUNDS} searches", hint="pause compaction, then run it again"
    )


def _owner_filter(organization: str) -> BooleanExpression:
    return EqualTo(term=Reference(ORGANIZATION.name), value=organization) if organization else AlwaysTrue()


def _commit(table: Table, hits: Sequence[SearchedFile]) -> int:
    paths = {hit.path for hit in hits}

    def find_removed(current: Table) -> list[DataFile]:
        found = [file for file in iterate_data_files(current) if file.file_path in paths]
        if len(found) != len(paths):
            raise TableMoved(f"files of {'.'.join(current.name())} were replaced meanwhile")
        return found

    matched = sum(hit.matched for hit in hits)
    batch_id = f"erase:{uuid4().hex}"
    commit = append_once(
        table,
        [file for hit in hits for file in hit.added],
        batch_id=batch_id,
        operation=ERASE,
        summary={"neve.erased": str(matched)},
        removed=find_removed,
    )
    # The commit lists the removed files with the bounds of their columns. A further one does not refer to that list.
    append_once(table, [], batch_id=f"{batch_id}:list", operation=ERASE)
    return commit.snapshot_id


def search_old_files(table: Table, condition: Condition, search: Search) -> int:
    """Count the matching rows of files that only earlier snapshots, branches and tags refer to."""
    current = {file.file_path for file in iterate_data_files(table)}
    old = {
        file.file_path: file
        for snapshot in table.metadata.snapshots
        for file in iterate_data_files(table, snapshot)
        if file.file_path not in current
    }
    test = condition.text_test
    if table.name()[-1] == AUDIT.name:
        sql = _search_audit(table, test, search.organization) if old and test else None
    else:
        sql = choose_search(table, condition, search.organization)[1] if old else None
    if sql is None:
        return 0
    target = Target.of(table)
    tasks = [SearchTask(target, FileScanTask(file), sql, is_dry_run=True) for file in old.values()]
    return sum(one.matched for one in search.run(tasks))


def _sum_up(name: str, how: str, files: int, found: list[SearchedFile], snapshots: list[int]) -> TableErasure:
    return TableErasure(
        name,
        how,
        files,
        sum(one.matched for one in found),
        sum((one.kept for one in found), Fingerprint()),
        tuple(one.path for one in found),
        tuple(snapshots),
    )
