"""The assignment that all tasks of a batch share, and the tally that each of them reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Intake

if TYPE_CHECKING:
    from neve.ingest.config import IngestConfig
    from neve.lake.config import S3Config
    from neve.lake.read.snapshot_files import RecentByPartition
    from neve.lake.write.table_writer import Target


NANOS = 1_000_000_000
# Quarantine comes first: when a signal's table has a batch, its rejected records are in quarantine already.
TABLES = (QUARANTINE.name, *(table.name for table in BY_SIGNAL.values()))


@dataclass(frozen=True)
class Assignment:
    """The properties of a batch that its tasks need. It pickles.

    A table that is not among the targets has the batch already and needs no files.
    """

    batch_id: str
    started_unix_nano: int
    config: IngestConfig
    s3: S3Config
    targets: dict[str, Target]
    writers: int = 1
    recent: dict[str, RecentByPartition] = field(default_factory=dict)

    def intake(self, organization_id: str, received_unix_nano: int | None = None) -> Intake:
        """Return the decoding context of messages of an organization that arrived at a time."""
        received = self.started_unix_nano if received_unix_nano is None else received_unix_nano
        return Intake(organization_id, received, self.config.max_future_seconds * NANOS)


@dataclass
class Tally:
    """Counts of a task or a batch. Tallies can be added."""

    messages: int = 0
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    duplicate_keys: int = 0
    pointless_metrics: int = 0
    unpacked_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Tally:
        """Return the tally of the values that `to_json` returned."""
        fields: dict[str, Any] = {
            n: Counter(value) if isinstance(value, dict) else value for n, value in values.items()
        }
        return cls(**fields)

    def add(self, other: Tally) -> None:
        """Add another tally."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def written_records(self) -> Counter[str]:
        """Records by signal that were neither rejected nor duplicates."""
        return self.records - self.duplicates
