"""Limits of policies: window budgets, the collector's token buckets, dynamic rates, and the state between batches.

Documented limits are deterministic and unbiased. All traces that reach a limit within a window of time (by when they
became ready) compete for the window's budget. They are selected by their random number R, largest first,
until one does not fit, and T is one more than that one's R. So R >= T tells which traces are kept, whatever the
order of arrival and the number of selectors, and 1 / (1 - T / 2^56) is an unbiased weight: had a kept trace drawn
any other R that is not under T, the same traces would have been kept. A trace that is larger than the whole budget
never passes and takes no place. A burst has no effect, because the window averages bursts out.

The collector's code has token buckets that refill with time, and counters of a second. Traces are processed in their
order, and the time is when each became ready. The order decides and not chance, so there is no probability. The
approximation is the course of a window: a trace that passed represents n / m traces, where n spans reached the
limit and m passed.

Dynamic rates sample frequent keys less, so that one trace in a given number is kept in all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import LakeError
from neve.tail.policy.evaluate.thresholds import to_thresholds
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.tail.policy.evaluate.traces import Bools, Doubles, Integers, Unsigned, Windows
    from neve.tail.policy.tree import Dynamic, RateLimit


@dataclass(frozen=True)
class BucketState:
    """Token bucket after the last trace that passed."""

    tokens: float
    last_us: int


@dataclass(frozen=True)
class CounterState:
    """Spans that each share of a composite policy kept within a second."""

    second: int
    used: tuple[int, ...]


@dataclass(frozen=True)
class KeyAverages:
    """Moving averages of the traces per interval for each key, with `rest` for all other keys together."""

    by_key: tuple[tuple[str, float], ...] = ()  # sorted by key
    rest: float = 0.0


@dataclass(frozen=True)
class LimitState:
    """State of buckets, counters and averages, each by the path of its policy."""

    buckets: Mapping[str, BucketState] = field(default_factory=dict)
    counters: Mapping[str, CounterState] = field(default_factory=dict)
    averages: Mapping[str, KeyAverages] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """Return the state as a JSON document, which preserves numbers exactly."""
        return {
            "buckets": {path: [bucket.tokens, bucket.last_us] for path, bucket in sorted(self.buckets.items())},
            "counters": {path: [count.second, list(count.used)] for path, count in sorted(self.counters.items())},
            "averages": {path: [dict(of.by_key), of.rest] for path, of in sorted(self.averages.items())},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LimitState:
        """Parse the result of `as_document`, before or after JSON."""
        try:
            return cls(
                {path: BucketState(float(tokens), int(last)) for path, (tokens, last) in document["buckets"].items()},
                {
                    path: CounterState(int(at), tuple(map(int, used)))
                    for path, (at, used) in document["counters"].items()
                },
                {path: _build_averages(by_key, rest) for path, (by_key, rest) in document["averages"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LakeError(
                f"can't read the state of limits: {error!r}",
                hint="expected buckets, counters and averages by policy, as an earlier run wrote them",
            ) from error


def _build_averages(by_key: Mapping[str, float], rest: float) -> KeyAverages:
    return KeyAverages(tuple(sorted((key, float(average)) for key, average in by_key.items())), float(rest))


_RADIX_WINDOWS = 1 << 16  # up to this number of windows, their numbers fit 16 bits and are sorted by radix


@dataclass(frozen=True)
class LimitResult:
    """Answer of a limit to the traces of a batch."""

    candidates: Bools
    passed: Bools
    thresholds: Unsigned  # for each trace, evaluated or not, the T that its own R would have to reach
    too_large: Bools  # larger than the whole budget by itself
    reached: Integers  # for each window: spans or bytes of the evaluated traces that are not too large
    fitted: Integers  # and of those that passed


def apply_window_budget(
    budget: int, candidates: Bools, sizes: Integers, randomness: Unsigned, windows: Windows
) -> LimitResult:
    """Share out a budget in each window."""
    too_large = sizes > budget
    fitting_candidates = candidates & ~too_large
    reached = windows.sums(sizes, fitting_candidates)
    tight = reached + windows.largest(sizes, ~too_large) > budget
    room = _WindowRoom(fitting_candidates & tight[windows.of], sizes, randomness, windows)
    common = room.thresholds(np.arange(len(windows)), np.full(len(windows), budget))
    thresholds = common[windows.of]
    passed = fitting_candidates & (randomness >= thresholds)
    # A trace that did not pass has its own T: as if it were first, and the others had the remaining budget.
    others = np.flatnonzero(~passed & ~too_large & tight[windows.of])
    thresholds[others] = room.thresholds(windows.of[others], budget - sizes[others])
    thresholds[too_large] = MAX_THRESHOLD
    return LimitResult(candidates, passed, thresholds, too_large, reached, windows.sums(sizes, passed))


class _WindowRoom:
    """Competing traces in order within each window, and the cumulative budget that they use."""

    def __init__(self, competing: Bools, sizes: Integers, randomness: Unsigned, windows: Windows) -> None:
        rows = np.flatnonzero(competing)
        order = rows[np.argsort(np.uint64(MAX_THRESHOLD) - randomness[rows])]
        if len(windows) > 1:
            numbers = windows.of[order]
            small = numbers.astype(np.uint16) if len(windows) <= _RADIX_WINDOWS else numbers
            order = order[np.argsort(small, kind="stable")]
        places = np.arange(len(windows))
        self.ends = np.searchsorted(windows.of[order], places, side="right")
        self.taken = np.concatenate([[0], np.cumsum(sizes[order])])  # by all traces before each place
        self.before = self.taken[np.concatenate([[0], self.ends[:-1]]).astype(np.int64)]
        self.next = np.append(randomness[order] + np.uint64(1), np.uint64(0))  # T if each place is the first not to fit

    def thresholds(self, of: Integers, room: Integers) -> Unsigned:
        """Return T for windows with a given remaining budget, which is 0 if all traces fit."""
        first_without = np.searchsorted(self.taken[1:], self.before[of] + room, side="right")
        fits = first_without >= self.ends[of]
        return self.next[np.where(fits, -1, first_without)]


def drain_bucket(
    limit: RateLimit, candidates: Bools, sizes: Integers, ready_us: Integers, bucket: BucketState | None
) -> tuple[Bools, BucketState | None]:
    """Return which traces find enough tokens in a bucket, which starts full.

    The arithmetic is that of golang.org/x/time/rate in doubles: a lack that a nanosecond would fill is ignored.
    """
    rows = np.flatnonzero(candidates)
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
    return _to_mask(fitting, len(candidates)), (None if last is None else BucketState(tokens, last))


class CompositeCounters:
    """Per-second counters of a composite policy, which reset whenever it is evaluated in another second."""

    def __init__(self, candidates: Bools, ready_us: Integers, shares: int, counter: CounterState | None) -> None:
        self.rows = np.flatnonzero(candidates)
        seconds = ready_us[self.rows] // SECOND_US
        self.runs = np.zeros(len(candidates), dtype=np.int64)
        if len(self.rows):
            self.runs[self.rows] = np.concatenate([[0], np.cumsum(np.diff(seconds) != 0)])
        goes_on = counter is not None and len(seconds) > 0 and counter.second == int(seconds[0])
        self.carried = counter.used if counter is not None and goes_on else (0,) * shares
        self.last = int(seconds[-1]) if len(seconds) else None
        self.counter = counter
        self.used = [0] * shares

    def fit_into_share(self, share: int, budget: int, reached: Bools, sizes: Integers) -> Bools:
        """Return which traces fit in a share, in order.

        A trace that does not fit leaves the space to smaller ones.
        """
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

    def after(self) -> CounterState | None:
        """Return the counters for the next batch."""
        return self.counter if self.last is None else CounterState(self.last, tuple(self.used))


def build_limit_result(most: int, candidates: Bools, passed: Bools, sizes: Integers, windows: Windows) -> LimitResult:
    """Build a limit's answer, where the probability in a window is the share that passed of all that reached it."""
    too_large = sizes > most
    counted = np.maximum(sizes, 1)  # a size of 0 counts as 1, so that such a trace counts among those that passed
    reached, fitted = windows.sums(counted, candidates & ~too_large), windows.sums(counted, passed)
    chances = np.divide(fitted, reached, out=np.ones(len(windows)), where=reached > 0)
    thresholds = to_thresholds(chances)[windows.of]
    thresholds[too_large] = MAX_THRESHOLD
    return LimitResult(candidates, passed, thresholds, too_large, reached, fitted)


def _to_mask(rows: list[int], length: int) -> Bools:
    mask = np.zeros(length, dtype=np.bool_)
    mask[rows] = True
    return mask


# The idea is that of Honeycomb's samplers: the number of kept traces of a key is about the logarithm of its frequency,
# by a moving average over intervals. Here an interval is known in full before it is judged. So its own traces count in
# the average, and the scale is solved for instead of approximated: over the traces of every interval the expected
# number of kept traces is exactly the goal, bursts included.

MAX_KEYS = 500  # keys with their own rate; all other keys share one


@dataclass(frozen=True)
class KeyRates:
    """Moving averages of the known keys by code, where codes are in the order of the key texts."""

    codes: Integers
    averages: Doubles
    rest: float


def apply_dynamic_rates(
    node: Dynamic, keys: pa.Array, candidates: Bools, intervals: Windows, before: KeyAverages
) -> tuple[Unsigned, KeyAverages]:
    """Return T for each trace by the rate of its key in its interval, and the averages after the last interval.

    Only evaluated traces are counted. A key without evaluated traces in an interval has no rate and is kept.
    """
    codes, texts = _encode_keys(keys, [key for key, _average in before.by_key])
    rates = _load_rates(before, texts)
    pairs = intervals.of * len(texts) + codes
    distinct, counts = np.unique(pairs[candidates], return_counts=True)
    chances = np.ones(len(distinct) + 1)
    bounds = np.searchsorted(distinct, np.arange(len(intervals) + 1) * len(texts))
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if start < end:  # an interval without traces changes nothing, so that a pause is not treated as a change
            seen = distinct[start:end] % len(texts)
            chances[start:end], rates = _update_interval(node, seen, counts[start:end], rates)
    places = np.searchsorted(distinct, pairs)
    found = np.append(distinct, -1)[places] == pairs
    thresholds = to_thresholds(chances)[np.where(found, places, -1)]
    by_key = zip(texts.take(pa.array(rates.codes)).to_pylist(), rates.averages.tolist(), strict=True)
    return thresholds, KeyAverages(tuple(by_key), rates.rest)


def compute_key_chances(goal_rate: float, counts: Integers, averages: Doubles) -> Doubles:
    """Return the probability of each key, such that one in `goal_rate` of all counted traces is expected to be kept.

    It is proportional to log(1 + average) / average, and at most 1.
    """
    if goal_rate <= 1:
        return np.ones(len(counts))
    shape = np.log10(1 + averages) / averages
    order = np.argsort(-shape, kind="stable")
    count, steep = counts[order].astype(np.float64), shape[order]
    kept_in_full = np.cumsum(count) - count  # by the keys before each one, if all were kept
    share_of_rest = np.cumsum((count * steep)[::-1])[::-1]
    scale = (count.sum() / goal_rate - kept_in_full) / share_of_rest
    within = scale * steep <= 1
    within[-1] = True  # always true, except for rounding
    first = int(np.argmax(within))  # from here on no probability is over 1
    chances: Doubles = np.minimum(1.0, shape * scale[first])
    return chances


def _update_interval(node: Dynamic, seen: Integers, counts: Integers, before: KeyRates) -> tuple[Doubles, KeyRates]:
    """Return the probabilities of the keys in an interval, and the averages that include it."""
    codes = np.union1d(before.codes, seen)
    averages, present = np.zeros(len(codes)), np.zeros(len(codes), dtype=np.int64)
    averages[np.searchsorted(codes, before.codes)] = before.averages * (1 - node.weight)
    places = np.searchsorted(codes, seen)
    present[places] = counts
    averages += node.weight * present
    own = np.zeros(len(codes), dtype=np.bool_)
    own[np.lexsort((codes, -averages))[:MAX_KEYS]] = True
    rest = before.rest * (1 - node.weight) + float(averages[~own].sum())
    groups = np.where(own, np.cumsum(own) - 1, own.sum())[places]  # the group of all other keys is last
    totals = np.bincount(groups, counts, minlength=int(own.sum()) + 1)
    known = totals > 0
    chances = np.ones(len(totals))
    chances[known] = compute_key_chances(node.goal_rate, totals[known], np.append(averages[own], rest)[known])
    stays = own & (averages >= node.weight)  # smaller averages mean less than one recent trace
    return chances[groups], KeyRates(codes[stays], averages[stays], rest if rest >= node.weight else 0.0)


def _encode_keys(keys: pa.Array, known: list[str]) -> tuple[Integers, pa.Array]:
    """Return the code of each trace's key, and the texts by code, in an order that is independent of the batch."""
    encoded = pa.concat_arrays([keys.cast(pa.string()), pa.array(known, pa.string())])
    encoded = encoded.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    return ranks[encoded.indices.to_numpy()[: len(keys)]], encoded.dictionary.take(order)


def _load_rates(before: KeyAverages, texts: pa.Array) -> KeyRates:
    keys = [key for key, _average in before.by_key]
    codes = pc.index_in(pa.array(keys, pa.string()), value_set=texts).to_numpy(zero_copy_only=False).astype(np.int64)
    averages = np.array([average for _key, average in before.by_key], dtype=np.float64)
    order = np.argsort(codes)
    return KeyRates(codes[order], averages[order], before.rest)
