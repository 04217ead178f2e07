"""Decisions of a selector in memory, written to the lake where one is at hand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import structlog

from neve.errors import ConfigError
from neve.lake.writer import Target, write_files
from neve.model.tail import DECISIONS
from neve.tail.memory.result import MEMORY
from neve.tail.position import Position
from neve.tail.stored import commit_decisions

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake

MOST_UNWRITTEN = 100_000  # rows that wait for a lake that can't be written to

log = structlog.get_logger("neve.tail")


class DecisionLog:
    """The table `trace_decisions`; decisions go on without it, and what could not be written is written later."""

    def __init__(self, lake: Lake, selector: str) -> None:
        self._lake, self._selector = lake, selector
        self._unwritten: list[pa.Table] = []
        self._lock = threading.Lock()

    def last(self) -> Position | None:
        """Where an earlier process of the selector was; raises `ConfigError` where it read spans from a table."""
        last = Position.of(self._table(), self._selector)
        if last is not None and last.source != MEMORY:
            raise ConfigError(
                f"the selector {self._selector!r} has decided about {last.source}, and is to go on in memory",
                hint="give the selector in memory another tail.name",
            )
        return last

    def write(self, rows: pa.Table, position: Position) -> tuple[int | None, str]:
        """Commit decisions; the snapshot, and what is wrong where there is none."""
        with self._lock:
            self._unwritten.append(rows)
            waiting = pa.concat_tables(self._unwritten)
            if not waiting.num_rows:
                return None, ""
            try:
                table = self._table()
                commit = commit_decisions(table, write_files(Target.of(table), waiting), self._selector, position)
            except Exception as error:  # whatever the catalog, its driver and the storage have for "not now"
                log.error("decisions can't be written", selector=self._selector, error=str(error))
                return None, self._keep(waiting, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
            self._unwritten = []
        return commit.snapshot_id, ""

    def _keep(self, waiting: pa.Table, error: str) -> str:
        gone = max(0, waiting.num_rows - MOST_UNWRITTEN)
        self._unwritten = [waiting.slice(gone)]
        words = f"{waiting.num_rows - gone:,} decisions wait to be written to {DECISIONS.name}: {error}"
        return f"{words}; {gone:,} older ones are not written any more" if gone else words

    def _table(self) -> Table:
        return self._lake.table(DECISIONS.name)
