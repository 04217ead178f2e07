"""What all tasks of a batch share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.model.tables import BY_SIGNAL, QUARANTINE
from neve.otlp import Intake

if TYPE_CHECKING:
    from neve.ingest.config import IngestConfig
    from neve.lake.config import S3Config
    from neve.lake.recent import Recent
    from neve.lake.writer import Target

NANOS = 1_000_000_000
# Quarantine comes first: when a signal's table has a batch, what was refused of it is on record already.
TABLES = (QUARANTINE.name, *(table.name for table in BY_SIGNAL.values()))


@dataclass(frozen=True)
class Assignment:
    """A batch as a task needs it. It pickles.

    A table that is not among the targets has the batch already and needs no files.
    """

    batch_id: str
    started_unix_nano: int
    config: IngestConfig
    s3: S3Config
    targets: dict[str, Target]
    writers: int = 1
    recent: dict[str, Recent] = field(default_factory=dict)

    def intake(self, organization_id: str, received_unix_nano: int | None = None) -> Intake:
        """What decoding needs to know of messages that came at a time for an organization."""
        received = self.started_unix_nano if received_unix_nano is None else received_unix_nano
        return Intake(organization_id, received, self.config.max_future_seconds * NANOS)
