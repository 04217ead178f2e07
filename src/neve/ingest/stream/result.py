"""What a batch of a stream did, and what a whole run did, as values that can be printed or turned into JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BatchResult:
    """One micro-batch: what came in, what was committed, how long it took."""

    stream: str
    batch_id: str
    messages: int
    records: dict[str, int]
    rejected: dict[str, int]
    duplicates: dict[str, int]
    replayed: int
    bytes_in: int
    bytes_out: int
    data_files: int
    seconds: float
    commit_seconds: float
    lag_seconds: float | None
    positions: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """The same, for `--json` and for the log."""
        return {
            **vars(self),
            "seconds": round(self.seconds, 3),
            "commit_seconds": round(self.commit_seconds, 3),
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 3),
        }


@dataclass
class StreamResult:
    """All batches of a run, added up."""

    stream: str
    batches: int = 0
    messages: int = 0
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    data_files: int = 0
    seconds: float = 0.0

    def add(self, batch: BatchResult) -> None:
        """Take in a batch."""
        self.batches += 1
        self.messages += batch.messages
        self.records.update(batch.records)
        self.rejected.update(batch.rejected)
        self.duplicates.update(batch.duplicates)
        self.replayed += batch.replayed
        self.bytes_in += batch.bytes_in
        self.bytes_out += batch.bytes_out
        self.data_files += batch.data_files

    def to_json(self) -> dict[str, Any]:
        """The same, for `--json`."""
        plain = {key: dict(value) if isinstance(value, Counter) else value for key, value in vars(self).items()}
        return {**plain, "seconds": round(self.seconds, 3)}
