"""The query log: write each query that ended into the table `queries`, without delaying the query.

Entries are queued in memory. One thread writes the queue, one commit at a time. While the lake is unavailable it
retries, and entries queue up to a bound. Entries beyond the bound are dropped, counted and logged.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.logger import get_logger
from neve.model.query_log import QUERIES
from neve.query.metrics import LOG_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry


MAX_TEXT_BYTES = 100_000


def to_rows(entries: Iterable[QueryLogEntry]) -> pa.Table:
    """Return a row for each entry, in their order."""
    return pa.Table.from_pylist([_to_row(entry) for entry in entries], schema=QUERIES.schema)


def _to_row(entry: QueryLogEntry) -> dict[str, Any]:
    statistics = entry.statistics
    return {
        "organization_id": entry.organization,
        "timestamp": entry.started,
        "query_id": entry.id,
        "key_id": entry.key_id,
        "sql": truncate_text(entry.sql),
        "normalised": truncate_text(entry.normalised),
        "tables": list(entry.tables),
        "scans": [asdict(scan) | {"predicate": truncate_text(scan.predicate)} for scan in statistics.scans],
        "files": statistics.files,
        "bytes": statistics.bytes,
        "pruned_files": statistics.pruned_files,
        "pruned_bytes": statistics.pruned_bytes,
        "rows": statistics.rows,
        "planning_seconds": statistics.planning_seconds,
        "seconds": statistics.seconds,
        "engine": statistics.engine,
        "cache": statistics.cache,
        "rollup": statistics.rollup,
        "state": entry.state,
        "error": truncate_text(entry.error),
        "limit_name": entry.limit,
        "partial": statistics.partial,
        "truncated": statistics.truncated,
        "notes": [truncate_text(note) for note in statistics.notes],
    }


def truncate_text(text: str) -> str:
    r"""Return text that can be stored: lone surrogates become question marks, and a long text is truncated with a mark.

    >>> truncate_text("SELECT '\ud800'")
    "SELECT '?'"
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_TEXT_BYTES:
        return data.decode()
    return f"{data[:MAX_TEXT_BYTES].decode('utf-8', 'ignore')} … (cut: it has {len(data):,} bytes)"


# A query queues its entry in memory and continues. One thread writes the queue, in one commit each time. While the lake
# is unavailable it retries, and entries queue up to a bound. Entries beyond the bound are counted and logged.

OPERATION = "query-log"
MAX_QUEUED_BYTES = 64 * 1024 * 1024  # of queued statements; a few long ones must not use the memory of many short ones
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 60.0
LAST_SECONDS = 10.0  # how long `close` retries


log = get_logger("neve.query")


class QueryLog:
    """Queue of entries. `seconds` is the interval between two commits, `most` the maximum number of queued entries."""

    def __init__(self, lake: Lake, seconds: float = 10.0, most: int = 10_000) -> None:
        self._lake = lake
        self._seconds = seconds
        self._most = most
        self._waiting: deque[QueryLogEntry] = deque()
        self._bytes = 0
        self._dropped = 0
        self._until = 0.0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="query-log", daemon=True)
        self._thread.start()

    def __call__(self, entry: QueryLogEntry) -> None:
        """Queue an entry. Never waits for the lake."""
        weight = _text_size(entry)
        with self._lock:
            is_full = len(self._waiting) >= self._most or self._bytes + weight > MAX_QUEUED_BYTES
            if is_full or self._closing.is_set():
                self._dropped += 1
                LOG_ENTRIES.labels("dropped").inc()
                return
            self._waiting.append(entry)
            self._bytes += weight

    def close(self) -> None:
        """Write the remaining entries, within a time limit. Later entries are dropped."""
        self._until = time.monotonic() + LAST_SECONDS
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self._write()
        self._write()

    def _write(self) -> None:
        """Write the queued entries in one commit, and retry while the lake is unavailable."""
        entries = self._take_waiting()
        if entries:
            try:
                self._retrying()(_Batch(self._lake, to_rows(entries)).commit)
                LOG_ENTRIES.labels("written").inc(len(entries))
            except Exception:
                log.exception("entries of the query log are lost", entries=len(entries))
                LOG_ENTRIES.labels("dropped").inc(len(entries))
        self._tell_dropped()

    def _take_waiting(self) -> list[QueryLogEntry]:
        with self._lock:
            entries = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
        return entries

    def _tell_dropped(self) -> None:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("the query log was full, entries are lost", entries=dropped, most=self._most)

    def _retrying(self) -> Retrying:
        return Retrying(
            retry=retry_if_exception_type(Exception),  # each kind of catalog has its own errors
            stop=lambda _state: self._closing.is_set() and time.monotonic() > self._until,
            wait=wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS),
            sleep=self._pause,
            before_sleep=_log_retry,
            reraise=True,
        )

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt. The wait is shorter during `close`."""
        if self._closing.is_set():
            time.sleep(min(seconds, FIRST_WAIT_SECONDS))
        else:
            self._closing.wait(seconds)


class _Batch:
    """Rows of one commit: they are written once and committed once, regardless of the number of attempts."""

    def __init__(self, lake: Lake, rows: pa.Table) -> None:
        self._lake = lake
        self._rows = rows
        self._id = uuid4().hex
        self._files: list[DataFile] | None = None

    def commit(self) -> None:
        table = self._lake.table(QUERIES.name)
        if self._files is None:
            self._files = write_files(Target.of(table), self._rows)
        append_once(table, self._files, batch_id=self._id, operation=OPERATION)


def _text_size(entry: QueryLogEntry) -> int:
    return min(len(entry.sql), MAX_TEXT_BYTES) + min(len(entry.normalised), MAX_TEXT_BYTES)


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    words = (str(error).splitlines() or [""])[0]
    log.warning("the query log can't be written, it is tried again", reason=words, attempt=state.attempt_number)
