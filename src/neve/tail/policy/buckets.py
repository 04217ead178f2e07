"""Limits as the collector's code has them: token buckets that refill with time, and counters of a second.

Traces are taken in their order, and the time is when each became ready. What passes is a matter of order and not of
chance, so there is no probability. The honest approximation is how a window went: a trace that passed stands for n / m
of them, where n spans reached the limit and m passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.tail.policy.limits import Settled
from neve.tail.policy.state import Bucket, Counter
from neve.tail.policy.thresholds import thresholds_of
from neve.tail.policy.traces import MAX_THRESHOLD
from neve.tail.policy.windows import SECOND_US

if TYPE_CHECKING:
    from neve.tail.policy.plan import Limit
    from neve.tail.policy.traces import Bools, Integers
    from neve.tail.policy.windows import Windows


def drain(
    limit: Limit, asked: Bools, sizes: Integers, ready_us: Integers, bucket: Bucket | None
) -> tuple[Bools, Bucket | None]:
    """Who finds enough tokens in a bucket; it starts full.

    As golang.org/x/time/rate reckons in doubles: a lack that a nanosecond would fill is no lack.
    """
    rows = np.flatnonzero(asked)
    rate, burst = float(limit.per_second), limit.burst
    tokens, last = (bucket.tokens, bucket.last_us) if bucket else (float(burst), None)
    fitting: list[int] = []
    for row, now, size in zip(rows.tolist(), ready_us[rows].tolist(), sizes[rows].tolist(), strict=True):
        available = tokens
        if last is not None and now > last and rate > 0:
            whole, part = divmod(now - last, SECOND_US)
            available = min(tokens + (whole + part * 1000 / 1e9) * rate, float(burst))
        left = available - size
        if size <= burst and (left >= 0 or (rate > 0 and -left / rate * 1e9 < 1)):
            tokens, last = left, now
            fitting.append(row)
    return _mask(fitting, len(asked)), (None if last is None else Bucket(tokens, last))


class Seconds:
    """The seconds of a composite policy: its counters start anew whenever it is asked in another second."""

    def __init__(self, asked: Bools, ready_us: Integers, shares: int, counter: Counter | None) -> None:
        self.rows = np.flatnonzero(asked)
        seconds = ready_us[self.rows] // SECOND_US
        self.runs = np.zeros(len(asked), dtype=np.int64)
        if len(self.rows):
            self.runs[self.rows] = np.concatenate([[0], np.cumsum(np.diff(seconds) != 0)])
        goes_on = counter is not None and len(seconds) > 0 and counter.second == int(seconds[0])
        self.carried = counter.used if counter is not None and goes_on else (0,) * shares
        self.last = int(seconds[-1]) if len(seconds) else None
        self.counter = counter
        self.used = [0] * shares

    def allot(self, share: int, budget: int, reached: Bools, sizes: Integers) -> Bools:
        """Who fits in a share, one after the other; one that does not fit leaves its room to smaller ones."""
        passed = reached.copy()
        if not len(self.rows):
            return passed
        used = np.zeros(int(self.runs[self.rows[-1]]) + 1, dtype=np.int64)
        used[0] = self.carried[share]
        np.add.at(used, self.runs[reached], sizes[reached])
        full = used > budget
        rows = np.flatnonzero(reached & full[self.runs])
        used[full], used[0] = 0, self.carried[share] if full[0] else used[0]
        kept = used.tolist()
        for row, run, size in zip(rows.tolist(), self.runs[rows].tolist(), sizes[rows].tolist(), strict=True):
            if kept[run] + size <= budget:
                kept[run] += size
            else:
                passed[row] = False
        self.used[share] = kept[-1]
        return passed

    def after(self) -> Counter | None:
        """The counters for the next batch."""
        return self.counter if self.last is None else Counter(self.last, tuple(self.used))


def outcome(most: int, asked: Bools, passed: Bools, sizes: Integers, windows: Windows) -> Settled:
    """A limit's answer, with the chance that it comes to: of what reached it in a window the share that passed."""
    too_large = sizes > most
    counted = np.maximum(sizes, 1)  # what has no size counts as something that passed
    reached, fitted = windows.sums(counted, asked & ~too_large), windows.sums(counted, passed)
    chances = np.divide(fitted, reached, out=np.ones(len(windows)), where=reached > 0)
    thresholds = thresholds_of(chances)[windows.of]
    thresholds[too_large] = MAX_THRESHOLD
    return Settled(asked, passed, thresholds, too_large, reached, fitted)


def _mask(rows: list[int], length: int) -> Bools:
    mask = np.zeros(length, dtype=np.bool_)
    mask[rows] = True
    return mask
