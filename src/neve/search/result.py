"""What a run did to the index of a table, and why; and how an index stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class BuildResult:
    """What became of the index of one table. `left_out` are files that can't be indexed and are always read."""

    table: str
    columns: tuple[str, ...]
    reason: str
    committed: bool
    files_indexed: int = 0
    files_left_out: int = 0
    rows: int = 0
    ranges: int = 0
    words: int = 0
    data_bytes: int = 0
    index_bytes: int = 0
    index_files_added: int = 0
    index_files_removed: int = 0
    snapshot: str = ""
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True)
class IndexStatus:
    """How the index of one table stands; the share is that of bytes which a search need not open blindly."""

    table: str
    columns: tuple[str, ...]
    files: int
    files_indexed: int
    files_missing: int
    files_gone: int
    bytes: int
    bytes_indexed: int
    index_bytes: int

    @property
    def share(self) -> float:
        """The share of bytes that is indexed; of nothing, all."""
        return self.bytes_indexed / self.bytes if self.bytes else 1.0

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "share": self.share}
