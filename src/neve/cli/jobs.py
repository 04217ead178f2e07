"""`neve jobs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.controlling import TASKS, controlling, job_document
from neve.cli.jobs_change import cancel, pause, replay, resume, start
from neve.cli.output import emit, json_option, say, table

if TYPE_CHECKING:
    from neve.cli.context import Context
    from neve.work.job import Job

STATES = ("queued", "running", "done", "cancelled", "dead")


@click.group()
def jobs() -> None:
    """The work that tends the lake: what waits, runs, ended or was given up; start, cancel, replay, pause.

    Jobs are in the state store, and `neve serve` does them: what is started here waits for one that runs.

    \b
    Examples:
      neve jobs list --dead
      neve jobs start compact spans --window 2026-01-31
      neve jobs replay 06491c22d4f80a1b2c
      neve jobs pause --task maintain --until 2026-02-01T06:00 --reason migration
    """


for command in (start, cancel, replay, pause, resume):
    jobs.add_command(command)


@jobs.command("list")
@click.option("--state", type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("--dead", is_flag=True, help="Only those whose every attempt failed: they wait for a person.")
@click.option("--task", type=click.Choice(TASKS), help="Only jobs of this task.")
@click.option("--table", "name", metavar="NAME", help="Only jobs of this table.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many of the newest.")
@json_option
@click.pass_obj
def show_all(
    context: Context, state: str | None, dead: bool, task: str | None, name: str | None, limit: int, as_json: bool
) -> None:
    """Jobs, the newest first.

    \b
    Examples:
      neve jobs list
      neve jobs list --state running --json
      neve jobs list --dead
    """
    from neve.work.job import JobState
    from neve.work.task import Task

    if dead and state not in (None, "dead"):
        raise click.UsageError(f"--dead and --state {state} exclude each other")
    wanted = "dead" if dead else state
    with controlling(context) as control:
        found = control.jobs.list(
            states=[JobState(wanted)] if wanted else [], task=Task(task) if task else None, table=name, limit=limit
        )
    if as_json:
        emit([job_document(job) for job in found])
        return
    if not found:
        say("there are no such jobs")
        return
    headers = ("id", "task", "table", "window", "state", "attempts", "wanted", "what")
    table(headers, [_row(job) for job in found], right=(5,))
    if dead:
        say("\n`neve jobs show ID` says more, `neve jobs replay ID` tries again")


@jobs.command("show")
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_obj
def show_one(context: Context, job_id: str, as_json: bool) -> None:
    """All that is known of a job.

    \b
    Example:
      neve jobs show 06491c22d4f80a1b2c
    """
    from neve.work.refusals import WorkMissing

    with controlling(context) as control:
        job = control.jobs.get(job_id)
    if job is None:
        raise WorkMissing(f"there is no job {job_id!r}", hint="`neve jobs list` lists those that there are")
    if as_json:
        emit(job_document(job))
        return
    table(
        ("key", "value"), [(key, str(value)) for key, value in job_document(job).items() if value not in ("", None, {})]
    )


def _row(job: Job) -> tuple[str, ...]:
    failed = bool(job.error) and job.state.value in ("dead", "queued")
    often = f" ({job.outcome})" if job.outcome else ""
    what = f"{job.error}{often}" if failed else job.outcome or job.reason
    return (
        *(job.id, job.task.value, job.table, job.window, job.state.value, f"{job.attempts:,}"),
        *(f"{job.created:%Y-%m-%d %H:%M:%S}", what),
    )
