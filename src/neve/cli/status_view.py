"""Render a status report for a terminal: parts, queues, jobs, pauses and lag as tables, and the terminal itself.

Imports rich, so commands import this module only when they run.
"""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from neve.app.serve.part import find_problem
from neve.cli.output import escape_controls, screen_width, word_width
from neve.text import format_age, format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import JustifyMethod, RenderableType

    from neve.app.reports import JobReport, LagsReport, RulesReport, ServePartReport, StatusReport, TailReport


DEFAULT_WIDTH = 160  # without a terminal


def console() -> Console:
    """Return a console on standard output: as wide as the terminal, or of the default width without one."""
    return Console(width=None if sys.stdout.isatty() else screen_width(DEFAULT_WIDTH), highlight=False)


def draw(view: RenderableType) -> None:
    """Print the status once."""
    console().print(view)


@contextmanager
def keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for a key press; it returns "" without one or without a terminal."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # keys that were already pressed count
    try:
        yield _wait_for_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wait_for_key(seconds: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") if ready else ""


def _sleep(seconds: float) -> str:
    time.sleep(seconds)
    return ""


Cell = str | Text | ProgressBar


def make_grid(headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Sequence[int] = ()) -> Table:
    """Return a table of cells below headers; columns in `right` hold numbers."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    lines = [tuple(row) for row in rows]
    for position, header in enumerate(headers):
        texts = [
            cell if isinstance(cell, str) else cell.plain
            for row in lines
            if not isinstance(cell := row[position], ProgressBar)
        ]
        # The first column is copied: an id must not be broken into two lines.
        justify: JustifyMethod = "right" if position in right else "left"
        drawn.add_column(
            header,
            justify=justify,
            overflow="fold",
            no_wrap=position == 0,
            min_width=word_width([header, *texts]),
        )
    for row in lines:
        drawn.add_row(*(Text(escape_controls(cell)) if isinstance(cell, str) else cell for cell in row))
    return drawn


def lags_view(lags: LagsReport) -> Table:
    """Return a row for the lag of each zone, table, level and selector, and for each that could not be read."""
    rows: list[Sequence[Cell]] = [
        (
            f"raw zone, {zone.zone}",
            format_duration(zone.oldest_seconds if zone.segments else 0),
            f"{format_count(zone.segments, 'segment')} of {format_bytes(zone.bytes)} wait"
            if zone.segments
            else "empty",
        )
        for zone in lags.zones
    ]
    rows += [
        (one.table, format_duration(one.age_seconds), "since the last commit") for one in lags.tables if one.last_commit
    ]
    rows += [
        (
            one.table,
            format_duration(one.lag_seconds),
            _format_rollup_lag(one.commits_behind, one.closed_until, one.note),
        )
        for one in lags.rollups
    ]
    if lags.tail is not None:
        rows.append(("tail sampling", "", _format_tail_lag(lags.tail)))
    if lags.rules is not None:
        rows.append(("rules", format_duration(lags.rules.lag_seconds), _format_rules(lags.rules)))
    rows += [(Text("unknown", style="red"), "", one) for one in lags.unknown]
    return make_grid(("source", "lag", "details"), rows, right=(1,))


def _format_rollup_lag(commits: int | None, until: str, note: str) -> str:
    parts = [
        f"final until {until}" if until else "",
        format_count(commits, "commit") + " behind" if commits else "",
        note,
    ]
    return ", ".join(part for part in parts if part)


def _format_tail_lag(tail: TailReport) -> str:
    behind = f", unread commits of spans: {tail.behind}" if tail.behind else ""
    cycle = f"cycle {tail.cycle:,} at {tail.last_cycle}" if tail.last_cycle else "never run"
    found = f"{cycle}, {format_count(tail.open_traces, 'open trace')}{behind}"
    return "; ".join([found, *tail.destinations])


def _format_rules(rules: RulesReport) -> str:
    failing = f", {rules.failing:,} failing" if rules.failing else ""
    return (
        f"{format_count(rules.groups, 'group')}{failing}, {rules.firing:,} firing and {rules.pending:,} pending alerts"
    )


BAR_WIDTHS = (8, 16)  # in a narrow and in a wide terminal
WIDE = 120
UNHEALTHY_STATES = ("failed", "no heartbeat")
STYLES = {"running": "green", "draining": "yellow", **dict.fromkeys(UNHEALTHY_STATES, "red")}


def status_view(status: StatusReport) -> Group:
    """Return the whole report; ended jobs come last, because the list may be longer than the screen."""
    return Group(
        Text(headline(status), style="bold"),
        *_section("parts", _parts(status)),
        *_section("organizations: data received since the receiver started", _organizations(status)),
        *_section("queries: bytes of files that each organization read today (UTC)", _query_usage(status)),
        *_section("queues", _queues(status)),
        *_section("running", _running_jobs(status)),
        *_section("dead: all attempts failed, `neve jobs replay ID` retries", _dead_jobs(status)),
        *_section("paused: `neve jobs resume ID` resumes", _pauses(status)),
        *_section("lag", lags_view(status.lags)),
        *_section("ended last", _ended_jobs(status)),
    )


def failure_view(message: str) -> RenderableType:
    """Return the view of a failed status request."""
    return Text(escape_controls(f"no status: {message}"), style="red")


def headline(status: StatusReport) -> str:
    """Return a one-line summary."""
    failed = sum(part.state in UNHEALTHY_STATES or bool(_health_problem(part)) for part in status.parts)
    counts = [
        f"{format_count(len(status.parts), 'part')}{f' ({failed} unhealthy)' if failed else ''}",
        f"{sum(one.queued for one in status.queues):,} queued",
        f"{sum(one.running for one in status.queues):,} running",
        f"{sum(one.dead for one in status.queues):,} dead",
        *([f"{len(status.pauses):,} paused"] if status.pauses else []),
    ]
    return f"{status.at:%Y-%m-%d %H:%M:%S} UTC: {', '.join(counts)}"


def _section(title: str, drawn: RenderableType | None) -> Iterator[RenderableType]:
    if drawn is not None:
        yield Text(f"\n{title}", style="bold cyan")
        yield drawn


def _parts(status: StatusReport) -> RenderableType:
    if not status.parts:
        return Text("no service is running: `neve serve` starts one", style="dim")
    several = len({part.instance for part in status.parts}) > 1
    rows = [
        (
            f"{part.instance} {part.process}" if several else part.process,
            *(part.name, _state(part)),
            *(format_age(part.since, status.at), f"{part.restarts:,}", _format_details(part)),
        )
        for part in status.parts
    ]
    return make_grid(("process", "part", "state", "since", "restarts", "details"), rows, right=(4,))


def _state(part: ServePartReport) -> Text:
    if _health_problem(part):
        return Text(f"{part.state}, degraded", style="red")
    return Text(escape_controls(part.state), style=STYLES.get(part.state, ""))


def _health_problem(part: ServePartReport) -> str:
    return find_problem(part.state, part.details)


def _format_details(part: ServePartReport) -> str:
    if found := _health_problem(part) or part.error:
        return found
    told = ((name, value) for name, value in part.details.items() if not isinstance(value, dict | list | None))
    return ", ".join(_format_detail(name, value) for name, value in told)


IDENTIFIERS = ("pid",)  # numbers that count nothing


def _format_detail(name: str, value: object) -> str:
    """Format one detail of a part.

    >>> _format_detail("lag_seconds", 1.25), _format_detail("leader", True), _format_detail("batches", 3000)
    ('lag 1.25 s', 'leader yes', 'batches 3,000')
    >>> _format_detail("pid", 19487)
    'pid 19487'
    """
    words = name.removesuffix("_seconds").replace("_", " ")
    if isinstance(value, bool):
        return f"{words} {'yes' if value else 'no'}"
    if isinstance(value, int | float) and name not in IDENTIFIERS:
        return f"{words} {format_duration(value) if name.endswith('_seconds') else f'{value:,}'}"
    return f"{words} {value}"


def _organizations(status: StatusReport) -> RenderableType | None:
    """Return request counts of organizations from the receivers; the details of their parts have the same numbers."""
    rows = [
        (
            f"{part.instance} {one['organization']}" if several else str(one["organization"]),
            format_bytes(one["bytes"]),
            *(f"{one[name]:,}" for name in ("records", "refused")),
            format_bytes(one["backlog_bytes"]),
        )
        for several in [len({part.instance for part in status.parts if part.details.get("organizations")}) > 1]
        for part in status.parts
        for one in part.details.get("organizations") or ()
    ]
    if not rows:
        return None
    return make_grid(("organization", "received", "records", "over quota", "waiting"), rows, right=(1, 2, 3, 4))


def _query_usage(status: StatusReport) -> RenderableType | None:
    if not status.query_usage:
        return None
    return make_grid(
        ("organization", "read"),
        [(one.organization, format_bytes(one.bytes)) for one in status.query_usage],
        right=(1,),
    )


def _queues(status: StatusReport) -> RenderableType:
    rows = [
        (one.task, f"{one.queued:,}", format_duration(one.oldest_seconds), f"{one.running:,}", f"{one.dead:,}")
        for one in status.queues
    ]
    return make_grid(("task", "queued", "oldest", "running", "dead"), rows, right=(1, 2, 3, 4))


def _running_jobs(status: StatusReport) -> RenderableType | None:
    if not status.running:
        return None
    rows = [
        (*_job_cells(job), format_age(job.started, status.at), progress_cell(job), _step(job), job.reason)
        for job in status.running
    ]
    return make_grid(("job", "task", "table", "running", "progress", "step", "reason"), rows)


def progress_cell(job: JobReport) -> Cell:
    """Return the progress of a job; empty if it is unknown."""
    if not job.progress.total:
        return ""
    width = BAR_WIDTHS[screen_width(DEFAULT_WIDTH) >= WIDE]
    return ProgressBar(total=job.progress.total, completed=min(job.progress.done, job.progress.total), width=width)


def _step(job: JobReport) -> str:
    counted = f"{job.progress.done:,} of {job.progress.total:,}" if job.progress.total else ""
    return " ".join(word for word in ("stopping:" if job.cancel else "", job.progress.step, counted) if word)


def _ended_jobs(status: StatusReport) -> RenderableType | None:
    if not status.ended:
        return None
    rows = [
        (*_job_cells(job), f"{format_age(job.ended, status.at)} ago", _outcome(job), job.reason) for job in status.ended
    ]
    return make_grid(("job", "task", "table", "ended", "outcome", "reason"), rows)


def _outcome(job: JobReport) -> str:
    return job.outcome if job.state == "done" else f"{job.state}: {job.outcome}".removesuffix(": ")


def _dead_jobs(status: StatusReport) -> RenderableType | None:
    if not status.dead:
        return None
    rows = [
        (*_job_cells(job), f"{format_age(job.ended, status.at)} ago", f"{job.attempts:,}", _error_text(job))
        for job in status.dead
    ]
    return make_grid(("job", "task", "table", "failed", "attempts", "error"), rows, right=(4,))


def _error_text(job: JobReport) -> Text:
    return Text(escape_controls(f"{job.error}\nhint: {job.hint}" if job.hint else job.error), style="red")


def _pauses(status: StatusReport) -> RenderableType | None:
    if not status.pauses:
        return None
    rows = [
        (
            *(one.id, one.task or "every task", one.tables, f"{one.until:%Y-%m-%d %H:%M} UTC" if one.until else ""),
            *(one.by, one.reason),
        )
        for one in status.pauses
    ]
    return make_grid(("pause", "task", "tables", "until", "by", "reason"), rows)


def _job_cells(job: JobReport) -> tuple[str, str, str]:
    return job.id, job.task, f"{job.table} {job.window}".strip() or "all tables"
