"""Watch the machine beside the service: the memory of the service, stalls of the processors, and syncs of the disk.

A wait of the honest side may be the machine's: a host that stops a virtual machine for a while, or a disk that is busy
with the data of others. Both are measured in all phases and reported by name. Nothing is taken off the waits for it.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.siege.house import memory_mb

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from tests.siege.house import House

MEMORY_SECONDS, SLEEP_SECONDS, SYNC_SECONDS = 2.0, 0.005, 0.1
PAGE = bytes(4096)
END_SECONDS = 30.0


@dataclass(frozen=True)
class MachineReport:
    """What the machine did: the most memory of the service, and by phase the late wakeups and the syncs in seconds."""

    peak_mb: float
    stalls: dict[str, list[float]]
    syncs: dict[str, list[float]]


class MachineWatch:
    """A process that watches, so that the honest side does not wait for its interpreter."""

    def __init__(self, house: House) -> None:
        context = multiprocessing.get_context("spawn")
        self._peak_mb = context.Value("d", 0.0)
        self._connection, other = context.Pipe()
        self._process = context.Process(
            target=_watch, args=(house.service.pid, str(house.folder), self._peak_mb, other), daemon=True
        )

    @property
    def peak_mb(self) -> float:
        """The highest so far."""
        return float(self._peak_mb.value)

    def start(self) -> None:
        """Begin to watch."""
        self._process.start()

    def enter(self, phase: str) -> None:
        """Count for another phase from now on."""
        self._connection.send(phase)

    def end(self) -> MachineReport:
        """Watch no more."""
        self._connection.send(None)
        stalls, syncs = self._connection.recv() if self._connection.poll(END_SECONDS) else ({}, {})
        self._process.kill()
        self._process.join()
        return MachineReport(self.peak_mb, stalls, syncs)


class _Series:
    """Values by phase, from several threads."""

    def __init__(self) -> None:
        self.phase = ""
        self.stalls: dict[str, list[float]] = {}
        self.syncs: dict[str, list[float]] = {}


def _watch(pid: int, folder: str, peak_mb: Any, commands: Connection) -> None:
    with suppress(AttributeError, OSError):  # it works little, and must not measure its own waits for a processor
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    series = _Series()
    works: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (_sample_memory, (pid, peak_mb)),
        (_sleep, (series,)),
        (_sync, (Path(folder), series)),
    ]
    for work, given in works:
        threading.Thread(target=work, args=given, daemon=True).start()
    while (phase := commands.recv()) is not None:
        series.phase = phase
    commands.send((series.stalls, series.syncs))


def _sample_memory(pid: int, peak_mb: Any) -> None:
    while True:
        peak_mb.value = max(peak_mb.value, memory_mb(pid))
        time.sleep(MEMORY_SECONDS)


def _sleep(series: _Series) -> None:
    """Sleep for a short time, again and again. The kernel or the host are the reason for a late wakeup."""
    while True:
        began = time.monotonic()
        time.sleep(SLEEP_SECONDS)
        series.stalls.setdefault(series.phase, []).append(time.monotonic() - began - SLEEP_SECONDS)


def _sync(folder: Path, series: _Series) -> None:
    """Write a page and sync it, as the raw zone does, on the same disk."""
    file = os.open(folder / "sync-probe", os.O_CREAT | os.O_WRONLY)
    while True:
        began = time.monotonic()
        os.write(file, PAGE)
        os.fdatasync(file)
        series.syncs.setdefault(series.phase, []).append(time.monotonic() - began)
        time.sleep(SYNC_SECONDS)
