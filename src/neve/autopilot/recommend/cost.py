"""What a rewrite into another layout takes, once: seconds of one core, and dollars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.autopilot.recommend_config import RecommendConfig

READS_A_FILE = 2  # footer and data
COMMIT_CALLS = 4  # manifest, manifest list, metadata, and the catalog's own
PART_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Cost:
    """What is rewritten, and what that takes."""

    bytes: int
    seconds: float
    dollars: float

    def as_document(self) -> dict[str, float]:
        """For programs."""
        return {"bytes": self.bytes, "seconds": round(self.seconds, 1), "dollars": round(self.dollars, 6)}


def rewrite_cost(size: int, files: int, outputs: int, config: RecommendConfig) -> Cost:
    """Every file is read and every output written, on one core."""
    prices = config.prices
    seconds = size / config.rewrite_bytes_per_s
    writes = outputs + size // PART_BYTES + COMMIT_CALLS
    requests = (READS_A_FILE * files * prices.get_per_1000 + writes * prices.put_per_1000) / 1000
    return Cost(size, seconds, requests + seconds / 3600 * prices.compute_per_core_hour)
