"""Count how often a batch of a stream has started, in the state store.

The count is written before the batch starts: a process that is killed writes nothing. A batch that has started several
times without a commit may hold a message that kills its worker (`poison_messages.py`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from neve.errors import LakeError
from neve.logger import get_logger

if TYPE_CHECKING:
    from neve.ingest.stream.writer import Positions
    from neve.state.documents import Documents

SPACE = "stream-attempts"
FAILURES_BEFORE_ISOLATION = 2

log = get_logger("neve.ingest")


@dataclass(frozen=True)
class BatchAttempts:
    """Attempts at the next batch of one stream; the positions of the tables identify that batch."""

    documents: Documents
    stream: str
    lake: str  # location of the warehouse: lakes that share a state store may have streams of the same name

    def begin(self, positions: dict[str, Positions]) -> int:
        """Record that a batch starts, and return how often it has started by now.

        A commit moves the positions, and the count starts again. Without the state store the batch counts as new:
        ingestion continues, and isolation waits until the store is back.
        """
        batch = xxhash.xxh3_128_hexdigest(json.dumps(positions, sort_keys=True).encode())
        try:
            known = self.documents.get(SPACE, self._key) or self._adopt()
            started = int(str(known["started"])) if known and known["batch"] == batch else 0
            self.documents.put(SPACE, self._key, {"batch": batch, "started": started + 1})
        except LakeError as error:
            log.warning("attempts at a batch are not counted", stream=self.stream, error=str(error))
            return 1
        return started + 1

    @property
    def _key(self) -> str:
        return f"{xxhash.xxh3_128_hexdigest(self.lake.encode())}/{self.stream}"

    def _adopt(self) -> dict[str, object] | None:
        """Return and remove the count that an earlier release stored by the name of the stream alone."""
        known = self.documents.get(SPACE, self.stream)
        if known is not None:
            self.documents.delete(SPACE, self.stream)
        return known
