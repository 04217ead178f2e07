"""Which windows a commit changed, as its summary announces them to the level above."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from neve.model.commits import WINDOWS
from neve.rollup.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

EVERYONE = "*"
SECOND = 1_000_000
MOST_CHARACTERS = 8_000  # every later metadata file has the summary in it
DAY = 86_400 * SECOND


def announce(changed: Mapping[str, Ranges]) -> dict[str, str]:
    """Say which windows of whom changed; where that takes too many words, somewhat more is said to have changed."""
    for shorter in (changed, _coarse(changed), {EVERYONE: _hull(changed)}):
        words = json.dumps(
            {owner: [[start // SECOND, end // SECOND] for start, end in ranges] for owner, ranges in shorter.items()},
            separators=(",", ":"),
        )
        if len(words) <= MOST_CHARACTERS:
            break
    return {WINDOWS: words}


def announced(words: str) -> dict[str, Ranges]:
    """Whose windows changed; those of `EVERYONE` are everybody's."""
    return {
        owner: Ranges.of((start * SECOND, end * SECOND) for start, end in ranges)
        for owner, ranges in json.loads(words).items()
    }


def _coarse(changed: Mapping[str, Ranges]) -> dict[str, Ranges]:
    return {owner: ranges.closed_gaps(DAY) for owner, ranges in changed.items()}


def _hull(changed: Mapping[str, Ranges]) -> Ranges:
    ends = [end for ranges in changed.values() for part in ranges for end in part]
    return Ranges.of([(min(ends), max(ends))]) if ends else Ranges()
