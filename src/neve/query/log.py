"""The query log: what was asked, written into a table of the lake without making anyone wait.

A query leaves its entry in memory and goes on. One thread writes what has gathered, in one commit each time. While the
lake is away it tries again and entries gather up to a bound; those beyond it are counted, and the log says so.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog
from prometheus_client import Counter
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from neve.lake.commits import append_once
from neve.lake.writer import Target, write_files
from neve.model.queries import QUERIES
from neve.query.log_rows import MAX_TEXT_BYTES, rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile

    from neve.lake.lake import Lake
    from neve.query.entry import Entry

OPERATION = "query-log"
MOST_BYTES = 64 * 1024 * 1024  # of statements that wait; a few long ones must not take the memory of many short ones
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 60.0
LAST_SECONDS = 10.0  # how long `close` tries

ENTRIES = Counter("neve_query_log_entries", "entries of the query log, by what became of them", ["outcome"])

log = structlog.get_logger("neve.query")


class QueryLog:
    """A place for entries; `seconds` is the time between two commits, `most` how many entries may wait."""

    def __init__(self, lake: Lake, seconds: float = 10.0, most: int = 10_000) -> None:
        self._lake = lake
        self._seconds = seconds
        self._most = most
        self._waiting: deque[Entry] = deque()
        self._bytes = 0
        self._dropped = 0
        self._until = 0.0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="query-log", daemon=True)
        self._thread.start()

    def __call__(self, entry: Entry) -> None:
        """Take an entry; never waits for the lake."""
        weight = _weight(entry)
        with self._lock:
            is_full = len(self._waiting) >= self._most or self._bytes + weight > MOST_BYTES
            if is_full or self._closing.is_set():
                self._dropped += 1
                ENTRIES.labels("dropped").inc()
                return
            self._waiting.append(entry)
            self._bytes += weight

    def close(self) -> None:
        """Write what is left, for as long as that makes sense; entries that come later are dropped."""
        self._until = time.monotonic() + LAST_SECONDS
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._seconds):
            self._write()
        self._write()

    def _write(self) -> None:
        """Write what waits, in one commit, however long the lake is away."""
        entries = self._taken()
        if entries:
            try:
                self._retrying()(_Batch(self._lake, rows_of(entries)).commit)
                ENTRIES.labels("written").inc(len(entries))
            except Exception:
                log.exception("entries of the query log are lost", entries=len(entries))
                ENTRIES.labels("dropped").inc(len(entries))
        self._tell_dropped()

    def _taken(self) -> list[Entry]:
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
            retry=retry_if_exception_type(Exception),  # each kind of catalog fails in its own words
            stop=lambda _state: self._closing.is_set() and time.monotonic() > self._until,
            wait=wait_random_exponential(multiplier=FIRST_WAIT_SECONDS, max=LONGEST_WAIT_SECONDS),
            sleep=self._pause,
            before_sleep=_say,
            reraise=True,
        )

    def _pause(self, seconds: float) -> None:
        """Wait before the next attempt; one that was told to close hurries."""
        if self._closing.is_set():
            time.sleep(min(seconds, FIRST_WAIT_SECONDS))
        else:
            self._closing.wait(seconds)


class _Batch:
    """Rows of one commit: however often it is tried, they are written once and committed once."""

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


def _weight(entry: Entry) -> int:
    return min(len(entry.sql), MAX_TEXT_BYTES) + min(len(entry.normalised), MAX_TEXT_BYTES)


def _say(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    words = (str(error).splitlines() or [""])[0]
    log.warning("the query log can't be written, it is tried again", reason=words, attempt=state.attempt_number)
