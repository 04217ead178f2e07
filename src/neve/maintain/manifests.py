"""Write a table's manifests anew, so that planning opens fewer of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.maintain.entry import Entry
from neve.maintain.manifests_plan import TARGET_SIZE, TARGET_SIZE_DEFAULT, ManifestPlan, plan_manifests
from neve.maintain.procedures import call
from neve.maintain.result import Cost, Gain, Outcome
from neve.maintain.words import counted

if TYPE_CHECKING:
    from neve.maintain.work import Work

STEP = "manifests"


def manifests(work: Work) -> Outcome:
    """Rewrite manifests where that pays; no data file is touched."""
    plan = _plan(work)
    gain = Gain(manifests=plan.manifests - plan.needed) if plan.rewrite else Gain()
    if work.dry_run or not plan.rewrite:
        return Outcome(plan.reason, False, (), gain)
    work.tell(STEP, 0, 1)
    work.check()
    answer = call(work.lake, "rewrite_manifests", work.name, {"use_caching": "false"})
    work.tell(STEP, 1, 1)
    before, after = int(answer["rewritten_manifests_count"]), int(answer["added_manifests_count"])
    reason = f"{counted(before, 'manifest')} became {after}"
    entry = Entry("rewrite", counted(before, "manifest"), plan.reason, plan.bytes)
    cost = Cost(api_calls=before + after + 3, bytes_written=plan.bytes)
    return Outcome(reason, before > 0, (entry,), Gain(manifests=before - after), cost)


def _plan(work: Work) -> ManifestPlan:
    table = work.table()
    snapshot = table.current_snapshot()
    sizes: dict[str, list[int]] = {}
    for manifest in snapshot.manifests(table.io) if snapshot else []:
        if manifest.partition_spec_id == table.metadata.default_spec_id:  # the procedure leaves those of older specs
            sizes.setdefault(manifest.content.name, []).append(manifest.manifest_length)
    target = int(table.properties.get(TARGET_SIZE, TARGET_SIZE_DEFAULT))
    return plan_manifests(sizes, target=target, least=work.config.manifests.min_manifests)
