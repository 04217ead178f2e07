"""Detect dead Spark workers and JVMs, and count the attempts at batches of files that may kill them.

A file can exhaust the memory of its worker, or of the whole process. An attempt is therefore counted in the state store
before it begins. After a few attempts the files of the batch are decoded one by one, and the file that kills its worker
again goes to quarantine.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neve.state.documents import Documents


SPARK = "pyspark"
DEATH_SECONDS = 1.0  # between the end of a process's connections and the end of the process


def engine_is_gone() -> bool:
    """Return whether Spark has ended in this process, with or without its JVM. The process can't start another.

    It is called after a failure, and may wait a second for the end of the JVM.
    """
    return jvm_is_gone(DEATH_SECONDS) or context_is_stopped()


def has_engine_ended() -> bool:
    """Return the same at once, for callers that look again and again."""
    return jvm_is_gone(0) or context_is_stopped()


def context_is_stopped() -> bool:
    """Return whether Spark stopped by itself in a live JVM. A context that this process stopped is not registered."""
    connection = getattr(getattr(_find_context_class(), "_active_spark_context", None), "_jsc", None)
    if connection is None:
        return False
    from py4j.protocol import Py4JError  # noqa: PLC0415 - only with Spark

    try:
        return bool(connection.sc().isStopped())
    except (Py4JError, OSError):  # the JVM does not respond: `jvm_is_gone` checks whether it has ended
        return False


def _find_context_class() -> Any:
    """Return `SparkContext`, or nothing if no thread has imported it: then Spark never started."""
    return getattr(sys.modules.get(SPARK), "SparkContext", None)


def jvm_is_gone(seconds: float = DEATH_SECONDS) -> bool:
    """Return whether this process started a JVM that ends within some seconds."""
    gateway = getattr(_find_context_class(), "_gateway", None)
    started: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if started is None:
        return False
    if started.poll() is None and seconds:
        with suppress(subprocess.TimeoutExpired):
            started.wait(seconds)
    return started.poll() is not None


SPACE = "ingest-attempts"
MAX_BATCH_ATTEMPTS = 2  # attempts at a whole batch
MAX_FILE_ATTEMPTS = 2  # attempts at one file of it, for the case that the process itself died at the first
# Messages of Spark for a dead worker, as opposed to a failed task.
DEATH_MESSAGES = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "OutOfMemoryError",
    "MemoryError",
    "SIGKILL",
    "SIGSEGV",
)


def is_worker_death(error: BaseException) -> bool:
    """Return whether a job failed because a worker died or ran out of memory. No file causes other failures.

    >>> is_worker_death(RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"))
    True
    >>> is_worker_death(OSError("no"))
    False
    """
    return isinstance(error, MemoryError) or any(message in str(error) for message in DEATH_MESSAGES)


@dataclass
class FileAttempts:
    """Counts of the attempts at a batch, and at each of its files alone."""

    documents: Documents | None
    organization_id: str
    batch_id: str
    _together: int = 0
    _alone: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Load the counts of earlier processes."""
        known = self.documents.get(SPACE, self._key) if self.documents else None
        if known:
            files = known["files"]
            self._together = int(str(known["together"]))
            self._alone = {str(name): int(count) for name, count in files.items()} if isinstance(files, dict) else {}

    def begin(self) -> bool:
        """Count an attempt at the whole batch. Return whether it is allowed."""
        if self._together >= MAX_BATCH_ATTEMPTS:
            return False
        self._together += 1
        self._save()
        return True

    def begin_alone(self, content_hash: str) -> bool:
        """Count an attempt at one file. Return whether it is allowed."""
        count = self._alone.get(content_hash, 0)
        if count >= MAX_FILE_ATTEMPTS:
            return False
        self._alone[content_hash] = count + 1
        self._save()
        return True

    def undo(self) -> None:
        """Undo the count of the last attempt at the batch: it failed without killing a worker."""
        self._together = max(0, self._together - 1)
        self._save()

    def undo_alone(self, content_hash: str) -> None:
        """Undo the count of the last attempt at a file: it did not kill a worker."""
        self._alone.pop(content_hash, None)
        self._save()

    def end(self) -> None:
        """Delete the counts of the batch, which is done."""
        if self.documents:
            self.documents.delete(SPACE, self._key)

    @property
    def _key(self) -> str:
        return f"{self.organization_id}/{self.batch_id}"

    def _save(self) -> None:
        if self.documents:
            self.documents.put(SPACE, self._key, {"together": self._together, "files": self._alone})
