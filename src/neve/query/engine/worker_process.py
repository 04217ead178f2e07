"""A worker process as its server sees it: start it, let it release its files, and end it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from neve.logger import get_logger
from neve.query.engine.channel import Channel, ChannelClosed, Frame
from neve.query.engine.duckdb import SpillFolder, make_instance_settings

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.file_links import LinkFolder

log = get_logger(__name__)

WORKERS = Gauge("neve_query_workers", "processes that run statements, idle ones among them")
ENDED = Counter("neve_query_workers_ended_total", "processes that were ended or died while they ran one", ["why"])
START_SECONDS = 60.0
LOG_CHARACTERS = 2000
# Memory that a process may map beside the memory that DuckDB counts: batches in transit, and reserves of allocators.
UNCOUNTED_SHARE, UNCOUNTED_BYTES = 0.25, 256 * 1024 * 1024
UNITS = {"MB": 10**6, "GB": 10**9}


@dataclass(frozen=True)
class WorkerContext:
    """Values that all processes of a server share: the lake, the settings, and their folders."""

    lake: Lake
    config: QueryConfig
    environment: dict[str, str]
    links: LinkFolder | None
    spill: Path


def parse_memory(memory: str) -> int:
    """Parse a size in the notation of settings.

    >>> parse_memory("512MB")
    512000000
    """
    return int(memory[:-2]) * UNITS[memory[-2:]]


def share_spill_bytes(config: QueryConfig, memory: str) -> int:
    """Return the disk space for one statement: an equal share, and less in proportion if its memory is limited.

    A statement that spills fills the disk's queue, and the acknowledgements of all organizations wait for that disk.

    >>> from neve.query.config import QueryConfig
    >>> share_spill_bytes(QueryConfig(spill_bytes=8_000_000_000, concurrency=8, memory_limit="2GB"), "500MB")
    250000000
    """
    share = config.spill_bytes // config.concurrency
    return min(share, share * parse_memory(memory) // max(1, parse_memory(config.memory_limit)))


class WorkerProcess:
    """One worker process, as its server sees it."""

    def __init__(self, place: WorkerContext, memory: str, niceness: int = 0) -> None:
        """Start a worker with a memory limit. Its start, too, has the niceness of the statement that needs it.

        The start takes half a CPU second, and an organization whose statements exceed their memory needs many of them.
        """
        self.memory = memory
        self.organization = ""  # of its last statement: the cached file metadata is useful for that organization
        self.number = 0
        self.niceness = niceness  # stays high if the system does not let the process raise its priority again
        self.root = place.links.make() if place.links else ""
        self.spill = tempfile.mkdtemp(prefix="", dir=place.spill)
        self._log = Path(self.spill) / "stderr"
        own, other = socket.socketpair()
        server_niceness = os.getpriority(os.PRIO_PROCESS, 0)
        with other, self._log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "neve.query.engine.worker"),
                    *(str(other.fileno()), str(server_niceness), str(niceness)),
                ],
                pass_fds=[other.fileno()],
                cwd=self.spill,
                env=place.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                # A Ctrl-C is for the server, which ends its workers itself. The session stays the same: Linux may share
                # the CPU among sessions, and a low priority would have no effect in a separate one.
                process_group=0,
            )
        if niceness:
            with suppress(OSError):  # it has ended meanwhile, which is noticed below
                os.setpriority(os.PRIO_PROCESS, self.process.pid, server_niceness + niceness)
        WORKERS.inc()
        self.channel = Channel(own)
        self.idle_since = 0.0
        self.is_at_rest = True
        self._lock = threading.Lock()
        self._is_ended = False
        try:
            self._open(place)
        except BaseException:
            with suppress(OSError):
                said = self._log.read_text(errors="replace")[-LOG_CHARACTERS:]
                log.error("a process for queries did not start", stderr=said)
            self.end("start")
            raise

    def _open(self, place: WorkerContext) -> None:
        folders = [self.root] if self.root else [place.lake.lake.location]
        spill = SpillFolder(self.spill, share_spill_bytes(place.config, self.memory))
        recipe = make_instance_settings(place.lake, place.config, self.memory, spill, folders)
        self.channel.send_json(
            Frame.REQUEST,
            {
                "memory": recipe.memory,
                "threads": recipe.threads,
                "statements": recipe.statements,
                "root": self.root,
                "memory_bytes": parse_memory(self.memory),
                "more_bytes": int(parse_memory(self.memory) * (1 + UNCOUNTED_SHARE)) + UNCOUNTED_BYTES,
            },
        )
        self.channel.set_timeout(START_SECONDS)
        self.channel.receive()
        self.channel.set_timeout(None)

    @property
    def is_alive(self) -> bool:
        """Return whether it can run a statement."""
        return not self._is_ended and self.process.poll() is None

    def rest(self) -> None:
        """Release files: links to them would keep files on disk that the lake removes."""
        self.is_at_rest = True
        with suppress(ChannelClosed):
            self.channel.send(Frame.REST)

    def end(self, why: str) -> int:
        """Kill the process if it still runs. Return its exit code."""
        with self._lock:
            is_first, self._is_ended = not self._is_ended, True
        if not is_first:
            return self.process.wait()
        with suppress(ProcessLookupError):
            self.process.kill()
        ended = self.process.wait()
        self.channel.shut()
        for folder in filter(None, (self.root, self.spill)):
            shutil.rmtree(folder, ignore_errors=True)
        WORKERS.dec()
        if why:
            ENDED.labels(why).inc()
        return ended
