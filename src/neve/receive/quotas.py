"""Quotas of an organization and of an API key: bytes and records a second, with a burst.

Each limit is a token bucket. The cost of a message is known only after it was read, so a bucket is checked before
the body is read and charged before the message is stored. A message is admitted while the bucket is not empty and
may overdraw it: messages larger than the burst get through, one at a time, and the long-run rate of an organization
never exceeds its quota.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.receive.config import LimitConfig
    from neve.state.scopes import Caller

EACH = "*"
MAX_OWNERS = 10_000  # owners whose buckets are stored; an evicted bucket is full again


@dataclass
class Bucket:
    """Token bucket: tokens refill at a rate, up to a burst. The caller passes the current time."""

    rate: float
    burst: float
    level: float
    at: float

    @classmethod
    def full(cls, rate: float, burst_seconds: float, now: float) -> Bucket:
        """Return a full bucket."""
        return cls(rate, rate * burst_seconds, rate * burst_seconds, now)

    def wait(self, now: float) -> float:
        """Return the seconds until tokens may be taken, 0 for immediately."""
        self._fill(now)
        return 0.0 if self.level > 0 else (1.0 - self.level) / self.rate

    def take(self, amount: float, now: float) -> None:
        """Take tokens. More than are available may be taken: the bucket is then overdrawn."""
        self._fill(now)
        self.level -= amount

    def _fill(self, now: float) -> None:
        self.level = min(self.burst, self.level + max(0.0, now - self.at) * self.rate)
        self.at = max(self.at, now)


@dataclass(frozen=True)
class Account:
    """Buckets of one owner: an organization or a key."""

    owner: str
    bytes: Bucket | None
    records: Bucket | None

    @property
    def buckets(self) -> Iterator[tuple[str, Bucket]]:
        """Yield the buckets that exist, each with the name of its unit."""
        if self.bytes is not None:
            yield "bytes", self.bytes
        if self.records is not None:
            yield "records", self.records


class Quotas:
    """Accounts of all callers, used by one thread."""

    def __init__(self, limits: Sequence[LimitConfig] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = {(limit.organization, limit.key): limit for limit in limits}
        self._clock = clock
        self._accounts: OrderedDict[tuple[str, str], Account] = OrderedDict()

    def check(self, caller: Caller) -> None:
        """Raise `Refusal` while an account of a caller is overdrawn."""
        now = self._clock()
        for account in self._of(caller, now):
            for what, bucket in account.buckets:
                if wait := bucket.wait(now):
                    raise _quota_refusal(account.owner, what, bucket.rate, wait)

    def charge(self, caller: Caller, size: int, records: int) -> None:
        """Charge a message to the caller's accounts, or raise `Refusal` and charge nothing."""
        self.check(caller)
        self.charge_anyway(caller, size, records)

    def charge_anyway(self, caller: Caller, size: int, records: int) -> None:
        """Charge the cost of a message to the caller's accounts, even if that overdraws them."""
        now, costs = self._clock(), {"bytes": size, "records": records}
        for account in self._of(caller, now):
            for what, bucket in account.buckets:
                bucket.take(costs[what], now)

    def _of(self, caller: Caller, now: float) -> list[Account]:
        """Return the accounts of the organization and of the key, if they are limited."""
        if not self._limits:
            return []
        whole = self._find((caller.organization, ""), (EACH, ""))
        key = self._find(
            (caller.organization, caller.key_id), (EACH, caller.key_id), (caller.organization, EACH), (EACH, EACH)
        )
        found = []
        if whole is not None:
            found.append(self._account((caller.organization, ""), whole, now))
        if key is not None and caller.key_id:
            found.append(self._account((caller.organization, caller.key_id), key, now))
        return found

    def _find(self, *names: tuple[str, str]) -> LimitConfig | None:
        """Return the most specific limit."""
        return next((self._limits[name] for name in names if name in self._limits), None)

    def _account(self, name: tuple[str, str], limit: LimitConfig, now: float) -> Account:
        account = self._accounts.get(name)
        if account is None:
            organization, key = name
            owner = f"the key {key} of {organization}" if key else f"the organization {organization}"
            account = self._accounts[name] = Account(
                owner,
                _bucket(limit.bytes_per_second, limit.burst_seconds, now),
                _bucket(limit.records_per_second, limit.burst_seconds, now),
            )
            if len(self._accounts) > MAX_OWNERS:
                self._accounts.popitem(last=False)
        self._accounts.move_to_end(name)
        return account


def _bucket(rate: float, burst_seconds: float, now: float) -> Bucket | None:
    return Bucket.full(rate, burst_seconds, now) if rate else None


def _quota_refusal(owner: str, what: str, rate: float, wait: float) -> Refusal:
    seconds = max(1, math.ceil(wait))
    message = f"{owner} sends more than {rate:g} {what} a second (receiver.limits); retry in {seconds} s"
    return Refusal(Verdict.BUSY, f"over_quota_{what}", message, retry_after_seconds=seconds)
