"""Which tags are due and which are past their time: a pure function of snapshots, tags and the time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from neve.lake.calendar import Unit, ordinal, start
from neve.maintain.entry import KEEP, Entry
from neve.maintain.snapshots import Ref, Snapshot, ancestors, head_of, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

CREATE, DROP, SKIP = "create", "drop", "skip"
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Series:
    """Tags of one kind: how they are named, and how many are kept."""

    name: str
    unit: Unit
    form: str
    keep: int

    def tag(self, moment: datetime) -> str:
        """The name of the tag that shows the table as it was at a moment."""
        return f"neve-{self.name}-{moment.strftime(self.form)}"

    def moment(self, tag: str) -> datetime | None:
        """The moment of one of this series' tags; none for any other."""
        prefix = f"neve-{self.name}-"
        if not re.fullmatch(re.escape(prefix) + r"[0-9T-]+", tag):
            return None
        try:
            found = datetime.strptime(tag.removeprefix(prefix), self.form).replace(tzinfo=UTC)
        except ValueError:
            return None
        return found if self.tag(found) == tag else None

    def ends(self, moment: datetime) -> datetime:
        """When a tag is past its time."""
        return start(self.unit, ordinal(self.unit, moment) + self.keep)


def all_series(hourly: int, daily: int, monthly: int) -> tuple[Series, ...]:
    """The three series, with how many of each are kept."""
    return (
        Series("hourly", "hour", "%Y-%m-%dT%H", hourly),
        Series("daily", "day", "%Y-%m-%d", daily),
        Series("monthly", "month", "%Y-%m", monthly),
    )


@dataclass(frozen=True)
class NewTag:
    """A tag to set; its age counts from its snapshot, so what that is old already comes on top."""

    name: str
    snapshot_id: int
    retain_hours: int


@dataclass(frozen=True)
class TagPlan:
    """What to set and what to take away."""

    create: tuple[NewTag, ...]
    drop: tuple[str, ...]
    entries: tuple[Entry, ...]


def plan_tags(snapshots: Sequence[Snapshot], refs: Sequence[Ref], series: Sequence[Series], now: datetime) -> TagPlan:
    """Of each series the tag of the last full hour, day or month; a user's own tags are not touched."""
    line = list(ancestors(snapshots, head_of(refs)))
    there = {ref.name for ref in refs}
    create: list[NewTag] = []
    entries: list[Entry] = []
    for one in series:
        new, entry = _due(one, line, there, now)
        create += [new] if new else []
        entries += [entry] if entry else []
    past = [(ref.name, ends) for ref in refs if not ref.is_branch and (ends := _ended(ref.name, series, now))]
    entries += [Entry(DROP, f"tag {name}", f"its time ended {shown(ends)}") for name, ends in past]
    return TagPlan(tuple(create), tuple(name for name, _ in past), tuple(entries))


def _due(series: Series, line: list[Snapshot], there: set[str], now: datetime) -> tuple[NewTag | None, Entry | None]:
    if not series.keep:
        return None, None
    boundary = start(series.unit, ordinal(series.unit, now))
    name = series.tag(boundary)
    if name in there:
        return None, Entry(KEEP, f"tag {name}", "it is there already")
    snapshot = next((one for one in line if one.at < boundary), None)
    if snapshot is None:
        return None, Entry(SKIP, f"tag {name}", "the table had no snapshot then")
    hours = -((snapshot.at - series.ends(boundary)) // HOUR)
    reason = f"the table as it was at {shown(boundary)}: snapshot {snapshot.id} of {shown(snapshot.at)}"
    return NewTag(name, snapshot.id, hours), Entry(CREATE, f"tag {name}", reason)


def _ended(tag: str, series: Sequence[Series], now: datetime) -> datetime | None:
    """When one of Neve's own tags ended, if it has."""
    for one in series:
        moment = one.moment(tag)
        if moment is not None and one.ends(moment) <= now:
            return one.ends(moment)
    return None
