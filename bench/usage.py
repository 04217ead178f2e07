"""CPU seconds and memory of this process and all that it started: Spark's JVM and its Python workers too.

Peak memory is how much this process grew above what it held when the work began (what an earlier way left behind is not
counted again), and with Spark also all that the JVM and its workers hold.
"""

from __future__ import annotations

import gc
import threading
import time
from dataclasses import dataclass

import psutil
import pyarrow as pa

SAMPLE_SECONDS = 0.1


@dataclass
class Usage:
    """What a stretch of work cost."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0

    def per_second(self, count: int) -> float:
        """How many of something one CPU second does."""
        return count / self.cpu_s


class Meter:
    """Measures the work inside a `with` block."""

    def __init__(self, *, with_children: bool) -> None:
        self._with_children = with_children

    def __enter__(self) -> Usage:
        self.usage = Usage()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        gc.collect()
        pa.default_memory_pool().release_unused()
        self._memory = psutil.Process().memory_info().rss
        self._started = time.monotonic()
        self._cpu = tree_cpu()
        self._watcher.start()
        return self.usage

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._watcher.join()
        self.usage.cpu_s = tree_cpu() - self._cpu
        self.usage.wall_s = time.monotonic() - self._started

    def _watch(self) -> None:
        while True:
            held = _memory(psutil.Process().children(recursive=True)) if self._with_children else 0
            own = psutil.Process().memory_info().rss - self._memory
            self.usage.peak_mb = max(self.usage.peak_mb, (own + held) / 1e6)
            if self._stop.wait(SAMPLE_SECONDS):
                return


def _tree() -> list[psutil.Process]:
    me = psutil.Process()
    return [me, *me.children(recursive=True)]


def tree_cpu() -> float:
    """CPU of living processes, plus what children that ended had used before this process waited for them."""
    total = 0.0
    for process in _tree():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _memory(processes: list[psutil.Process]) -> int:
    total = 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total
