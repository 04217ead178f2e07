"""The lake's tables as queries see them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import schema_to_pyarrow

from neve.errors import TableMissing
from neve.query.loading import Loader
from neve.query.scan.owners import check_tenant, has_tenant
from neve.query.scan.times import range_of
from neve.query.sql.suggestions import tables_hint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.query.loading import Look
    from neve.query.scan.files import Planner

NAMES_SECONDS = 30  # columns and names change when software does


@dataclass(frozen=True)
class ColumnFacts:
    """One column."""

    name: str
    type: str
    comment: str
    required: bool


@dataclass(frozen=True)
class TableFacts:
    """What a person asks about a table; numbers are of the organization's own files, deleted rows among them."""

    name: str
    comment: str
    rows: int
    files: int
    bytes: int
    snapshot: int | None
    earliest: datetime | None
    latest: datetime | None
    columns: tuple[ColumnFacts, ...]


class LakeTables:
    """Names and columns are remembered for a while; what a query reads is always looked up."""

    def __init__(self, lake: Lake, planner: Planner) -> None:
        self._lake = lake
        self._loader = Loader(lake)
        self._planner = planner
        self._schemas: dict[str, pa.Schema] = {}
        self._until = 0.0
        self._lock = threading.Lock()

    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of each table."""
        with self._lock:
            if time.monotonic() > self._until:
                names = self._lake.table_names()
                look = self.look() if names else None
                self._schemas = {name: _columns(look.table(name)) for name in names} if look else {}
                self._until = time.monotonic() + NAMES_SECONDS
            if not self._schemas:
                self._until = 0.0
                raise TableMissing("the lake has no tables", hint="run `neve init`")
            return self._schemas

    def names(self) -> tuple[str, ...]:
        """The tables that can be asked: those whose rows say whose they are."""
        known, look = self.schemas(), self.look()
        return tuple(name for name in known if has_tenant(look.table(name).schema()))

    def look(self) -> Look:
        """Tables as they are now."""
        return self._loader.look()

    def facts(self, name: str, organization: str) -> TableFacts:
        """All that an organization may know of one."""
        if name not in self.schemas():
            raise TableMissing(f"there is no table {name}", hint=tables_hint(name, self.schemas()))
        table = self.look().table(name)
        check_tenant(table.schema(), name)
        files = self._planner.owned(table, organization)
        earliest, latest = range_of(table.schema(), files)
        return TableFacts(
            name=name,
            comment=table.properties.get("comment", ""),
            rows=sum(file.record_count for file in files),
            files=len(files),
            bytes=sum(file.file_size_in_bytes for file in files),
            snapshot=table.metadata.current_snapshot_id,
            earliest=earliest,
            latest=latest,
            columns=tuple(
                ColumnFacts(field.name, str(field.field_type), field.doc or "", field.required)
                for field in table.schema().fields
            ),
        )


def _columns(table: Table) -> pa.Schema:
    return schema_to_pyarrow(table.schema(), include_field_ids=False)
