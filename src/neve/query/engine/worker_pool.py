"""A pool of warm worker processes, each of which runs one DuckDB statement or one program at a time.

A statement that takes too much memory, crashes DuckDB or can't be interrupted fails alone: its process is ended and
replaced. A process sees only the files that its statement was planned to read (`file_links.py`; on object storage, by
a secret for those objects).
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import QueryError
from neve.lake.child_process import minimal_environment
from neve.lake.duckdb import secret_statement, to_duckdb_path
from neve.local_folders import user_folder
from neve.logger import get_logger
from neve.query.engine.channel import ChannelClosed
from neve.query.engine.cpu_shares import MOST_NICENESS, CpuShares
from neve.query.engine.file_links import LinkFolder, make_locked_folder, remove_stale_folders
from neve.query.engine.worker_process import WorkerContext, WorkerProcess
from neve.query.engine.worker_run import PlannedProgram, WorkerRun, WorkerStatement

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.duckdb import Write
    from neve.query.engine.program import PlanStatement, Program
    from neve.query.limits import Limits

log = get_logger(__name__)


CPU_SLACK_SECONDS = 10.0  # so that the timeout of the query, which has the better message, ends it first
TEND_SECONDS, REST_SECONDS, IDLE_SECONDS = 5.0, 30.0, 60.0
DROP_SECRET = "DROP SECRET IF EXISTS lake"  # noqa: S105 - SQL, for a statement that reads no objects
MOST_SCOPES = 1000  # objects that a secret names one by one; with more, it names the tables' folders


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
        return self._make_run(write, limits, organization)

    def run_program(self, program: Program, plan: PlanStatement, limits: Limits, organization: str = "") -> WorkerRun:
        """Return a run of a program within the limits of its sender."""
        return self._make_run(PlannedProgram(program, plan), limits, organization)

    def _make_run(self, work: Write | PlannedProgram, limits: Limits, organization: str) -> WorkerRun:
        threads = self.config.threads or os.cpu_count() or 1
        in_time = limits.seconds * threads + CPU_SLACK_SECONDS if limits.seconds else None
        cpu_seconds = limits.cpu_seconds or in_time
        memory = limits.memory or self.config.memory_limit
        niceness = self.shares.niceness(organization)
        used = limits.used_cpu_seconds
        return WorkerRun(self, WorkerStatement(work, memory, organization, cpu_seconds, niceness, used))

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
            worker = self._start(statement.memory, statement.niceness)
        worker.organization = statement.organization
        return worker

    def _take_spare(self, organization: str) -> WorkerProcess | None:
        """Remove an idle worker of the organization from a full pool.

        Unused workers stay for others: one that fits this statement would have been returned.
        """
        spare = next((one for one in self._idle if one.organization == organization), None)
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

    def _start(self, memory: str, niceness: int) -> WorkerProcess:
        try:
            return WorkerProcess(self._place, memory, niceness)
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
