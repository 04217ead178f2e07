"""How the lake and those who tend it are, drawn for a terminal: a report in, things to print out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.text import Text

from neve.app.serve.sight import ailment
from neve.cli.drawing import duration, grid, since
from neve.cli.lags_view import lags_view
from neve.cli.output import many, size, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from neve.app.reports import JobReport, ServePartReport, StatusReport
    from neve.cli.drawing import Cell

BAR_WIDTH = 16
NOT_WELL = ("failed", "lost")
STYLES = {"running": "green", "draining": "yellow", **dict.fromkeys(NOT_WELL, "red")}


def status_view(status: StatusReport) -> Group:
    """Everything; what ended comes last, for it may be long and a screen is short."""
    return Group(
        Text(headline(status), style="bold"),
        *_section("parts", _parts(status)),
        *_section("organizations: what each sent since its receiver started", _organizations(status)),
        *_section("queries: bytes of files that each organization read today (UTC)", _query_usage(status)),
        *_section("queues", _queues(status)),
        *_section("running", _running(status)),
        *_section("dead: every attempt failed, `neve jobs replay ID` tries again", _dead(status)),
        *_section("paused: `neve jobs resume ID` goes on", _pauses(status)),
        *_section("behind", lags_view(status.lags)),
        *_section("ended last", _ended(status)),
    )


def failure_view(message: str) -> RenderableType:
    """In the place of a status that can't be had."""
    return Text(visible(f"no status: {message}"), style="red")


def headline(status: StatusReport) -> str:
    """The whole in a line."""
    failed = sum(part.state in NOT_WELL or bool(_ailment(part)) for part in status.parts)
    counts = [
        f"{many(len(status.parts), 'part')}{f' ({failed} not well)' if failed else ''}",
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
        return Text("none has said anything: `neve serve` starts them", style="dim")
    several = len({part.instance for part in status.parts}) > 1
    rows = [
        (
            f"{part.instance} {part.process}" if several else part.process,
            *(part.name, _state(part)),
            *(since(part.since, status.at), f"{part.restarts:,}", _told(part)),
        )
        for part in status.parts
    ]
    return grid(("process", "part", "state", "for", "restarts", "says"), rows, right=(4,))


def _state(part: ServePartReport) -> Text:
    if _ailment(part):
        return Text(f"{part.state}, ill", style="red")
    return Text(visible(part.state), style=STYLES.get(part.state, ""))


def _ailment(part: ServePartReport) -> str:
    return ailment(part.state, part.details)


def _told(part: ServePartReport) -> str:
    if found := _ailment(part) or part.error:
        return found
    told = ((name, value) for name, value in part.details.items() if not isinstance(value, dict | list | None))
    return ", ".join(_detail(name, value) for name, value in told)


def _detail(name: str, value: object) -> str:
    """One thing that a part tells, as people say it.

    >>> _detail("lag_seconds", 1.25), _detail("leader", True), _detail("batches", 3)
    ('lag 1 s', 'leader yes', 'batches 3')
    """
    words = name.removesuffix("_seconds").replace("_", " ")
    if isinstance(value, bool):
        return f"{words} {'yes' if value else 'no'}"
    if isinstance(value, int | float):
        return f"{words} {duration(value) if name.endswith('_seconds') else f'{value:,}'}"
    return f"{words} {value}"


def _organizations(status: StatusReport) -> RenderableType | None:
    """What the receivers say of those who send; the same numbers are in the details of their parts."""
    rows = [
        (
            f"{part.instance} {one['organization']}" if several else str(one["organization"]),
            size(one["bytes"]),
            *(f"{one[name]:,}" for name in ("records", "refused")),
            size(one["backlog_bytes"]),
        )
        for several in [len({part.instance for part in status.parts if part.details.get("organizations")}) > 1]
        for part in status.parts
        for one in part.details.get("organizations") or ()
    ]
    if not rows:
        return None
    return grid(("organization", "received", "records", "over quota", "waiting"), rows, right=(1, 2, 3, 4))


def _query_usage(status: StatusReport) -> RenderableType | None:
    if not status.query_usage:
        return None
    return grid(
        ("organization", "read"), [(one.organization, size(one.bytes)) for one in status.query_usage], right=(1,)
    )


def _queues(status: StatusReport) -> RenderableType:
    rows = [
        (one.task, f"{one.queued:,}", duration(one.oldest_seconds), f"{one.running:,}", f"{one.dead:,}")
        for one in status.queues
    ]
    return grid(("task", "queued", "oldest", "running", "dead"), rows, right=(1, 2, 3, 4))


def _running(status: StatusReport) -> RenderableType | None:
    if not status.running:
        return None
    rows = [(*_named(job), since(job.started, status.at), bar(job), _step(job), job.reason) for job in status.running]
    return grid(("job", "task", "of", "for", "progress", "step", "because"), rows)


def bar(job: JobReport) -> Cell:
    """How far a job is; nothing where nobody knows."""
    if not job.progress.total:
        return ""
    return ProgressBar(total=job.progress.total, completed=min(job.progress.done, job.progress.total), width=BAR_WIDTH)


def _step(job: JobReport) -> str:
    counted = f"{job.progress.done:,} of {job.progress.total:,}" if job.progress.total else ""
    return " ".join(word for word in ("stopping:" if job.cancel else "", job.progress.step, counted) if word)


def _ended(status: StatusReport) -> RenderableType | None:
    if not status.ended:
        return None
    rows = [(*_named(job), f"{since(job.ended, status.at)} ago", _outcome(job), job.reason) for job in status.ended]
    return grid(("job", "task", "of", "ended", "outcome", "because"), rows)


def _outcome(job: JobReport) -> str:
    return job.outcome if job.state == "done" else f"{job.state}: {job.outcome}".removesuffix(": ")


def _dead(status: StatusReport) -> RenderableType | None:
    if not status.dead:
        return None
    rows = [
        (*_named(job), f"{since(job.ended, status.at)} ago", f"{job.attempts:,}", _error(job)) for job in status.dead
    ]
    return grid(("job", "task", "of", "died", "attempts", "error"), rows, right=(4,))


def _error(job: JobReport) -> Text:
    return Text(visible(f"{job.error}\nhint: {job.hint}" if job.hint else job.error), style="red")


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
    return grid(("pause", "task", "tables", "until", "by", "because"), rows)


def _named(job: JobReport) -> tuple[str, str, str]:
    return job.id, job.task, f"{job.table} {job.window}".strip() or "all tables"
