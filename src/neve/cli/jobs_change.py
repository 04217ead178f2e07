"""`neve jobs start`, `cancel`, `replay`, `pause` and `resume`: what a person changes about jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.controlling import TASKS, controlling, job_document, user
from neve.cli.moment import Moment
from neve.cli.output import emit, json_option, say, visible

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.work.job import Job
    from neve.work.pauses import Pause


@click.command()
@click.argument("task", type=click.Choice(TASKS))
@click.argument("name", metavar="[TABLE]", required=False)
@click.option("--window", default="", metavar="DAY", help="Only this day of the table, as 2026-01-31; for compact.")
@click.option("--reason", help="Why, for those who look later.")
@json_option
@click.pass_obj
def start(context: Context, task: str, name: str | None, window: str, reason: str | None, as_json: bool) -> None:
    """Have something done now, by a `neve serve`. What is wanted already is not wanted twice.

    TABLE is the one that is written; of autopilot there is none.

    \b
    Examples:
      neve jobs start compact spans
      neve jobs start rollup metrics_1m --reason "late points"
      neve jobs start autopilot
    """
    from neve.work.task import Task

    with controlling(context) as control:
        job = control.start(Task(task), name or "", window, reason=reason or f"asked for by {user()}")
    _tell(job, "wanted", as_json=as_json)


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_obj
def cancel(context: Context, job_id: str, as_json: bool) -> None:
    """End a job that waits or runs; one that runs ends when its worker sees it.

    \b
    Example:
      neve jobs cancel 06491c22d4f80a1b2c
    """
    with controlling(context) as control:
        job = control.jobs.cancel(job_id)
    _tell(job, "told to stop" if job.state.is_open else "cancelled", as_json=as_json)


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_obj
def replay(context: Context, job_id: str, as_json: bool) -> None:
    """Try a job again that is dead or was cancelled, as if it had never been tried.

    \b
    Example:
      neve jobs replay 06491c22d4f80a1b2c
    """
    with controlling(context) as control:
        job = control.jobs.replay(job_id)
    _tell(job, "wanted again", as_json=as_json)


@click.command()
@click.option("--task", type=click.Choice(TASKS), help="Only this task.  [default: every task]")
@click.option("--tables", default="*", show_default=True, metavar="PATTERN", help="Only tables of this pattern.")
@click.option("--until", type=Moment(), metavar="TIME", help="Until this time (UTC).  [default: until it is resumed]")
@click.option("--reason", default="", help="Why, for those who wonder.")
@json_option
@click.pass_obj
def pause(context: Context, task: str | None, tables: str, until: datetime | None, reason: str, as_json: bool) -> None:
    """Let no more work begin; what runs goes on. `neve status` shows what is paused.

    \b
    Examples:
      neve jobs pause
      neve jobs pause --task maintain --tables "metrics_*" --until 2026-02-01T06:00 --reason migration
    """
    from neve.app.reports import PauseReport
    from neve.work.task import Task

    with controlling(context) as control:
        made = control.pause(Task(task) if task else None, tables, by=user(), reason=reason, until=until)
    if as_json:
        emit(PauseReport.model_validate(made).plain)
        return
    say(f"{_held(made)} is paused{f' until {made.until:%Y-%m-%d %H:%M} UTC' if made.until else ''}")
    say(f"`neve jobs resume {made.id}` lets it go on")


@click.command()
@click.argument("pause_id", metavar="ID")
@json_option
@click.pass_obj
def resume(context: Context, pause_id: str, as_json: bool) -> None:
    """End a pause.

    \b
    Example:
      neve jobs resume 06491c22d4f80a1b2c
    """
    from neve.app.reports import PauseReport

    with controlling(context) as control:
        ended = control.pauses.resume(pause_id)
    if as_json:
        emit(PauseReport.model_validate(ended).plain)
        return
    say(f"{_held(ended)} goes on")


def _held(pause: Pause) -> str:
    return f"{pause.task or 'every task'} of {visible(pause.tables)}"


def _tell(job: Job, done: str, *, as_json: bool) -> None:
    if as_json:
        emit(job_document(job))
        return
    subject = " ".join(part for part in (job.task.value, job.table, job.window) if part)
    say(f"job {job.id} ({visible(subject)}) is {done}")
