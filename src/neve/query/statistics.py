"""What an answer took: files and bytes that were read and that were not, rows, seconds, and by which engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ScanStatistics:
    """One table of a statement; what was pruned was never opened."""

    table: str
    snapshot: int | None
    files: int
    bytes: int
    pruned_files: int
    pruned_bytes: int
    predicate: str = ""


@dataclass(frozen=True)
class Statistics:
    """A whole statement; `notes` say what was decided and why."""

    scans: tuple[ScanStatistics, ...] = ()
    engine: str = ""
    cache: str = ""  # hit, miss or off
    rollup: str = ""  # the table that points were taken from, if any
    rows: int = 0
    planning_seconds: float = 0.0
    seconds: float = 0.0
    partial: bool = False
    truncated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        """Files that are read."""
        return sum(scan.files for scan in self.scans)

    @property
    def bytes(self) -> int:
        """Their bytes: what is read of them is less, by columns and row groups."""
        return sum(scan.bytes for scan in self.scans)

    @property
    def pruned_files(self) -> int:
        """Files of the organization that are not."""
        return sum(scan.pruned_files for scan in self.scans)

    @property
    def pruned_bytes(self) -> int:
        """Their bytes."""
        return sum(scan.pruned_bytes for scan in self.scans)

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        sums = {name: getattr(self, name) for name in ("files", "bytes", "pruned_files", "pruned_bytes")}
        return {**asdict(self), **sums}
