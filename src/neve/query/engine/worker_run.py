"""A statement or program that runs in a worker process, as its server sees it."""

from __future__ import annotations

import re
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import pyarrow as pa

from neve.errors import LimitExceeded, QueryCancelled, QueryError
from neve.logger import get_logger
from neve.query.engine.channel import ChannelClosed, Frame, parse_document
from neve.query.engine.program import StatementRequest, build_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.query.engine.cpu_shares import CpuShares
    from neve.query.engine.duckdb import Write
    from neve.query.engine.program import PlanStatement, Program
    from neve.query.engine.worker_process import WorkerProcess
    from neve.query.sql.duckdb_statement import DuckDBStatement

log = get_logger(__name__)

KILL_SECONDS = 0.5  # after which a statement that ignores its interrupt is killed
DRAIN_SECONDS = 1.0  # to drain the rest of an abandoned result
NARROW = "narrow the time range, or select fewer columns or groups"


@dataclass(frozen=True)
class PlannedProgram:
    """A program, and the function of the server that plans its statements."""

    program: Program
    plan: PlanStatement


@dataclass(frozen=True)
class WorkerStatement:
    """Request of a run to a worker: a statement, or a program."""

    work: Write | PlannedProgram
    memory: str
    organization: str
    cpu_seconds: float | None
    niceness: int = 0
    used_cpu_seconds: float = 0.0

    @property
    def cpu_seconds_left(self) -> float | None:
        """Return the CPU seconds that earlier statements of the query have left."""
        return None if self.cpu_seconds is None else max(0.0, self.cpu_seconds - self.used_cpu_seconds)


class Pool(Protocol):
    """The pool of a run."""

    shares: CpuShares

    def take(self, statement: WorkerStatement) -> WorkerProcess:
        """Return a worker for a statement."""

    def give_back(self, worker: WorkerProcess, *, is_good: bool) -> None:
        """Keep a worker for the next statement."""

    def grants(self, files: tuple[str, ...]) -> list[str]:
        """Return the statements that let a worker read these objects."""


class WorkerRun:
    """One statement or program that runs in a worker."""

    def __init__(self, pool: Pool, statement: WorkerStatement) -> None:
        self._pool = pool
        self._statement = statement
        self.cpu_seconds = 0.0  # used, once it is over
        self._worker: WorkerProcess | None = None
        self._schema = pa.schema([])
        self._is_over = False
        self._is_sent = False  # only then is there a statement to interrupt
        self._interrupted_at: float | None = None
        self._killed = False
        self._is_draining = False
        self._refusal: Exception | None = None  # of a program's statement
        self._is_worn = False  # memory ran out: the next statement would fail too
        self._sent_at = 0.0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Send the statement to a worker. Blocks until the columns of the result are known."""
        worker = self._pool.take(self._statement)
        with self._lock:
            self._worker = worker
        worker.number += 1
        request = {
            "number": worker.number,
            "cpu_seconds": self._statement.cpu_seconds_left,
            "niceness": self._statement.niceness,
            "organization": self._statement.organization,
            **self._describe_work(worker),  # may fail: nothing was sent yet
        }
        try:
            worker.channel.send_json(Frame.REQUEST, request)
            self._is_sent, self._sent_at = True, time.monotonic()
            frame, payload = self._receive(worker)
        except ChannelClosed as error:
            raise self._death(worker) from error
        if frame == Frame.SCHEMA:
            self._schema = pa.ipc.read_schema(payload)

    def _describe_work(self, worker: WorkerProcess) -> dict[str, Any]:
        work = self._statement.work
        if isinstance(work, PlannedProgram):
            program = work.program
            return {
                "function": program.function,
                "arguments": dict(program.arguments),
                "versions": list(program.versions),
                "rollups": list(program.rollups),
                "grown_from": dict(program.grown_from),
            }
        return self._describe_statement(work(worker.root))

    def _describe_statement(self, written: DuckDBStatement) -> dict[str, Any]:
        return {
            "text": written.text,
            "sources": dict(written.sources),
            "files": written.files,
            "time_zone": written.time_zone,
            "grants": self._pool.grants(written.files),
        }

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""
        worker = self._worker
        while worker is not None and not self._is_over:
            try:
                frame, payload = self._receive(worker)
            except ChannelClosed as error:
                raise self._death(worker) from error
            if frame == Frame.BATCH:
                yield pa.ipc.read_record_batch(payload, self._schema)

    def interrupt(self) -> None:
        """Interrupt the statement, from any thread. If it does not end, kill the worker."""
        with self._lock:
            worker = self._worker
            if worker is None or self._is_over:
                return
            now = time.monotonic()
            if self._interrupted_at is None:
                self._interrupted_at = now
            if now - self._interrupted_at < KILL_SECONDS:
                if self._is_sent:  # otherwise two threads would write at once
                    with suppress(ChannelClosed):
                        worker.channel.send_json(Frame.INTERRUPT, {"number": worker.number})
                return
            self._killed = True
        worker.end("interrupted")

    def close(self) -> None:
        """Return the worker to the pool.

        A worker that still computes an abandoned result is interrupted or ended first.
        """
        with self._lock:
            worker, self._worker = self._worker, None
            is_killed = self._killed  # by a thread that may not have done it yet
        if worker is None:
            return
        if self._is_sent and not self._is_over:
            self._drain(worker)
        is_free = self._is_over or not self._is_sent
        self._pool.give_back(worker, is_good=is_free and not self._is_worn and not is_killed)

    def _drain(self, worker: WorkerProcess) -> None:
        self._is_draining = True
        until = time.monotonic() + DRAIN_SECONDS
        try:
            worker.channel.send_json(Frame.INTERRUPT, {"number": worker.number})
            while not self._is_over and (left := until - time.monotonic()) > 0:
                worker.channel.set_timeout(left)
                with suppress(duckdb.Error, QueryError):
                    self._receive(worker)
            worker.channel.set_timeout(None)
        except ChannelClosed:
            self._is_over = False

    def _receive(self, worker: WorkerProcess) -> tuple[Frame, pa.Buffer]:
        """Return the next frame, after the plans that a program requests. Raises the error that a frame contains."""
        frame, payload = worker.channel.receive()
        while frame == Frame.PLAN:
            self._send_plan(worker, parse_document(payload))
            frame, payload = worker.channel.receive()
        if frame in (Frame.END, Frame.ERROR):
            self._is_over = True
            told = parse_document(payload)
            worker.niceness = told.pop("niceness")
            self.cpu_seconds = told.pop("cpu_seconds")
            self._pool.shares.charge(self._statement.organization, self.cpu_seconds)
            if frame == Frame.ERROR:
                raise self._read_error(told)  # no name here: it would tie the statement to its error, as garbage
        return frame, payload

    def _read_error(self, told: dict[str, Any]) -> Exception:
        error = self._rebuild(**told)
        self._is_worn |= isinstance(error, duckdb.OutOfMemoryException)
        return error

    def _send_plan(self, worker: WorkerProcess, document: dict[str, Any]) -> None:
        """Plan a statement of the program. The worker does not see why one is refused: the reason stays here."""
        work = self._statement.work
        try:
            if self._is_draining or not isinstance(work, PlannedProgram):
                raise QueryCancelled("the query was cancelled")
            reply = self._describe_statement(work.plan(StatementRequest.from_document(document))(worker.root))
        except Exception as error:  # any error ends the program, and is raised when it has ended
            self._refusal, reply = error, {}
        with self._lock:  # another thread may be sending an interrupt
            worker.channel.send_json(Frame.PLANNED, reply)

    def _rebuild(self, kind: str, words: str, hint: str | None, limit: str, trace: str) -> Exception:
        if self._refusal is not None:
            return self._refusal
        error = rebuild_error(kind, words, hint, limit)
        if type(error) is duckdb.Error and isinstance(self._statement.work, PlannedProgram):
            return RuntimeError(f"a program failed in its worker\n{trace}")  # a bug, for the log of the server
        return error

    def _death(self, worker: WorkerProcess) -> Exception:
        """Return the error for a worker that has died."""
        ended = worker.end("" if self._killed else "died")
        # The worker did not report its usage: count one CPU for as long as it ran.
        self._pool.shares.charge(self._statement.organization, time.monotonic() - self._sent_at)
        if self._killed:
            return duckdb.InterruptException("Query interrupted")
        log.warning("a process that ran a statement died", exit=ended, organization=self._statement.organization)
        if -ended == signal.SIGXCPU:
            return LimitExceeded(
                f"the query used more than {self._statement.cpu_seconds:g} seconds of the processor",
                limit="cpu_seconds",
                hint="narrow the time range, or select fewer columns",
            )
        if -ended in {signal.SIGKILL, signal.SIGABRT}:
            return LimitExceeded(
                f"the query exceeds its memory limit ({self._statement.memory})",
                limit="memory",
                hint=NARROW,
            )
        return QueryError(
            f"the engine failed on this statement ({_exit_name(ended)}); other queries are not affected",
            hint="write it in another way, and report it with the statement",
        )


def rebuild_error(kind: str, words: str, hint: str | None, limit: str = "") -> Exception:
    """Return an error of a worker as an instance of its original class."""
    known = build_error(kind, words, hint, limit)
    if known is not None:
        return known
    if kind in {"MemoryError", "ArrowMemoryError"} or re.search(r"\bbad_alloc\b|failed to allocate", words):
        return duckdb.OutOfMemoryException(f"Out of Memory Error: {words or 'no memory is left'}")
    found = getattr(duckdb, kind, None)
    if isinstance(found, type) and issubclass(found, duckdb.Error):
        return found(words)
    return duckdb.Error(f"{kind}: {words}")


def _exit_name(ended: int) -> str:
    try:
        return signal.Signals(-ended).name
    except ValueError:
        return f"exit code {ended}"
