"""Who keeps a trace, where several selectors see the same ones: the first that says so, in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG = structlog.get_logger(__name__)
AT_ONCE = 1000


class Claims(Protocol):
    """What selectors agree on."""

    def claim(self, organization: str, ids: Sequence[bytes]) -> list[str]:
        """Say that these traces are kept here; for each, the selector that said so first (this one: its own name)."""

    @property
    def trouble(self) -> str:
        """What keeps the claims from being asked; empty where nothing does."""


class NoClaims:
    """One selector alone: the table of decisions says it all."""

    trouble = ""

    def __init__(self, selector: str) -> None:
        self._selector = selector

    def claim(self, _organization: str, ids: Sequence[bytes]) -> list[str]:
        """Every trace is this selector's."""
        return [self._selector] * len(ids)


class RedisClaims:
    """Claims that are kept for a time longer than a trace may take.

    Redis that is away does not stop decisions: the table of decisions still keeps this selector from keeping a trace
    twice, and what others keep meanwhile may be exported by both. That is said, not hidden.
    """

    def __init__(self, url: str, selector: str, ttl_seconds: float) -> None:
        from redis import Redis  # noqa: PLC0415 - an extra

        self._redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
        self._selector = selector
        self._ttl_ms = round(ttl_seconds * 1000)
        self.trouble = ""

    def claim(self, organization: str, ids: Sequence[bytes]) -> list[str]:
        """The first that claims a trace has it; one that claims again after a crash still has it."""
        from redis.exceptions import RedisError  # noqa: PLC0415

        holders: list[str] = []
        try:
            for first in range(0, len(ids), AT_ONCE):
                holders += self._claim(organization, ids[first : first + AT_ONCE])
        except (RedisError, OSError) as error:
            self.trouble = f"Redis is away ({error}): traces that another selector keeps may be exported twice"
            LOG.warning("tail: claims can't be asked", error=str(error))
            return holders + [self._selector] * (len(ids) - len(holders))
        self.trouble = ""
        return holders

    def _claim(self, organization: str, ids: Sequence[bytes]) -> list[str]:
        with self._redis.pipeline(transaction=False) as pipeline:
            for trace_id in ids:
                key = f"neve:tail:{organization}:{trace_id.hex()}"
                pipeline.set(key, self._selector, nx=True, get=True, px=self._ttl_ms)
            return [holder.decode() if holder else self._selector for holder in pipeline.execute()]
