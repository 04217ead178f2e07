"""Results of ingestion, for printing and `--json`: runs over files, micro-batches and runs of streams, OTAP imports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.files.ledger import Skipped


@dataclass(frozen=True)
class IngestResult:
    """Files, records, rejections, bytes and seconds of one run."""

    organization_id: str
    batches: tuple[str, ...]
    resumed: tuple[str, ...]
    failed: tuple[Skipped, ...]
    files: int
    skipped: tuple[Skipped, ...]
    ignored: tuple[str, ...]
    lost: tuple[Skipped, ...]
    records: dict[str, int]
    rejected: dict[str, int]
    duplicates: dict[str, int]
    duplicate_keys: int
    pointless_metrics: int
    bytes_in: int
    bytes_unpacked: int
    bytes_out: int
    data_files: int
    seconds: float
    own: tuple[str, ...] = ()  # files of the lake itself
    formats: dict[str, int] = field(default_factory=dict)  # files by the format that they were read as

    @property
    def is_empty(self) -> bool:
        """Return whether no file was read, in this run or for an earlier one."""
        return not self.files and not self.resumed

    @property
    def total_records(self) -> int:
        """Records of all signals."""
        return sum(self.records.values())

    def to_json(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {
            "organization_id": self.organization_id,
            "batches": list(self.batches),
            "resumed_batches": list(self.resumed),
            "failed_batches": [{"batch": batch.path, "reason": batch.reason} for batch in self.failed],
            "files": self.files,
            "empty": self.is_empty,
            "formats": self.formats,
            "skipped": [{"path": file.path, "reason": file.reason} for file in self.skipped],
            "ignored": list(self.ignored),
            "own": list(self.own),
            "lost": [{"path": file.path, "reason": file.reason} for file in self.lost],
            "records": self.records,
            "rejected": self.rejected,
            "duplicates": self.duplicates,
            "duplicate_attribute_keys": self.duplicate_keys,
            "metrics_without_points": self.pointless_metrics,
            "bytes_in": self.bytes_in,
            "bytes_unpacked": self.bytes_unpacked,
            "bytes_out": self.bytes_out,
            "data_files": self.data_files,
            "seconds": round(self.seconds, 3),
        }


def combine_results(results: Sequence[IngestResult]) -> IngestResult:
    """Combine several runs for one organization."""
    whole: dict[str, Any] = {"organization_id": results[0].organization_id}
    for counter in fields(IngestResult):
        values = [getattr(result, counter.name) for result in results]
        if isinstance(values[0], dict):
            whole[counter.name] = dict(sum((Counter(value) for value in values), Counter()))
        elif isinstance(values[0], tuple):
            whole[counter.name] = tuple(one for value in values for one in value)
        elif not isinstance(values[0], str):
            whole[counter.name] = sum(values)
    return IngestResult(**whole)


@dataclass(frozen=True)
class BatchResult:
    """Input, commits and duration of one micro-batch."""

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
        """Return the result for `--json` and for the log."""
        return {
            **vars(self),
            "seconds": round(self.seconds, 3),
            "commit_seconds": round(self.commit_seconds, 3),
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 3),
        }


@dataclass
class StreamResult:
    """Sum of all batches of a run."""

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
        """Add a batch."""
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
        """Return the result for `--json`."""
        plain = {key: dict(value) if isinstance(value, Counter) else value for key, value in vars(self).items()}
        return {**plain, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class OtapResult:
    """Result of an OTAP import, with the number of parts by id convention, and the dropped content by name.

    `other_tables` counts ignored files by table. They belong to neither logs nor spans.
    """

    ingested: IngestResult
    conventions: dict[str, int]
    losses: dict[str, int]
    other_tables: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {
            **self.ingested.to_json(),
            "parts_by_convention": self.conventions,
            "losses": self.losses,
            "other_tables": self.other_tables,
        }
