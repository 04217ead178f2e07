"""Whether writing manifests anew pays: a pure function of a snapshot's manifest list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.maintain.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TARGET_SIZE = "commit.manifest.target-size-bytes"
TARGET_SIZE_DEFAULT = 8 * 1024 * 1024  # 8 MB
WORTH = 2  # how many times as many manifests as are needed there must be


@dataclass(frozen=True)
class ManifestPlan:
    """What the manifests are like, and whether they are to be rewritten."""

    rewrite: bool
    reason: str
    manifests: int
    needed: int
    bytes: int


def plan_manifests(sizes: Mapping[str, Sequence[int]], *, target: int, least: int) -> ManifestPlan:
    """Many small manifests make every query's planning slow; a few full ones are as good as it gets.

    Sizes are by kind, for manifests of data files and of delete files are never merged with each other.

    >>> plan_manifests({"data": [100] * 50}, target=8_000_000, least=20).reason
    '50 manifests of 100 B on average would fit into 1'
    """
    count, total = sum(map(len, sizes.values())), sum(map(sum, sizes.values()))
    needed = sum(-(-sum(kind) // target) for kind in sizes.values())

    def plan(rewrite: bool, reason: str) -> ManifestPlan:
        return ManifestPlan(rewrite, reason, count, needed, total)

    if not count:
        return plan(False, "the table has no manifests")
    if count < least:
        return plan(False, f"only {counted(count, 'manifest')}: fewer than {least} are left as they are")
    if count < WORTH * needed:
        return plan(False, f"{count} manifests for {needed} that are needed at {target:,} B each: well filled")
    return plan(True, f"{count} manifests of {total // count:,} B on average would fit into {needed}")
