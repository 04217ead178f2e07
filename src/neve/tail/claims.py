"""Claims on kept traces, shared by several selectors in Redis: the first selector that claims a trace exports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG = get_logger(__name__)
CLAIM_BATCH = 1000


class Claims(Protocol):
    """Registry of kept traces that selectors share."""

    def claim(self, organization: str, ids: Sequence[bytes]) -> list[str]:
        """Claim kept traces, and return the first claimant of each, which is this selector's name if it was first."""

    @property
    def trouble(self) -> str:
        """Reason why claims are unavailable, or empty."""


class NoClaims:
    """Claims of a single selector: the table of decisions is sufficient."""

    trouble = ""

    def __init__(self, selector: str) -> None:
        self._selector = selector

    def claim(self, _organization: str, ids: Sequence[bytes]) -> list[str]:
        """Return this selector's name for each trace."""
        return [self._selector] * len(ids)


class RedisClaims:
    """Claims in Redis, with a TTL that is longer than a trace may take.

    If Redis is unavailable, decisions continue. The table of decisions still prevents this selector from keeping a
    trace twice, but traces that other selectors keep meanwhile may be exported by both. `trouble` reports this.
    """

    def __init__(self, url: str, selector: str, ttl_seconds: float) -> None:
        from redis import Redis  # noqa: PLC0415 - an extra

        self._redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        self._selector = selector
        self._ttl_ms = round(ttl_seconds * 1000)
        self.trouble = ""

    def claim(self, organization: str, ids: Sequence[bytes]) -> list[str]:
        """Claim traces for this selector.

        The first claim wins, and a repeated claim after a crash still holds.
        """
        from redis.exceptions import RedisError  # noqa: PLC0415

        holders: list[str] = []
        try:
            for first in range(0, len(ids), CLAIM_BATCH):
                holders += self._claim(organization, ids[first : first + CLAIM_BATCH])
        except (RedisError, OSError) as error:
            self.trouble = f"Redis is unavailable ({error}): traces that another selector keeps may be exported twice"
            LOG.warning("can't reach Redis for claims on traces", error=str(error))
            return holders + [self._selector] * (len(ids) - len(holders))
        self.trouble = ""
        return holders

    def _claim(self, organization: str, ids: Sequence[bytes]) -> list[str]:
        with self._redis.pipeline(transaction=False) as pipeline:
            for trace_id in ids:
                key = f"neve:tail:{organization}:{trace_id.hex()}"
                pipeline.set(key, self._selector, nx=True, get=True, px=self._ttl_ms)
            return [holder.decode() if holder else self._selector for holder in pipeline.execute()]
