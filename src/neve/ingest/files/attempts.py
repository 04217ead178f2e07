"""Attempts at a batch of files that may kill whoever decodes it: counted where they survive the process.

A file can exhaust the memory of its worker, or of the whole process. An attempt is therefore counted before it begins.
After a few of them the files of the batch are decoded one by one, and the one that kills again is put into quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.lake.documents import Documents

SPACE = "ingest-attempts"
TOGETHER = 2  # attempts at a whole batch
ALONE = 2  # attempts at one file of it, where the process itself died of the first
# How Spark says that a worker is gone, and not only that its work failed.
DEATHS = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "OutOfMemoryError",
    "MemoryError",
    "SIGKILL",
    "SIGSEGV",
)


def is_death(error: BaseException) -> bool:
    """Whether a job failed because a worker died or had no memory left; other failures are nobody's file's fault.

    >>> is_death(RuntimeError("SparkException: Python worker exited unexpectedly (crashed)")), is_death(OSError("no"))
    (True, False)
    """
    return isinstance(error, MemoryError) or any(words in str(error) for words in DEATHS)


@dataclass
class Attempts:
    """How often a batch was begun, and how often each of its files was tried alone."""

    documents: Documents | None
    organization_id: str
    batch_id: str
    _together: int = 0
    _alone: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look for what earlier processes have counted."""
        known = self.documents.get(SPACE, self._key) if self.documents else None
        if known:
            files = known["files"]
            self._together = int(str(known["together"]))
            self._alone = {str(name): int(count) for name, count in files.items()} if isinstance(files, dict) else {}

    def begin(self) -> bool:
        """Count an attempt at the whole batch; whether there is one left."""
        if self._together >= TOGETHER:
            return False
        self._together += 1
        self._keep()
        return True

    def begin_alone(self, content_hash: str) -> bool:
        """Count an attempt at one file; whether there is one left."""
        count = self._alone.get(content_hash, 0)
        if count >= ALONE:
            return False
        self._alone[content_hash] = count + 1
        self._keep()
        return True

    def take_back(self) -> None:
        """Forget the last attempt at the batch: it failed, and killed nobody."""
        self._together = max(0, self._together - 1)
        self._keep()

    def take_back_alone(self, content_hash: str) -> None:
        """Forget the last attempt at a file: it killed nobody."""
        self._alone.pop(content_hash, None)
        self._keep()

    def end(self) -> None:
        """Forget the batch, which is done."""
        if self.documents:
            self.documents.delete(SPACE, self._key)

    @property
    def _key(self) -> str:
        return f"{self.organization_id}/{self.batch_id}"

    def _keep(self) -> None:
        if self.documents:
            self.documents.put(SPACE, self._key, {"together": self._together, "files": self._alone})
