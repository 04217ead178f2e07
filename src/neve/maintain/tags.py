"""Set the tags that are due, and take away those of Neve's own that are past their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.maintain.procedures import quoted
from neve.maintain.result import Cost, Gain, Outcome
from neve.maintain.snapshots import refs_of, snapshots_of
from neve.maintain.tags_plan import TagPlan, all_series, plan_tags
from neve.maintain.words import counted

if TYPE_CHECKING:
    from neve.maintain.work import Work

STEP = "tags"


def tags(work: Work) -> Outcome:
    """Bring a table's automatic tags up to date; a user's own tags are never touched."""
    config = work.config.tags
    if not config.enabled:
        return Outcome("automatic tags are off (maintain.tags.enabled)")
    table = work.table()
    series = all_series(config.hourly, config.daily, config.monthly)
    plan = plan_tags(snapshots_of(table), refs_of(table), series, work.now)
    if work.dry_run or not (plan.create or plan.drop):
        return _told(plan)
    changes = statements(work.lake.spark_name(work.name), plan)
    for done, change in enumerate(changes):
        work.tell(STEP, done, len(changes))
        work.check()
        work.lake.spark.sql(change)
    work.tell(STEP, len(changes), len(changes))
    reason = f"{counted(len(plan.create), 'tag')} set, {len(plan.drop)} taken away"
    return Outcome(reason, True, plan.entries, Gain(refs=len(plan.drop)), Cost(api_calls=3 * len(changes)))


def statements(name: str, plan: TagPlan) -> list[str]:
    """The SQL of a plan; doing it twice does no harm."""
    return [
        *(
            f"ALTER TABLE {name} CREATE TAG IF NOT EXISTS {quoted(tag.name)} AS OF VERSION {tag.snapshot_id} "
            f"RETAIN {tag.retain_hours} HOURS"
            for tag in plan.create
        ),
        *(f"ALTER TABLE {name} DROP TAG IF EXISTS {quoted(tag)}" for tag in plan.drop),
    ]


def _told(plan: TagPlan) -> Outcome:
    if not (plan.create or plan.drop):
        return Outcome("no tag is due, and none is past its time", False, plan.entries)
    reason = f"due: {counted(len(plan.create), 'tag')}; past their time: {len(plan.drop)}"
    return Outcome(reason, False, plan.entries, Gain(refs=len(plan.drop)))
