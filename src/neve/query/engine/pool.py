"""Statements on DuckDB in processes of their own: warm ones, each with one statement at a time.

A statement that takes too much memory, crashes DuckDB or can't be interrupted costs itself: its process is ended and
another takes its place. A process sees the files that its statement was planned to read, and no others
(`links.py`; on object storage, by a secret for those objects alone).
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
import structlog

from neve.errors import LimitExceeded, QueryError
from neve.lake.child import minimal_environment
from neve.lake.duck import secret
from neve.lake.manifest_sources import readable
from neve.lake.private_folders import user_folder
from neve.query.engine.channel import ChannelClosed, Frame, document_of
from neve.query.engine.links import LinkFolder, make_locked, sweep
from neve.query.engine.process import Place, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.duckdb import Write
    from neve.query.limits import Limits

log = structlog.get_logger(__name__)


KILL_SECONDS = 0.5  # after which a statement that does not end when it is interrupted is killed
CPU_SLACK_SECONDS = 10.0  # so that the time of a query, which has the better words, ends it first
DRAIN_SECONDS = 1.0  # for what is left of a result that nobody wants
TEND_SECONDS, REST_SECONDS, IDLE_SECONDS = 5.0, 30.0, 60.0
FORGET = "DROP SECRET IF EXISTS lake"  # for a statement that reads no objects
MOST_SCOPES = 1000  # objects that a secret names one by one; beyond that it is for the tables' folders


@dataclass(frozen=True)
class Statement:
    """What a run asks of a worker."""

    write: Write
    memory: str
    organization: str
    cpu_seconds: float | None


class WorkerRun:
    """One statement that runs in a worker."""

    def __init__(self, pool: WorkerPool, statement: Statement) -> None:
        self._pool = pool
        self._statement = statement
        self._worker: WorkerProcess | None = None
        self._schema = pa.schema([])
        self._is_over = False
        self._is_sent = False  # only then is there anything to interrupt
        self._interrupted_at: float | None = None
        self._killed = False
        self._is_worn = False  # memory ran out, or the priority is low: the next statement would suffer
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Give it to a worker; blocks until the columns of the result are known."""
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
            "grants": self._pool.grants(written.files),
            "cpu_seconds": self._statement.cpu_seconds,
        }
        try:
            worker.channel.send_json(Frame.REQUEST, request)
            self._is_sent = True
            frame, payload = self._receive(worker)
        except ChannelClosed as error:
            raise self._death(worker) from error
        if frame == Frame.SCHEMA:
            self._schema = pa.ipc.read_schema(payload)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""
        worker = self._worker
        while worker is not None and not self._is_over:
            try:
                frame, payload = self._receive(worker)
            except ChannelClosed as error:
                raise self._death(worker) from error
            if frame == Frame.BATCH:
                yield pa.ipc.read_record_batch(payload, self._schema)

    def interrupt(self) -> None:
        """End it, from any thread: first it is asked to, and when it does not obey it is killed."""
        with self._lock:
            worker = self._worker
            if worker is None or self._is_over:
                return
            now = time.monotonic()
            if self._interrupted_at is None:
                self._interrupted_at = now
            if now - self._interrupted_at < KILL_SECONDS:
                if self._is_sent:  # else two threads would write at once
                    with suppress(ChannelClosed):
                        worker.channel.send_json(Frame.INTERRUPT, {"number": worker.number})
                return
            self._killed = True
        worker.end("interrupted")

    def close(self) -> None:
        """Give the worker back; one that still works for a result that nobody wants is interrupted or ended first."""
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
        """The next frame; raises the error that one holds."""
        frame, payload = worker.channel.receive()
        if frame in (Frame.END, Frame.ERROR):
            self._is_over = True
            told = document_of(payload)
            self._is_worn = told.pop("is_worn")
            if frame == Frame.ERROR:
                error = error_of(**told)
                self._is_worn |= isinstance(error, duckdb.OutOfMemoryException)
                raise error
        return frame, payload

    def _death(self, worker: WorkerProcess) -> Exception:
        """What became of a worker that is gone, in words."""
        ended = worker.end("" if self._killed else "died")
        if self._killed:
            return duckdb.InterruptException("Query interrupted")
        log.warning("a process that ran a statement died", exit=ended, organization=self._statement.organization)
        if -ended == signal.SIGXCPU:
            return LimitExceeded(
                f"the query used more than {self._statement.cpu_seconds:g} seconds of the processor",
                limit="cpu_seconds",
                hint="ask for less time or fewer columns",
            )
        if -ended in {signal.SIGKILL, signal.SIGABRT}:
            return LimitExceeded(
                f"the query needs more memory than it may have ({self._statement.memory})",
                limit="memory",
                hint="ask for less time, fewer columns or fewer groups",
            )
        return QueryError(
            f"the engine failed on this statement ({_name_of_exit(ended)}); other queries are not affected",
            hint="write it in another way, and report it with the statement",
        )


def error_of(kind: str, words: str, hint: str | None) -> Exception:
    """An error of a worker as the class that it was there."""
    if kind == "QueryError":
        return QueryError(words, hint=hint)
    if kind in {"MemoryError", "ArrowMemoryError"} or re.search(r"\bbad_alloc\b|failed to allocate", words):
        return duckdb.OutOfMemoryException(f"Out of Memory Error: {words or 'no memory is left'}")
    found = getattr(duckdb, kind, None)
    if isinstance(found, type) and issubclass(found, duckdb.Error):
        return found(words)
    return duckdb.Error(f"{kind}: {words}")


def _name_of_exit(ended: int) -> str:
    try:
        return signal.Signals(-ended).name
    except ValueError:
        return f"exit code {ended}"


class WorkerPool:
    """As many workers as there are statements at a time; some stay when nothing runs."""

    def __init__(self, lake: Lake, config: QueryConfig) -> None:
        self.config = config
        self._lake = lake
        self.links = None if lake.lake.on_s3 else _link_folder(lake)
        self._idle: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._ended = threading.Event()
        self._spill, self._spill_lock = _spill_folder()
        self.environment = minimal_environment(needs_aws=lake.lake.on_s3 and not lake.s3.access_key)
        self._place = Place(lake, config, self.environment, self.links, self._spill)
        self._tending = threading.Thread(target=self._tend, daemon=True, name="query-workers")
        self._tending.start()

    def run(self, write: Write, limits: Limits, organization: str = "") -> WorkerRun:
        """A statement, within the limits of its sender."""
        threads = self.config.threads or os.cpu_count() or 1
        in_time = limits.seconds * threads + CPU_SLACK_SECONDS if limits.seconds else None
        cpu_seconds = limits.cpu_seconds or in_time
        memory = limits.memory or self.config.memory_limit
        return WorkerRun(self, Statement(write, memory, organization, cpu_seconds))

    def take(self, statement: Statement) -> WorkerProcess:
        """An idle worker, best one that knows the organization's files; a new one where there is none."""
        with self._lock:
            fitting = [one for one in self._idle if one.memory == statement.memory and one.is_alive]
            fitting.sort(key=lambda one: one.organization == statement.organization)
            worker = fitting[-1] if fitting else None
            spare = None
            if worker is not None:
                self._idle.remove(worker)
            elif len(self._idle) >= self.config.warm_workers > 0:
                spare = self._idle.pop(0)
        if spare is not None:
            spare.end("")
        if worker is None:
            worker = self._start(statement.memory)
        worker.organization = statement.organization
        return worker

    def give_back(self, worker: WorkerProcess, *, is_good: bool) -> None:
        """Keep a worker for the next statement, unless it is of no more use or there are enough."""
        with self._lock:
            keep = is_good and worker.is_alive and not self._is_closed and len(self._idle) < self.config.concurrency
            if keep:
                worker.idle_since, worker.is_at_rest = time.monotonic(), False
                self._idle.append(worker)
        if not keep:
            worker.end("" if is_good else "replaced")

    def grants(self, files: tuple[str, ...]) -> list[str]:
        """The statements that let a worker read these objects and no others; local files are linked instead."""
        s3 = self._lake.s3
        if not self._lake.lake.on_s3 or not s3.access_key:
            return []
        if not files:
            return [FORGET]
        scope = files if len(files) <= MOST_SCOPES else (self._lake.lake.location.rstrip("/") + "/",)
        return [secret(s3, scope)]

    def close(self) -> None:
        """End all workers that nothing runs in; the others end with their statements."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        self._ended.set()
        self._tending.join()  # a worker that it has just started is ended by it
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
                "a process for the query did not start", hint="ask again; the server's log says more"
            ) from error

    def _tend(self) -> None:
        """Keep enough workers ready, let idle ones go of files, and end those that a burst of queries left behind."""
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
        """Take out idle workers that died, and those beyond the warm ones that were not used for a while."""
        before = time.monotonic() - IDLE_SECONDS
        with self._lock:
            dead = [one for one in self._idle if not one.is_alive]
            alive = [one for one in self._idle if one.is_alive]
            old = [one for one in alive[: max(0, len(alive) - self.config.warm_workers)] if one.idle_since < before]
            self._idle = [one for one in alive if one not in old]
        return [*dead, *old]

    def _warm_up(self) -> bool:
        """Start a worker where too few are ready; whether one was started."""
        with self._lock:
            if self._is_closed or len(self._idle) >= self.config.warm_workers:
                return False
        try:
            worker = WorkerProcess(self._place, self.config.memory_limit)
        except (ChannelClosed, OSError) as error:
            log.warning("a process for queries did not start", error=str(error) or type(error).__name__)
            return False
        self.give_back(worker, is_good=True)
        return True


def _link_folder(lake: Lake) -> LinkFolder | None:
    """Where workers find their files; none where files can't be linked, and workers may read the whole warehouse."""
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
    """Raise `OSError` where a file of a table can't be linked: it may be another user's, or on another disk."""
    for name in lake.table_names():
        location = lake.table(name).metadata_location
        if location.startswith(("/", "file:")):
            os.link(readable(location), folder / "probe")
            (folder / "probe").unlink()


def _spill_folder() -> tuple[Path, int]:
    """A private folder for what does not fit into memory; those of servers that were killed are removed."""
    above = Path(user_folder("neve-query"))
    sweep(above)
    return make_locked(above)
