"""Random changes: the same for the same seed and the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.race.changes import Append, Clear, Delete, Merge, Overwrite, Update
from tests.race.rows import BUCKETS, Row, Rows, row_of

if TYPE_CHECKING:
    import random

    from tests.race.changes import Change

MOST_ROWS = 1500
ONE_BUCKET = 0.9  # the share of changes that touch one bucket alone
LONGEST_NAP_SECONDS = 2.5

KINDS = (Append, Delete, Update, Merge, Overwrite, Clear)
WEIGHTS = (5, 4, 3, 6, 2, 0.3)


def draw_change(rows: Rows, version: int, first: int, rng: random.Random) -> Change:
    """A random change to rows; new ones get ids from `first` on. A table that is large gets no larger."""
    kind = rng.choices(KINDS, WEIGHTS)[0]
    if kind is Append and len(rows) > MOST_ROWS:
        kind = Overwrite
    if not rows or kind is Append:
        return draw_append(version, first, rng)
    if kind is Delete:
        return Delete(_some(rows, rng))
    if kind is Clear:
        return Clear(rng.choice(BUCKETS))
    if kind is Update:
        return Update(_some(rows, rng), version, rng.choice((None, None, rng.choice(BUCKETS))))
    if kind is Overwrite:
        bucket = rng.choice(BUCKETS)
        return Overwrite(bucket, _new(first, rng.randint(1, 60), version, bucket))
    chosen = _some(rows, rng)
    middle = len(chosen) // 2
    changed = tuple(row_of(key, version, rows[key].bucket) for key in chosen[:middle])
    added = _new(first, rng.randint(1, 20), version, rows[chosen[0]].bucket)
    return Merge((*changed, *added), chosen[middle:], _draw_nap(rng))


def draw_append(version: int, first: int, rng: random.Random) -> Append:
    """New rows, for one bucket or for all of them."""
    return Append(_new(first, rng.randint(4, 60), version, rng.choice((None, None, rng.choice(BUCKETS)))))


def _new(first: int, count: int, version: int, bucket: int | None = None) -> tuple[Row, ...]:
    return tuple(row_of(number, version, bucket) for number in range(first, first + count))


def _some(rows: Rows, rng: random.Random) -> tuple[int, ...]:
    """A few rows, or every so many, mostly of one bucket: what is rewritten in the others is not disturbed."""
    bucket = rng.choice(sorted({row.bucket for row in rows.values()})) if rng.random() < ONE_BUCKET else None
    there = sorted(key for key, row in rows.items() if bucket in (None, row.bucket))
    if rng.random() < 0.5:
        return tuple(rng.sample(there, min(len(there), rng.randint(1, 12))))
    divisor = rng.randint(3, 9)
    return tuple(key for key in there if key % divisor == 0) or (there[0],)


def _draw_nap(rng: random.Random) -> float:
    return rng.choice((0.0, rng.uniform(0, LONGEST_NAP_SECONDS)))
