"""Rewrite a table's manifests if there are many more than needed, so that planning opens fewer of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.read.snapshot_files import list_manifests
from neve.maintain.procedures import call_procedure
from neve.maintain.step import Cost, Entry, Gain, Outcome
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.maintain.step import StepContext


TARGET_SIZE = "commit.manifest.target-size-bytes"
TARGET_SIZE_DEFAULT = 8 * 1024 * 1024  # 8 MB
MIN_RATIO = 2  # minimum ratio of existing to needed manifests


@dataclass(frozen=True)
class ManifestPlan:
    """State of the manifests, and whether they are to be rewritten."""

    rewrite: bool
    reason: str
    manifests: int
    needed: int
    bytes: int


def plan_manifests(sizes: Mapping[str, Sequence[int]], *, target: int, least: int) -> ManifestPlan:
    """Plan the rewrite of manifests: many small ones slow the planning of every query, a few full ones are optimal.

    Sizes are by kind, because manifests of data files and of delete files are never merged with each other.

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
        return plan(False, f"only {format_count(count, 'manifest')}: not rewritten below {least}")
    if count < MIN_RATIO * needed:
        return plan(False, f"{count} manifests for {needed} that are needed at {target:,} B each: well filled")
    return plan(True, f"{count} manifests of {total // count:,} B on average would fit into {needed}")


STEP = "manifests"


def rewrite_manifests(work: StepContext) -> Outcome:
    """Rewrite manifests if that pays. No data file is changed."""
    plan = _make_plan(work)
    gain = Gain(manifests=plan.manifests - plan.needed) if plan.rewrite else Gain()
    if work.dry_run or not plan.rewrite:
        return Outcome(plan.reason, False, (), gain)
    work.report_progress(STEP, 0, 1)
    work.check()
    answer = call_procedure(work.lake, "rewrite_manifests", work.name, {"use_caching": "false"})
    work.report_progress(STEP, 1, 1)
    before, after = int(answer["rewritten_manifests_count"]), int(answer["added_manifests_count"])
    reason = f"{format_count(before, 'manifest')} became {after}"
    entry = Entry("rewrite", format_count(before, "manifest"), plan.reason, plan.bytes)
    cost = Cost(api_calls=before + after + 3, bytes_written=plan.bytes)
    return Outcome(reason, before > 0, (entry,), Gain(manifests=before - after), cost)


def _make_plan(work: StepContext) -> ManifestPlan:
    table = work.table()
    sizes: dict[str, list[int]] = {}
    for manifest in list_manifests(table):
        if manifest.partition_spec_id == table.metadata.default_spec_id:  # the procedure skips manifests of older specs
            sizes.setdefault(manifest.content.name, []).append(manifest.manifest_length)
    target = int(table.properties.get(TARGET_SIZE, TARGET_SIZE_DEFAULT))
    return plan_manifests(sizes, target=target, least=work.config.manifests.min_manifests)
