"""What each organization sent, and how much of the raw zone's backlog is its own.

The backlog is bounded for all together, so that one organization could fill it and everybody would be refused. Each may
hold a share of it. Nothing has to be read back for that: a writer's segments are ingested in the order in which they
were written, so that of all that this receiver has kept the newest bytes are those that still wait.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 1024 * 1024
MOST_BLOCKS = 10_000  # in which the backlog is remembered
MOST_KNOWN = 10_000  # organizations whose numbers are kept
MOST_SHOWN = 20


@dataclass
class Sent:
    """What one organization sent since the receiver started."""

    bytes: int = 0
    records: int = 0
    refused: int = 0


@dataclass
class Block:
    """Neighbouring bytes of the backlog, by organization."""

    size: int = 0
    owners: Counter[str] = field(default_factory=Counter)


class Usage:
    """Counts by organization; used by one thread. `share_bytes` is what each may have waiting, 0 for no limit."""

    def __init__(self, share_bytes: int = 0, block_bytes: int = 0) -> None:
        self.share_bytes = share_bytes
        self.added = 0
        self._block_bytes = block_bytes or max(MB, share_bytes // MOST_BLOCKS)
        self._sent: OrderedDict[str, Sent] = OrderedDict()
        self._blocks: deque[Block] = deque()
        self._waiting: Counter[str] = Counter()
        self._waiting_bytes = 0

    def waiting(self, organization: str) -> int:
        """How many bytes of an organization wait to be ingested, of those that this receiver kept."""
        return self._waiting[organization]

    @property
    def largest_waiting(self) -> int:
        """How many bytes wait of the organization that has the most."""
        return max(self._waiting.values(), default=0)

    def check(self, organization: str) -> None:
        """Raise `Refusal` while an organization has more than its share waiting."""
        found = self._waiting[organization]
        if self.share_bytes and found > self.share_bytes:
            raise Refusal(
                Verdict.BUSY,
                "backlog_share",
                f"{found} bytes of {organization} wait to be ingested, its share of the backlog is {self.share_bytes} "
                "(raw.max_backlog_bytes, receiver.backlog_share)",
            )

    def refused(self, organization: str) -> None:
        """Count a refused request."""
        self._of(organization).refused += 1

    def kept(self, organization: str, size: int, records: int, stored: int) -> None:
        """Count a message: its unpacked size, its records, and the bytes that the raw zone keeps of it."""
        sent = self._of(organization)
        sent.bytes += size
        sent.records += records
        if not self._blocks or self._blocks[-1].size >= self._block_bytes:
            self._blocks.append(Block())
        block = self._blocks[-1]
        block.size += stored
        block.owners[organization] += stored
        self._waiting[organization] += stored
        self._waiting_bytes += stored
        self.added += stored

    def settle(self, waiting_bytes: int) -> None:
        """Forget the oldest bytes, so that no more wait than are there."""
        while self._blocks and self._waiting_bytes - self._blocks[0].size >= waiting_bytes:
            block = self._blocks.popleft()
            self._waiting -= block.owners  # and with it who has none left
            self._waiting_bytes -= block.size

    def report(self) -> Iterator[dict[str, object]]:
        """The organizations that sent the most, with what they sent and what of it waits."""
        known = list(self._sent.items())  # another thread may ask
        most = sorted(known, key=lambda item: (-item[1].bytes, item[0]))[:MOST_SHOWN]
        for organization, sent in most:
            yield {"organization": organization, **vars(sent), "backlog_bytes": self._waiting[organization]}

    def _of(self, organization: str) -> Sent:
        sent = self._sent.setdefault(organization, Sent())
        self._sent.move_to_end(organization)
        if len(self._sent) > MOST_KNOWN:
            self._sent.popitem(last=False)
        return sent
