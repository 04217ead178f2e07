"""Batching as a collector does it: records of one sender and one library stand together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by key; groups come in the order of their first items, items in their own order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def segments(items: Iterable[T], time: Callable[[T], int], edges: Sequence[int]) -> list[list[T]]:
    """Cut items, in any order, into one list for each stretch between edges; each list is in order of time.

    What is later than the last edge goes into the last list: a file is closed only when all has come in.
    """
    cut: list[list[T]] = [[] for _ in edges[:-1]]
    current = 0
    for item in sorted(items, key=time):
        while current + 1 < len(cut) and time(item) >= edges[current + 1]:
            current += 1
        cut[current].append(item)
    return cut
