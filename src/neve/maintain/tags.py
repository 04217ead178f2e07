"""Set the hourly, daily and monthly tags that are due, and drop those of Neve's own that are expired."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from neve.lake.calendar import Unit, from_ordinal, to_ordinal
from neve.maintain.procedures import quote_name
from neve.maintain.snapshots import Ref, Snapshot, ancestors, format_time, head_of, refs_of, snapshots_of
from neve.maintain.step import KEEP, Cost, Entry, Gain, Outcome
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.maintain.step import StepContext


CREATE, DROP, SKIP = "create", "drop", "skip"
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Series:
    """Tags of one kind: their names, and the number that is kept."""

    name: str
    unit: Unit
    form: str
    keep: int

    def tag(self, moment: datetime) -> str:
        """Return the name of the tag for the table's state at a moment."""
        return f"neve-{self.name}-{moment.strftime(self.form)}"

    def moment(self, tag: str) -> datetime | None:
        """Return the moment of a tag of this series, or nothing for any other tag."""
        prefix = f"neve-{self.name}-"
        if not re.fullmatch(re.escape(prefix) + r"[0-9T-]+", tag):
            return None
        try:
            found = datetime.strptime(tag.removeprefix(prefix), self.form).replace(tzinfo=UTC)
        except ValueError:
            return None
        return found if self.tag(found) == tag else None

    def ends(self, moment: datetime) -> datetime:
        """Return the expiry time of a tag."""
        return from_ordinal(self.unit, to_ordinal(self.unit, moment) + self.keep)


def make_series(hourly: int, daily: int, monthly: int) -> tuple[Series, ...]:
    """Return the three series, with the number of tags that each keeps."""
    return (
        Series("hourly", "hour", "%Y-%m-%dT%H", hourly),
        Series("daily", "day", "%Y-%m-%d", daily),
        Series("monthly", "month", "%Y-%m", monthly),
    )


@dataclass(frozen=True)
class NewTag:
    """A tag to set. Its age counts from its snapshot, so the current age of the snapshot is added."""

    name: str
    snapshot_id: int
    retain_hours: int


@dataclass(frozen=True)
class TagPlan:
    """Tags to set and tags to drop."""

    create: tuple[NewTag, ...]
    drop: tuple[str, ...]
    entries: tuple[Entry, ...]


def plan_tags(snapshots: Sequence[Snapshot], refs: Sequence[Ref], series: Sequence[Series], now: datetime) -> TagPlan:
    """Plan the tag of the last full hour, day or month of each series. Tags of users are not changed."""
    line = list(ancestors(snapshots, head_of(refs)))
    existing = {ref.name for ref in refs}
    create: list[NewTag] = []
    entries: list[Entry] = []
    for one in series:
        new, entry = _find_due(one, line, existing, now)
        create += [new] if new else []
        entries += [entry] if entry else []
    past = [(ref.name, ends) for ref in refs if not ref.is_branch and (ends := _find_end(ref.name, series, now))]
    entries += [Entry(DROP, f"tag {name}", f"it expired {format_time(ends)}") for name, ends in past]
    return TagPlan(tuple(create), tuple(name for name, _ in past), tuple(entries))


def _find_due(
    series: Series, line: list[Snapshot], existing: set[str], now: datetime
) -> tuple[NewTag | None, Entry | None]:
    if not series.keep:
        return None, None
    boundary = from_ordinal(series.unit, to_ordinal(series.unit, now))
    name = series.tag(boundary)
    if name in existing:
        return None, Entry(KEEP, f"tag {name}", "it exists already")
    snapshot = next((one for one in line if one.at < boundary), None)
    if snapshot is None:
        return None, Entry(SKIP, f"tag {name}", "the table had no snapshot then")
    hours = -((snapshot.at - series.ends(boundary)) // HOUR)
    reason = f"the table as it was at {format_time(boundary)}: snapshot {snapshot.id} of {format_time(snapshot.at)}"
    return NewTag(name, snapshot.id, hours), Entry(CREATE, f"tag {name}", reason)


def _find_end(tag: str, series: Sequence[Series], now: datetime) -> datetime | None:
    """Return the expiry time of one of Neve's own tags, if it has expired."""
    for one in series:
        moment = one.moment(tag)
        if moment is not None and one.ends(moment) <= now:
            return one.ends(moment)
    return None


STEP = "tags"


def update_tags(work: StepContext) -> Outcome:
    """Update a table's automatic tags. Tags of users are never changed."""
    config = work.config.tags
    if not config.enabled:
        return Outcome("automatic tags are off (maintain.tags.enabled)")
    table = work.table()
    series = make_series(config.hourly, config.daily, config.monthly)
    plan = plan_tags(snapshots_of(table), refs_of(table), series, work.now)
    if work.dry_run or not (plan.create or plan.drop):
        return _report_plan(plan)
    changes = build_statements(work.lake.spark_name(work.name), plan)
    for done, change in enumerate(changes):
        work.report_progress(STEP, done, len(changes))
        work.check()
        work.lake.spark.sql(change)
    work.report_progress(STEP, len(changes), len(changes))
    reason = f"{format_count(len(plan.create), 'tag')} created, {len(plan.drop)} dropped"
    return Outcome(reason, True, plan.entries, Gain(refs=len(plan.drop)), Cost(api_calls=3 * len(changes)))


def build_statements(name: str, plan: TagPlan) -> list[str]:
    """Return the SQL statements of a plan. They are idempotent."""
    return [
        *(
            f"ALTER TABLE {name} CREATE TAG IF NOT EXISTS {quote_name(tag.name)} AS OF VERSION {tag.snapshot_id} "
            f"RETAIN {tag.retain_hours} HOURS"
            for tag in plan.create
        ),
        *(f"ALTER TABLE {name} DROP TAG IF EXISTS {quote_name(tag)}" for tag in plan.drop),
    ]


def _report_plan(plan: TagPlan) -> Outcome:
    if not (plan.create or plan.drop):
        return Outcome("no tag is due, and none has expired", False, plan.entries)
    reason = f"due: {format_count(len(plan.create), 'tag')}; expired: {len(plan.drop)}"
    return Outcome(reason, False, plan.entries, Gain(refs=len(plan.drop)))
