"""`neve jobs` and `neve policies`: list, start, cancel, replay and pause jobs; show, set and clear policies.

Also opens the control of the configured lake for the commands that operate it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import escape_controls, json_option, print_json, print_note, print_table, print_text
from neve.cli.time_options import TimeParam

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.app.control import Control
    from neve.cli.context import Context
    from neve.jobs.job import Job
    from neve.jobs.pauses import Pause
    from neve.jobs.policies import PolicyStore


SCHEDULED_TASKS = ("compact", "maintain", "rollup", "search", "series", "traces", "autopilot")
TASKS = (*SCHEDULED_TASKS, "simulate", "layout")


@contextmanager
def open_lake_control(context: Context) -> Iterator[Control]:
    """Return the control of the lake that the configuration describes."""
    from neve.lake.pandas_import import defer_pandas

    defer_pandas()
    from neve.app.control import open_control

    with open_control(context.settings, context.lake) as control:
        yield control


def job_document(job: Job) -> dict[str, object]:
    """Return a job as a JSON document."""
    from neve.app.reports import JobReport

    return JobReport.model_validate(job).plain


@click.command()
@click.argument("task", type=click.Choice(SCHEDULED_TASKS))
@click.argument("name", metavar="[TABLE]", required=False)
@click.option(
    "--window", default="", metavar="DAY", help="Only this day of the table, such as 2026-01-31; for compact."
)
@click.option("--reason", help="Reason, shown in `neve jobs`.")
@json_option
@click.pass_obj
def start(context: Context, task: str, name: str | None, window: str, reason: str | None, as_json: bool) -> None:
    """Queue a job for `neve serve`. A job that is already queued is not queued twice.

    TABLE is the table that the job writes. The autopilot needs none.

    \b
    Examples:
      neve jobs start compact spans
      neve jobs start rollup metrics_1m --reason "late points"
      neve jobs start autopilot
    """
    from neve.jobs.job import Task
    from neve.state.audit import current_user, record_command

    with open_lake_control(context) as control:
        job = control.start(Task(task), name or "", window, reason=reason or f"requested by {current_user()}")
        record_command(control.documents, "job.start", job.id, job=job.subject, reason=job.reason)
    _show_job(job, "wanted", as_json=as_json)


@click.command()
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_obj
def cancel(context: Context, job_id: str, as_json: bool) -> None:
    """Cancel a queued or running job. A running job stops when its worker notices.

    \b
    Example:
      neve jobs cancel 06491c22d4f80a1b2c
    """
    from neve.state.audit import record_command

    with open_lake_control(context) as control:
        job = control.jobs.cancel(job_id)
        record_command(control.documents, "job.cancel", job.id, job=job.subject)
    _show_job(job, "being cancelled" if job.state.is_open else "cancelled", as_json=as_json)


@click.command(short_help="Retry a job that failed or was cancelled.")
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_obj
def replay(context: Context, job_id: str, as_json: bool) -> None:
    """Retry a job that failed all attempts or was cancelled, with its attempts reset.

    \b
    Example:
      neve jobs replay 06491c22d4f80a1b2c
    """
    from neve.state.audit import record_command

    with open_lake_control(context) as control:
        job = control.jobs.replay(job_id)
        record_command(control.documents, "job.replay", job_id, job=job.subject)
    _show_job(job, "wanted again", as_json=as_json)


@click.command()
@click.option("--task", type=click.Choice(SCHEDULED_TASKS), help="Only this task.  [default: all tasks]")
@click.option(
    "--tables", default="*", show_default=True, metavar="PATTERN", help="Filter tables by name; wildcards: * and ?"
)
@click.option(
    "--until", type=TimeParam(), metavar="TIME", help="End of the pause (UTC).  [default: until it is resumed]"
)
@click.option("--reason", default="", help="Reason, shown in `neve status`.")
@json_option
@click.pass_obj
def pause(context: Context, task: str | None, tables: str, until: datetime | None, reason: str, as_json: bool) -> None:
    """Pause the start of new jobs. Running jobs continue. `neve status` lists pauses.

    \b
    Examples:
      neve jobs pause
      neve jobs pause --task maintain --tables "metrics_*" --until 2026-02-01T06:00 --reason migration
    """
    from neve.app.reports import PauseReport
    from neve.jobs.job import Task
    from neve.state.audit import current_user, record_command

    with open_lake_control(context) as control:
        made = control.pause(Task(task) if task else None, tables, by=current_user(), reason=reason, until=until)
        record_command(
            control.documents, "pause.start", made.id, task=task or "all", tables=tables, reason=reason, until=until
        )
    if as_json:
        print_json(PauseReport.model_validate(made).plain)
        return
    print_text(f"{_format_pause(made)} is paused{f' until {made.until:%Y-%m-%d %H:%M} UTC' if made.until else ''}")
    print_text(f"`neve jobs resume {made.id}` resumes it")


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
    from neve.state.audit import record_command

    with open_lake_control(context) as control:
        ended = control.pauses.resume(pause_id)
        record_command(control.documents, "pause.end", pause_id, tables=ended.tables)
    if as_json:
        print_json(PauseReport.model_validate(ended).plain)
        return
    print_text(f"{_format_pause(ended)} is resumed")


def _format_pause(pause: Pause) -> str:
    return f"{pause.task or 'every task'} of {escape_controls(pause.tables)}"


def _show_job(job: Job, done: str, *, as_json: bool) -> None:
    if as_json:
        print_json(job_document(job))
        return
    subject = " ".join(part for part in (job.task.value, job.table, job.window) if part)
    print_text(f"job {job.id} ({escape_controls(subject)}) is {done}")


STATES = ("queued", "running", "done", "cancelled", "dead")


@click.group()
def jobs() -> None:
    """List, start, cancel, replay and pause maintenance jobs.

    Jobs are stored in the state store and run by `neve serve`. A job that is started here waits until one is running.

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
@click.option("--dead", is_flag=True, help="Only jobs that failed all retries.")
@click.option("--task", type=click.Choice(TASKS), help="Only jobs of this task.")
@click.option("--table", "name", metavar="NAME", help="Only jobs of this table.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Number of newest jobs.")
@json_option
@click.pass_obj
def show_all(
    context: Context, state: str | None, dead: bool, task: str | None, name: str | None, limit: int, as_json: bool
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      neve jobs list
      neve jobs list --state running --json
      neve jobs list --dead
    """
    from neve.jobs.job import JobState, Task

    if dead and state not in (None, "dead"):
        raise click.UsageError(f"--dead and --state {state} exclude each other")
    wanted = "dead" if dead else state
    with open_lake_control(context) as control:
        found = control.jobs.list(
            states=[JobState(wanted)] if wanted else [], task=Task(task) if task else None, table=name, limit=limit
        )
    if as_json:
        print_json([job_document(job) for job in found])
        return
    if not found:
        print_text("no matching jobs")
        return
    headers = ("id", "task", "table", "window", "state", "attempts", "wanted", "what")
    print_table(headers, [_job_row(job) for job in found], right=(5,))
    if dead:
        print_text("\n`neve jobs show ID` shows details, `neve jobs replay ID` retries a job")


@jobs.command("show")
@click.argument("job_id", metavar="ID")
@json_option
@click.pass_obj
def show_one(context: Context, job_id: str, as_json: bool) -> None:
    """Show a job in full.

    \b
    Example:
      neve jobs show 06491c22d4f80a1b2c
    """
    from neve.jobs.job import WorkNotFound

    with open_lake_control(context) as control:
        job = control.jobs.get(job_id)
    if job is None:
        raise WorkNotFound(f"there is no job {job_id!r}", hint="`neve jobs list` lists all jobs")
    if as_json:
        print_json(job_document(job))
        return
    print_table(
        ("key", "value"), [(key, str(value)) for key, value in job_document(job).items() if value not in ("", None, {})]
    )


def _job_row(job: Job) -> tuple[str, ...]:
    failed = bool(job.error) and job.state.value in ("dead", "queued")
    often = f" ({job.outcome})" if job.outcome else ""
    what = f"{job.error}{often}" if failed else job.outcome or job.reason
    return (
        *(job.id, job.task.value, job.table, job.window, job.state.value, f"{job.attempts:,}"),
        *(f"{job.created:%Y-%m-%d %H:%M:%S}", what),
    )


@click.group(short_help="Show and set schedules, quiet hours and budgets by table.")
def policies() -> None:
    """Show and set policies by table: schedules, quiet hours and budgets.

    Policies come from the configuration (policies, policies_folder). Policies that are set here are stored in the state
    store and replace all of them, for every `neve serve` of the lake, until they are cleared.

    \b
    Examples:
      neve policies show
      neve policies set policies.yaml
      neve policies clear
    """


@policies.command(short_help="Print the active policies as YAML, with their source.")
@json_option
@click.pass_obj
def show(context: Context, as_json: bool) -> None:
    """Print the active policies as YAML for `neve policies set`, with their source.

    \b
    Example:
      neve policies show > policies.yaml
    """
    with open_lake_control(context) as control:
        document = _policies_document(control.policies)
    if as_json:
        print_json(document)
        return
    import yaml

    print_note(f"{document['source']} (version {document['version']})")
    print_text(yaml.safe_dump({"policies": document["policies"]}, sort_keys=False, allow_unicode=True).rstrip())


@policies.command("set")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--if-version", metavar="VERSION", help="Fail if the active policies have another version.  [default: no check]"
)
@json_option
@click.pass_obj
def put(context: Context, file: str, if_version: str | None, as_json: bool) -> None:
    """Validate the policies of a YAML file and activate them.

    \b
    Examples:
      neve policies set policies.yaml
      neve policies set policies.yaml --if-version 7be5f0c1d2a39486
    """
    from pathlib import Path

    from neve.jobs.policies import Policies, hash_policies, read_policy_file
    from neve.state.audit import current_user, record_command

    with open_lake_control(context) as control:
        store = control.policies
        written = Policies(read_policy_file(Path(file)), store.configured.defaults)
        store.save(written, current_user(), if_version)
        names = ", ".join(one.name for one in written.written)
        record_command(control.documents, "policies.write", hash_policies(store.load()), policies=names)
        for warning in written.warnings(control.lake.table_names()):
            print_note(f"warning: {warning}")
        _show_policies(store, as_json=as_json)


@policies.command()
@click.option(
    "--if-version", metavar="VERSION", help="Fail if the active policies have another version.  [default: no check]"
)
@json_option
@click.pass_obj
def clear(context: Context, if_version: str | None, as_json: bool) -> None:
    """Return to the policies of the configuration.

    \b
    Example:
      neve policies clear
    """
    from neve.state.audit import record_command

    with open_lake_control(context) as control:
        control.policies.clear(if_version)
        record_command(control.documents, "policies.clear")
        _show_policies(control.policies, as_json=as_json)


def _show_policies(store: PolicyStore, *, as_json: bool) -> None:
    document = _policies_document(store)
    if as_json:
        print_json(document)
        return
    names = [one["name"] for one in document["policies"]]
    print_text(f"{', '.join(names) or 'no policies'}: {document['source']} (version {document['version']})")


def _policies_document(store: PolicyStore) -> dict[str, Any]:
    from neve.jobs.policies import hash_policies

    held = store.load()
    return {"source": store.source(), "version": hash_policies(held), "policies": held.plain}
