"""Execution of one query: its state, its result as it arrives, its timeout and its cancellation.

A query reads its rows from a `Run`: a statement in an engine, a result that is stored already, or another run whose
rows are collected for the cache.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded, QueryCancelled, QueryError
from neve.model.query_log import PAGE_NOTE
from neve.query.engine_errors import classify_engine_error, public_message
from neve.query.request import QueryLogEntry, Statistics
from neve.query.sql.error_text import explain_engine_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.query.limits import Limits
    from neve.query.request import Request


class StoredRun:
    """A stored result that needs no execution."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._table.schema

    def begin(self) -> None:
        """Do nothing: the result exists already."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result."""
        yield from self._table.to_batches()

    def interrupt(self) -> None:
        """Do nothing: no statement runs."""

    def close(self) -> None:
        """Do nothing: no resources are held."""


class CollectingRun:
    """Wrapper of a run that passes on its result once it is complete, if it has at most so many bytes."""

    def __init__(self, run: Run, most_bytes: int, keep: Callable[[pa.Table], None]) -> None:
        self._run = run
        self._most = most_bytes
        self._keep = keep

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._run.schema

    def begin(self) -> None:
        """Start the run."""
        self._run.begin()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""
        kept: list[pa.RecordBatch] | None = []
        size = 0
        for batch in self._run.batches():
            size += batch.nbytes
            if size > self._most:
                kept = None
            elif kept is not None:
                kept.append(batch)
            yield batch
        if kept is not None:
            self._keep(pa.Table.from_batches(kept, self.schema))

    def interrupt(self) -> None:
        """Interrupt the run, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Release resources."""
        self._run.close()


class RowLimitRun:
    """Wrapper of a run that fails if its result has more rows than are allowed."""

    def __init__(self, run: Run, most_rows: int, setting: str) -> None:
        self._run = run
        self._most, self._setting = most_rows, setting

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._run.schema

    def begin(self) -> None:
        """Start the run."""
        self._run.begin()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""
        rows = 0
        for batch in self._run.batches():
            rows += batch.num_rows
            if rows > self._most:
                raise LimitExceeded(
                    f"the result has more than {self._most:,} rows ({self._setting})",
                    limit="rows",
                    hint="select fewer rows, for example with LIMIT",
                )
            yield batch

    def interrupt(self) -> None:
        """Interrupt the run, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Release resources."""
        self._run.close()


State = Literal["running", "done", "failed", "cancelled"]

INSIST_SECONDS = 0.05


class Run(Protocol):
    """A statement in an engine."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""

    def begin(self) -> None:
        """Start the statement."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""

    def interrupt(self) -> None:
        """Interrupt the statement, from any thread."""

    def close(self) -> None:
        """Release resources."""


class RunningQuery:
    """One query.

    `batches` yields its result once. A reader that stops early closes the iterator, which ends the query.
    """

    def __init__(self, request: Request, limits: Limits, ended: Callable[[QueryLogEntry], None]) -> None:
        self.id = request.id
        self.request = request
        self.started = datetime.now(UTC)
        self.state: State = "running"
        self.error = ""
        self.statistics = Statistics()
        self.normalised = ""
        self.tables: tuple[str, ...] = ()
        self.columns: Mapping[str, Sequence[str]] = {}  # of these tables, for hints
        self.is_program = False  # in another language than SQL
        self.used_cpu_seconds = 0.0  # by statements before the one of the result
        self._limits = limits
        self._ended = ended
        self._began = time.monotonic()
        self._run: Run = StoredRun(pa.table({}))
        self._first: pa.RecordBatch | None = None
        self._rest: Iterator[pa.RecordBatch] = iter(())
        self._cancelled = threading.Event()
        self._late = threading.Event()
        self._stopped = threading.Event()  # cancelled or late
        self._lock = threading.Lock()
        self._works = True  # from the start: it is being planned
        self._seconds = seconds = min(filter(None, (request.timeout_seconds, limits.seconds)), default=None)
        self._timer = threading.Timer(seconds, self._expire) if seconds else None
        if self._timer:
            self._timer.daemon = True
            self._timer.start()

    @property
    def organization(self) -> str:
        """Return the organization of the query."""
        return self.request.organization

    @property
    def key_id(self) -> str:
        """Return the id of the key of the request."""
        return self.request.key_id

    @property
    def most_rows(self) -> int | None:
        """Return the maximum number of rows of the result."""
        return self._limits.rows

    @property
    def sql(self) -> str:
        """Return the statement as it was sent."""
        return self.request.sql

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._run.schema

    def took(self) -> dict[str, Any]:
        """Return the statistics so far, for programs."""
        return self.statistics.as_document()

    def begin(self, run: Run) -> None:
        """Start a statement and wait for its first rows. A failure here can be retried in another way."""
        with self._lock:
            self._run = run
        self.check()
        try:
            run.begin()
            self._rest = run.batches()
            self._first = next(self._rest, None)
        except Exception as error:
            run.close()
            raise self._words(error) from error
        self._works = False

    def collect(self, run: Run) -> pa.Table:
        """Run a statement that comes before the one of the result, and return its rows. The same timeout applies."""
        with self._lock:
            self._run = run
        self.check()
        batches = []
        try:
            run.begin()
            schema = run.schema
            for batch in run.batches():
                self.check()
                batches.append(batch)
        except Exception as error:
            raise self._words(error) from error
        finally:
            with self._lock:
                self._run = StoredRun(pa.table({}))
            run.close()
        self.used_cpu_seconds += getattr(run, "cpu_seconds", 0.0)  # only workers have a limit, and measure
        return pa.Table.from_batches(batches, schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result, truncated at the requested number of rows."""
        try:
            yield from self._limit_rows()
        except GeneratorExit:
            self.finish("cancelled", error="the client closed the connection")
            raise
        except Exception as error:
            failure = self._words(error)
            self.fail(failure)
            raise failure from error
        self.finish("done")

    def check(self) -> None:
        """Raise the reason to end the query, if there is one."""
        if reason := self._reason():
            raise reason

    def pause(self, seconds: float) -> None:
        """Wait before the query goes on. Raises the reason to end it as soon as there is one."""
        self._stopped.wait(seconds)
        self.check()

    def cancel(self) -> None:
        """Cancel the query, from any thread. A query that has ended is not changed."""
        if self.state != "running" or self._cancelled.is_set():
            return
        self._cancelled.set()
        self._stopped.set()
        threading.Thread(target=self._insist, daemon=True).start()

    def fail(self, error: Exception) -> None:
        """End the query with an error."""
        state: State = "cancelled" if self._cancelled.is_set() else "failed"
        self.finish(state, error=public_message(error), limit=error.limit if isinstance(error, LimitExceeded) else "")

    def finish(self, state: State, *, error: str = "", limit: str = "") -> None:
        """End the query. Only the first call has an effect."""
        with self._lock:
            if self.state != "running":
                return
            self.state, self.error = state, error
            # Ended queries are remembered. A run would keep its statement, its plan and rows of its result in memory.
            run, rest = self._run, self._rest
            columns = run.schema if state == "done" else pa.schema([])
            self._run, self._first, self._rest = StoredRun(columns.empty_table()), None, iter(())
        if self._timer:
            self._timer.cancel()
        run.close()
        del rest  # only now: it reads from the run
        self.statistics = replace(self.statistics, seconds=time.monotonic() - self._began)
        self._ended(self._entry(limit))

    def _entry(self, limit: str) -> QueryLogEntry:
        return QueryLogEntry(
            id=self.id,
            organization=self.organization,
            key_id=self.key_id,
            started=self.started,
            sql=self.sql,
            normalised=self.normalised,
            tables=self.tables,
            state=self.state,
            error=self.error,
            limit=limit,
            statistics=self._marked_statistics(),
        )

    def _marked_statistics(self) -> Statistics:
        """Return the statistics for the query log, which says that a screen of the web page sent the query."""
        if not self.request.is_from_page:
            return self.statistics
        return replace(self.statistics, notes=(*self.statistics.notes, PAGE_NOTE))

    def _limit_rows(self) -> Iterator[pa.RecordBatch]:
        limit, most = self.request.limit, self._limits.rows
        for batch in self._all():
            self.check()
            rows = self.statistics.rows
            wanted = batch if limit is None else batch.slice(0, limit - rows)
            if most is not None and rows + wanted.num_rows > most:
                raise LimitExceeded(
                    f"the result has more than {most:,} rows",
                    limit="rows",
                    hint="select fewer rows, for example with LIMIT",
                )
            self.statistics = replace(self.statistics, rows=rows + wanted.num_rows)
            if wanted.num_rows:
                yield wanted
            if wanted.num_rows < batch.num_rows:
                self.statistics = replace(self.statistics, truncated=True)
                return

    def _all(self) -> Iterator[pa.RecordBatch]:
        if self._first is not None:
            first, self._first = self._first, None
            yield first
        while (batch := self._next()) is not None:
            yield batch

    def _next(self) -> pa.RecordBatch | None:
        with self._lock:
            self._works = True
        self.check()
        try:
            return next(self._rest, None)
        finally:
            self._works = False

    def _expire(self) -> None:
        self._late.set()
        self._stopped.set()
        self._insist()

    def _insist(self) -> None:
        """Interrupt until the query has ended: an interrupt before the engine starts is lost."""
        while self.state == "running":
            with self._lock:
                run, works = self._run, self._works
            if not works:  # no thread waits for rows; the next read reports the reason
                self.fail(self._reason() or QueryCancelled("the query was cancelled"))
                return
            run.interrupt()
            time.sleep(INSIST_SECONDS)

    def _reason(self) -> QueryError | None:
        """Return the reason to end the query before its result is complete."""
        if self._cancelled.is_set():
            return QueryCancelled("the query was cancelled")
        if self._late.is_set():
            return LimitExceeded(
                f"the query took longer than {self._seconds:g} s",
                limit="seconds",
                hint="narrow the time range, select fewer columns, or raise the limit",
            )
        return None

    def _words(self, error: Exception) -> Exception:
        """Return an engine's error for users. An error after an interrupt has the reason of the interrupt."""
        if not isinstance(error, QueryError) or isinstance(error, LimitExceeded):
            error = self._reason() or classify_engine_error(error)
        if type(error) is QueryError and not self.is_program:
            return explain_engine_error(error, self.sql, self.columns)
        return error
