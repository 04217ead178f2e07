"""What a run of ingestion did, as a value that can be printed or turned into JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.ingest.files.plan import Skipped


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

    @property
    def total_records(self) -> int:
        """Records of all signals."""
        return sum(self.records.values())

    def to_json(self) -> dict[str, Any]:
        """The same, for `--json`."""
        return {
            "organization_id": self.organization_id,
            "batches": list(self.batches),
            "resumed_batches": list(self.resumed),
            "failed_batches": [{"batch": batch.path, "reason": batch.reason} for batch in self.failed],
            "files": self.files,
            "skipped": [{"path": file.path, "reason": file.reason} for file in self.skipped],
            "ignored": list(self.ignored),
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


def combined(results: Sequence[IngestResult]) -> IngestResult:
    """Several runs for one organization as one."""
    whole: dict[str, Any] = {"organization_id": results[0].organization_id}
    for field in fields(IngestResult):
        values = [getattr(result, field.name) for result in results]
        if isinstance(values[0], dict):
            whole[field.name] = dict(sum((Counter(value) for value in values), Counter()))
        elif isinstance(values[0], tuple):
            whole[field.name] = tuple(one for value in values for one in value)
        elif not isinstance(values[0], str):
            whole[field.name] = sum(values)
    return IngestResult(**whole)
