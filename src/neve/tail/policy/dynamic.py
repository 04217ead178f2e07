"""Dynamic rates: keys that are seen often are sampled less, and one trace in so many is kept in all.

The idea is that of Honeycomb's samplers: of each key about as many traces are kept as the logarithm of how often it is
seen, by a moving average over intervals. Here an interval is known in full before it is judged. So its own traces count
in the average, and the scale is solved for instead of approached: over the traces of every interval the expected number
of kept ones is exactly the goal, bursts included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.policy.state import Averages
from neve.tail.policy.thresholds import thresholds_of

if TYPE_CHECKING:
    from neve.tail.policy.traces import Bools, Doubles, Integers, Unsigned
    from neve.tail.policy.tree import Dynamic
    from neve.tail.policy.windows import Windows

MOST_KEYS = 500  # that have a rate of their own; the rest of them share one


@dataclass(frozen=True)
class Rates:
    """A moving average for each key that is known, by its code; codes are in the order of the texts."""

    codes: Integers
    averages: Doubles
    rest: float


def settle_dynamic(
    node: Dynamic, keys: pa.Array, asked: Bools, intervals: Windows, before: Averages
) -> tuple[Unsigned, Averages]:
    """T for each trace by the rate of its key in its interval, and the averages after the last interval.

    Counted are the traces that are asked. A key that nobody asked about in an interval has no rate and is kept.
    """
    codes, texts = _coded(keys, [key for key, _average in before.by_key])
    rates = _known(before, texts)
    pairs = intervals.of * len(texts) + codes
    distinct, counts = np.unique(pairs[asked], return_counts=True)
    chances = np.ones(len(distinct) + 1)
    bounds = np.searchsorted(distinct, np.arange(len(intervals) + 1) * len(texts))
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if start < end:  # an interval without traces changes nothing, so that a pause does not look like a change
            seen = distinct[start:end] % len(texts)
            chances[start:end], rates = _interval(node, seen, counts[start:end], rates)
    places = np.searchsorted(distinct, pairs)
    found = np.append(distinct, -1)[places] == pairs
    thresholds = thresholds_of(chances)[np.where(found, places, -1)]
    by_key = zip(texts.take(pa.array(rates.codes)).to_pylist(), rates.averages.tolist(), strict=True)
    return thresholds, Averages(tuple(by_key), rates.rest)


def chances_of(goal_rate: float, counts: Integers, averages: Doubles) -> Doubles:
    """For each key the chance to be kept, such that over all counts one in `goal_rate` is expected to be kept.

    It is in proportion to log(1 + average) / average, and at most 1.
    """
    if goal_rate <= 1:
        return np.ones(len(counts))
    shape = np.log10(1 + averages) / averages
    order = np.argsort(-shape, kind="stable")
    count, steep = counts[order].astype(np.float64), shape[order]
    kept_in_full = np.cumsum(count) - count  # by the keys before each one, were they all kept
    share_of_rest = np.cumsum((count * steep)[::-1])[::-1]
    scale = (count.sum() / goal_rate - kept_in_full) / share_of_rest
    within = scale * steep <= 1
    within[-1] = True  # it is, but for rounding
    first = int(np.argmax(within))  # from here on no chance is over 1
    chances: Doubles = np.minimum(1.0, shape * scale[first])
    return chances


def _interval(node: Dynamic, seen: Integers, counts: Integers, before: Rates) -> tuple[Doubles, Rates]:
    """The chances of the keys that were seen, and the averages with this interval."""
    codes = np.union1d(before.codes, seen)
    averages, present = np.zeros(len(codes)), np.zeros(len(codes), dtype=np.int64)
    averages[np.searchsorted(codes, before.codes)] = before.averages * (1 - node.weight)
    places = np.searchsorted(codes, seen)
    present[places] = counts
    averages += node.weight * present
    own = np.zeros(len(codes), dtype=np.bool_)
    own[np.lexsort((codes, -averages))[:MOST_KEYS]] = True
    rest = before.rest * (1 - node.weight) + float(averages[~own].sum())
    groups = np.where(own, np.cumsum(own) - 1, own.sum())[places]  # the rest together comes last
    totals = np.bincount(groups, counts, minlength=int(own.sum()) + 1)
    known = totals > 0
    chances = np.ones(len(totals))
    chances[known] = chances_of(node.goal_rate, totals[known], np.append(averages[own], rest)[known])
    stays = own & (averages >= node.weight)  # what is smaller was seen less than once of late
    return chances[groups], Rates(codes[stays], averages[stays], rest if rest >= node.weight else 0.0)


def _coded(keys: pa.Array, known: list[str]) -> tuple[Integers, pa.Array]:
    """For each trace the code of its key, and the texts by code; in an order that does not depend on the batch."""
    encoded = pa.concat_arrays([keys.cast(pa.string()), pa.array(known, pa.string())])
    encoded = encoded.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    return ranks[encoded.indices.to_numpy()[: len(keys)]], encoded.dictionary.take(order)


def _known(before: Averages, texts: pa.Array) -> Rates:
    keys = [key for key, _average in before.by_key]
    codes = pc.index_in(pa.array(keys, pa.string()), value_set=texts).to_numpy(zero_copy_only=False).astype(np.int64)
    averages = np.array([average for _key, average in before.by_key], dtype=np.float64)
    order = np.argsort(codes)
    return Rates(codes[order], averages[order], before.rest)
