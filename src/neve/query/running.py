"""A query that runs: its result as it comes, its state, and the ways in which it ends."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

import pyarrow as pa

from neve.errors import LimitExceeded, QueryCancelled, QueryError
from neve.query.entry import Entry
from neve.query.failures import public_words, said_of
from neve.query.statistics import Statistics
from neve.query.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.query.limits import Limits
    from neve.query.request import Request

State = Literal["running", "done", "failed", "cancelled"]

INSIST_SECONDS = 0.05


class Run(Protocol):
    """A statement in an engine."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""

    def begin(self) -> None:
        """Start it."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""

    def interrupt(self) -> None:
        """End it, from any thread."""

    def close(self) -> None:
        """Give back what it holds."""


class Running:
    """One query. `batches` gives its result once; whoever stops reading closes that, which ends the query."""

    def __init__(self, request: Request, limits: Limits, ended: Callable[[Entry], None]) -> None:
        self.id = request.id
        self.request = request
        self.started = datetime.now(UTC)
        self.state: State = "running"
        self.error = ""
        self.statistics = Statistics()
        self.normalised = ""
        self.tables: tuple[str, ...] = ()
        self._limits = limits
        self._ended = ended
        self._began = time.monotonic()
        self._run: Run = Stored(pa.table({}))
        self._first: pa.RecordBatch | None = None
        self._rest: Iterator[pa.RecordBatch] = iter(())
        self._cancelled = threading.Event()
        self._late = threading.Event()
        self._lock = threading.Lock()
        self._works = True  # from the start: it is being planned
        seconds = min(filter(None, (request.timeout_seconds, limits.seconds)), default=None)
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._expire) if seconds else None
        if self._timer:
            self._timer.daemon = True
            self._timer.start()

    @property
    def organization(self) -> str:
        """Whose query it is."""
        return self.request.organization

    @property
    def key_id(self) -> str:
        """The key that it was asked with."""
        return self.request.key_id

    @property
    def most_rows(self) -> int | None:
        """How many rows its result may have."""
        return self._limits.rows

    @property
    def sql(self) -> str:
        """The statement as it was sent."""
        return self.request.sql

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._run.schema

    def took(self) -> dict[str, Any]:
        """What it took so far, for programs."""
        return self.statistics.as_document()

    def begin(self, run: Run) -> None:
        """Start a statement and wait for its first rows; what fails here can be tried in another way."""
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

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result, cut off where it was asked to be."""
        try:
            yield from self._bounded()
        except GeneratorExit:
            self.finish("cancelled", error="whoever asked went away")
            raise
        except Exception as error:
            failure = self._words(error)
            self.fail(failure)
            raise failure from error
        self.finish("done")

    def check(self) -> None:
        """Raise the reason why it has to end, if there is one."""
        reason = self._reason()
        if reason is not None:
            raise reason

    def cancel(self) -> None:
        """End it, from any thread; one that ended is left alone."""
        if self.state != "running" or self._cancelled.is_set():
            return
        self._cancelled.set()
        threading.Thread(target=self._insist, daemon=True).start()

    def fail(self, error: Exception) -> None:
        """It ended in an error."""
        state: State = "cancelled" if self._cancelled.is_set() else "failed"
        self.finish(state, error=public_words(error), limit=error.limit if isinstance(error, LimitExceeded) else "")

    def finish(self, state: State, *, error: str = "", limit: str = "") -> None:
        """It ended; only the first time counts."""
        with self._lock:
            if self.state != "running":
                return
            self.state, self.error = state, error
            run = self._run
        if self._timer:
            self._timer.cancel()
        run.close()
        self.statistics = replace(self.statistics, seconds=time.monotonic() - self._began)
        self._ended(self._entry(limit))

    def _entry(self, limit: str) -> Entry:
        return Entry(
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
            statistics=self.statistics,
        )

    def _bounded(self) -> Iterator[pa.RecordBatch]:
        limit, most = self.request.limit, self._limits.rows
        for batch in self._all():
            self.check()
            rows = self.statistics.rows
            wanted = batch if limit is None else batch.slice(0, limit - rows)
            if most is not None and rows + wanted.num_rows > most:
                raise LimitExceeded(
                    f"the result has more than {most:,} rows",
                    limit="rows",
                    hint="ask for fewer rows, for example with LIMIT",
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
        self._insist()

    def _insist(self) -> None:
        """Interrupt until it has ended: one that comes before the engine begins is lost."""
        while self.state == "running":
            with self._lock:
                run, works = self._run, self._works
            if not works:  # nobody waits for rows; whoever asks for them next is told
                self.fail(self._reason() or QueryCancelled("the query was cancelled"))
                return
            run.interrupt()
            time.sleep(INSIST_SECONDS)

    def _reason(self) -> QueryError | None:
        """Why it has to end before its result does."""
        if self._cancelled.is_set():
            return QueryCancelled("the query was cancelled")
        if self._late.is_set():
            return LimitExceeded(
                f"the query took longer than {self._seconds:g} s",
                limit="seconds",
                hint="ask for less time or fewer columns, or for another limit",
            )
        return None

    def _words(self, error: Exception) -> Exception:
        """An engine's error as users read it; one that an interruption caused says why there was one."""
        if isinstance(error, QueryError) and not isinstance(error, LimitExceeded):
            return error
        return self._reason() or said_of(error)
