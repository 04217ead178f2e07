"""A pool of warm worker processes, each of which runs one DuckDB statement at a time.

A statement that takes too much memory, crashes DuckDB or can't be interrupted fails alone: its process is ended and
replaced. A process sees only the files that its statement was planned to read (`file_links.py`; on object storage, by
a secret for those objects).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from neve.errors import LimitExceeded, QueryError
from neve.lake.child_process import minimal_environment
from neve.lake.duckdb import secret_statement, to_duckdb_path
from neve.local_folders import user_folder
from neve.logger import get_logger
from neve.query.engine.channel import ChannelClosed, Frame, parse_document
from neve.query.engine.cpu_shares import MOST_NICENESS, CpuShares
from neve.query.engine.file_links import LinkFolder, make_locked_folder, remove_stale_folders
from neve.query.engine.worker_process import WorkerContext, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.duckdb import Write
    from neve.query.limits import Limits

log = get_logger(__name__)


KILL_SECONDS = 0.5  # after which a statement that ignores its interrupt is killed
CPU_SLACK_SECONDS = 10.0  # so that the timeout of the query, which has the better message, ends it first
DRAIN_SECONDS = 1.0  # to drain the rest of an abandoned result
TEND_SECONDS, REST_SECONDS, IDLE_SECONDS = 5.0, 30.0, 60.0
DROP_SECRET = "DROP SECRET IF EXISTS lake"  # noqa: S105 - SQL, for a statement that reads no objects
MOST_SCOPES = 1000  # objects that a secret names one by one; with more, it names the tables' folders


@dataclass(frozen=True)
class WorkerStatement:
    """Request of a run to a worker."""

    write: Write
    memory: str
    organization: str
    cpu_seconds: float | None
    niceness: int = 0
    used_cpu_seconds: float = 0.0

    @property
    def cpu_seconds_left(self) -> float | None:
        """Return the CPU seconds that earlier statements of the query have left."""
        return None if self.cpu_seconds is None else max(0.0, self.cpu_seconds - self.used_cpu_seconds)


class WorkerRun:
    """One statement that runs in a worker."""

    def __init__(self, pool: WorkerPool, statement: WorkerStatement) -> None:
        self._pool = pool
        self._statement = statement
        self.cpu_seconds = 0.0  # used, once it is over
        self._worker: WorkerProcess | None = None
        self._schema = pa.schema([])
        self._is_over = False
        self._is_sent = False  # only then is there a statement to interrupt
        self._interrupted_at: float | None = None
        self._killed = False
        self._is_worn = False  # memory ran out: the next statement would fail too
        self._sent_at = 0.0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Send the statement to a worker. Blocks until the columns of the result are known."""
        worker = self._pool.take(self._statement)
        with self._lock:
            self._worker = worker
        worker.number += 1
        written = self._statement.write(worker.root)  # may fail: nothing was sent yet
        request = {
            "number": worker.number,
            "text": written.text,
            "sources": dict(written.sources),
            "files": written.files,
            "time_zone": written.time_zone,
            "grants": self._pool.grants(written.files),
            "cpu_seconds": self._statement.cpu_seconds_left,
            "niceness": self._statement.niceness,
        }
        try:
            worker.channel.send_json(Frame.REQUEST, request)
            self._is_sent, self._sent_at = True, time.monotonic()
            frame, payload = self._receive(worker)
        except ChannelClosed as error:
            raise self._death(worker) from error
        if frame == Frame.SCHEMA:
            self._schema = pa.ipc.read_schema(payload)

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
        """Return the next frame. Raises the error that a frame contains."""
        frame, payload = worker.channel.receive()
        if frame in (Frame.END, Frame.ERROR):
            self._is_over = True
            told = parse_document(payload)
            worker.niceness = told.pop("niceness")
            self.cpu_seconds = told.pop("cpu_seconds")
            self._pool.shares.charge(self._statement.organization, self.cpu_seconds)
            if frame == Frame.ERROR:
                error = rebuild_error(**told)
                self._is_worn |= isinstance(error, duckdb.OutOfMemoryException)
                raise error
        return frame, payload

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
                hint="narrow the time range, or select fewer columns or groups",
            )
        return QueryError(
            f"the engine failed on this statement ({_exit_name(ended)}); other queries are not affected",
            hint="write it in another way, and report it with the statement",
        )


def rebuild_error(kind: str, words: str, hint: str | None) -> Exception:
    """Return an error of a worker as an instance of its original class."""
    if kind == "QueryError":
        return QueryError(words, hint=hint)
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


class WorkerPool:
    """Pool of one worker per concurrent statement. Some workers stay warm when nothing runs."""

    def __init__(self, lake: Lake, config: QueryConfig) -> None:
        self.config = config
        self.shares = CpuShares()
        self._lake = lake
        self.links = None if lake.lake.on_s3 else _link_folder(lake)
        self._idle: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._ended = threading.Event()
        self._spill, self._spill_lock = _spill_folder()
        self.environment = minimal_environment(needs_aws=lake.lake.on_s3 and not lake.s3.access_key)
        self._place = WorkerContext(lake, config, self.environment, self.links, self._spill)
        self._tending = threading.Thread(target=self._tend, daemon=True, name="query-workers")
        self._tending.start()

    def run(self, write: Write, limits: Limits, organization: str = "") -> WorkerRun:
        """Return a run of a statement within the limits of its sender."""
        threads = self.config.threads or os.cpu_count() or 1
        in_time = limits.seconds * threads + CPU_SLACK_SECONDS if limits.seconds else None
        cpu_seconds = limits.cpu_seconds or in_time
        memory = limits.memory or self.config.memory_limit
        niceness = self.shares.niceness(organization)
        used = limits.used_cpu_seconds
        return WorkerRun(self, WorkerStatement(write, memory, organization, cpu_seconds, niceness, used))

    def take(self, statement: WorkerStatement) -> WorkerProcess:
        """Return an idle worker, preferably one that has cached the organization's files, or start a new one."""
        with self._lock:
            fitting = [
                one
                for one in self._idle
                if one.memory == statement.memory and one.niceness <= statement.niceness and one.is_alive
            ]
            fitting.sort(key=lambda one: one.organization == statement.organization)
            worker = fitting[-1] if fitting else None
            spare = None
            if worker is not None:
                self._idle.remove(worker)
            elif len(self._idle) >= self.config.warm_workers > 0:
                spare = self._take_spare(statement.organization)
        if spare is not None:
            spare.end("")
        if worker is None:
            worker = self._start(statement.memory)
        worker.organization = statement.organization
        return worker

    def _take_spare(self, organization: str) -> WorkerProcess | None:
        """Remove an idle worker from a full pool: the organization's own or an unused one, never one of another."""
        spare = next((one for name in (organization, "") for one in self._idle if one.organization == name), None)
        if spare is not None:
            self._idle.remove(spare)
        return spare

    def give_back(self, worker: WorkerProcess, *, is_good: bool) -> None:
        """Keep a worker for the next statement, unless it is unusable or there are enough."""
        with self._lock:
            keep = is_good and worker.is_alive and not self._is_closed and len(self._idle) < self.config.concurrency
            keep = keep and worker.niceness <= MOST_NICENESS
            if keep:
                worker.idle_since, worker.is_at_rest = time.monotonic(), False
                self._idle.append(worker)
        if not keep:
            worker.end("" if is_good else "replaced")

    def grants(self, files: tuple[str, ...]) -> list[str]:
        """Return the statements that let a worker read these objects and no others. Local files are linked instead."""
        s3 = self._lake.s3
        if not self._lake.lake.on_s3 or not s3.access_key:
            return []
        if not files:
            return [DROP_SECRET]
        scope = files if len(files) <= MOST_SCOPES else (self._lake.lake.location.rstrip("/") + "/",)
        return [secret_statement(s3, scope)]

    def close(self) -> None:
        """End all idle workers. The others end with their statements."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        self._ended.set()
        self._tending.join()  # it ends a worker that it has just started
        for worker in idle:
            worker.end("")
        if self.links is not None:
            self.links.close()
        shutil.rmtree(self._spill, ignore_errors=True)
        os.close(self._spill_lock)

    def _start(self, memory: str) -> WorkerProcess:
        try:
            return WorkerProcess(self._place, memory)
        except (ChannelClosed, OSError) as error:
            raise QueryError(
                "a process for the query did not start", hint="run the query again; see the log of the server"
            ) from error

    def _tend(self) -> None:
        """Keep enough workers warm, let idle workers release files, and end surplus workers after a burst."""
        while not self._ended.is_set():
            for worker in self._surplus():
                worker.end("")
            with self._lock:
                before = time.monotonic() - REST_SECONDS
                for worker in self._idle:
                    if not worker.is_at_rest and worker.idle_since < before:
                        worker.rest()
            if not self._warm_up():
                self._ended.wait(TEND_SECONDS)

    def _surplus(self) -> list[WorkerProcess]:
        """Remove and return idle workers that died, and surplus workers that were idle for a while."""
        before = time.monotonic() - IDLE_SECONDS
        with self._lock:
            dead = [one for one in self._idle if not one.is_alive]
            alive = [one for one in self._idle if one.is_alive]
            old = [one for one in alive[: max(0, len(alive) - self.config.warm_workers)] if one.idle_since < before]
            self._idle = [one for one in alive if one not in old]
        return [*dead, *old]

    def _warm_up(self) -> bool:
        """Start a worker if too few are warm. Return whether one was started."""
        with self._lock:
            ready = sum(worker.niceness == 0 for worker in self._idle)
            if self._is_closed or ready >= self.config.warm_workers or len(self._idle) >= self.config.concurrency:
                return False
        try:
            worker = WorkerProcess(self._place, self.config.memory_limit)
        except (ChannelClosed, OSError) as error:
            log.warning("a process for queries did not start", error=str(error) or type(error).__name__)
            return False
        self.give_back(worker, is_good=True)
        return True


def _link_folder(lake: Lake) -> LinkFolder | None:
    """Return the folder for links to files, or `None` if files can't be linked.

    Without links, workers may read the whole warehouse.
    """
    folder = None
    try:
        folder = LinkFolder(lake.lake.location)
        _try_link(lake, Path(folder.path))
    except OSError as error:
        if folder is not None:
            folder.close()
        log.warning("query workers may read the whole warehouse: its files can't be linked", error=str(error))
        return None
    return folder


def _try_link(lake: Lake, folder: Path) -> None:
    """Raise `OSError` if a table's file can't be linked: it may belong to another user or be on another disk."""
    for name in lake.table_names():
        location = lake.table(name).metadata_location
        if location.startswith(("/", "file:")):
            os.link(to_duckdb_path(location), folder / "probe")
            (folder / "probe").unlink()


def _spill_folder() -> tuple[Path, int]:
    """Create a private spill folder, and remove those of servers that were killed."""
    above = Path(user_folder("neve-query"))
    remove_stale_folders(above)
    return make_locked_folder(above)
