"""What is behind, drawn for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from neve.cli.drawing import duration, grid
from neve.cli.output import many, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from neve.app.reports import LagsReport, TailReport
    from neve.cli.drawing import Cell


def lags_view(lags: LagsReport) -> Table:
    """A line for each zone, table, level and selector, and for what could not be looked at."""
    rows: list[Sequence[Cell]] = [
        (
            f"raw zone, {zone.zone}",
            duration(zone.oldest_seconds),
            f"{many(zone.segments, 'segment')} of {size(zone.bytes)} wait" if zone.segments else "nothing waits",
        )
        for zone in lags.zones
    ]
    rows += [(one.table, duration(one.age_seconds), "since the last commit") for one in lags.tables if one.last_commit]
    rows += [
        (one.table, duration(one.lag_seconds), _level(one.commits_behind, one.closed_until, one.note))
        for one in lags.rollups
    ]
    if lags.tail is not None:
        rows.append(("tail sampling", "", _tail(lags.tail)))
    rows += [(Text("unknown", style="red"), "", one) for one in lags.unknown]
    return grid(("what", "lag", "which is"), rows, right=(1,))


def _level(commits: int | None, until: str, note: str) -> str:
    parts = [f"final until {until}" if until else "", many(commits, "commit") + " behind" if commits else "", note]
    return ", ".join(part for part in parts if part)


def _tail(tail: TailReport) -> str:
    behind = f", commits of spans not seen: {tail.behind}" if tail.behind else ""
    found = f"cycle {tail.cycle:,} at {tail.last_cycle or 'never'}, {many(tail.open_traces, 'open trace')}{behind}"
    return "; ".join([found, *tail.destinations])
