"""What an import did, as a value that can be printed or turned into JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neve.ingest.files.result import IngestResult


@dataclass(frozen=True)
class OtapResult:
    """A run of ingestion, how many parts followed which convention of ids, and what could not be kept, by name.

    `other_tables` are files by table that were left alone, since they belong to neither logs nor spans.
    """

    ingested: IngestResult
    conventions: dict[str, int]
    losses: dict[str, int]
    other_tables: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """The same, for `--json`."""
        return {
            **self.ingested.to_json(),
            "parts_by_convention": self.conventions,
            "losses": self.losses,
            "other_tables": self.other_tables,
        }
