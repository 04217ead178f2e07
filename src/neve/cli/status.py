"""`neve status`, `neve top` and `neve plan`: service health, queues, running jobs, lag, and the work that comes next.

The status is read from the state store and the catalog, or from a server.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from neve.cli.operator_commands import open_lake_control
from neve.cli.output import json_option, print_json, print_note, print_table, print_text
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from neve.app.control import Forecast
    from neve.app.reports import StatusReport
    from neve.cli.context import Context
    from neve.jobs.forecast import ForecastEntry


server_option = click.option("--server", metavar="ADDRESS", help="Query a server, for example http://127.0.0.1:8480.")
key_option = click.option("--key", envvar="NEVE_API_KEY", help="API key with the scope admin.  [env: NEVE_API_KEY]")


@contextmanager
def open_status(context: Context, server: str | None, key: str | None) -> Iterator[Callable[[], StatusReport]]:
    """Yield a function that returns the current status on each call."""
    from neve.app.reports import StatusReport

    if server:
        from neve.cli.remote_client import RemoteClient

        yield lambda: StatusReport.model_validate(RemoteClient(server, key, context.settings.client).status())
        return
    with open_lake_control(context) as control:
        yield control.status


@click.command()
@server_option
@key_option
@json_option
@click.pass_obj
def status(context: Context, server: str | None, key: str | None, as_json: bool) -> None:
    """Show service health, queues, running jobs and lag.

    Read from the state store and the catalog, whether or not a `neve serve` is running. With --server, from a server.

    \b
    Examples:
      neve status
      neve status --json
      neve status --server http://127.0.0.1:8480 --key neve_…
    """
    with open_status(context, server, key) as look:
        found = look()
    if as_json:
        print_json(found.plain)
        return
    from neve.cli.status_view import draw, status_view

    draw(status_view(found))


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval.",
)
@click.option("--once", is_flag=True, help="Print once and exit (default without a terminal).")
@server_option
@key_option
@click.pass_obj
def top(context: Context, every: float, once: bool, server: str | None, key: str | None) -> None:
    """Show `neve status` live, refreshed every few seconds. Quit with q or Ctrl+C.

    \b
    Examples:
      neve top
      neve top --every 0.5
      neve top --server http://127.0.0.1:8480
    """
    with open_status(context, server, key) as look:
        if once or not sys.stdout.isatty():
            from neve.cli.status_view import draw, status_view

            draw(status_view(look()))
            return
        with suppress(KeyboardInterrupt):
            follow_status(look, every)


def follow_status(look: Callable[[], StatusReport], every: float) -> None:
    """Draw the status until the user quits; report a failed read and retry it."""
    from rich.live import Live

    from neve.cli.status_view import console, failure_view, keys, status_view
    from neve.errors import NeveError

    with keys() as pressed, Live(console=console(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                live.update(status_view(look()), refresh=True)
            except NeveError as error:
                live.update(failure_view(error.message), refresh=True)
            if pressed(every) in ("q", "Q"):
                return


TASKS = ("compact", "maintain", "rollup", "search", "series", "traces", "autopilot")
ALL_TABLES = "all tables"
MANY_TABLES = 4  # with the same work for the same reason: their number instead of their names


@click.command(short_help="Show upcoming maintenance with its times and reasons.")
@click.option("--task", type=click.Choice(TASKS), help="Only this task.")
@click.option("--table", "pattern", metavar="PATTERN", help="Filter tables by name; wildcards: * and ?")
@json_option
@click.pass_obj
def plan(context: Context, task: str | None, pattern: str | None, as_json: bool) -> None:
    """Show upcoming maintenance of the lake, with its times and reasons. Changes nothing.

    Read from the catalog and the state store, whether or not a `neve serve` is running: running and queued jobs,
    gathered commits, and schedules of the policies. Reasons that hold work back (a pause, quiet hours, a disabled rule)
    are named, and so are policies without effect. `neve compact plan TABLE` lists the files.

    \b
    Examples:
      neve plan
      neve plan --task compact --table 'metrics_*'
      neve plan --json

    \b
    when   task      table       state    policy    why
    now    compact   logs        running            207 files of 3.1 MB in 9 s: batch.count is 200; running on host:7:1
    now    search    logs        due      built-in  every 10m: last 11 min ago
    100 s  compact   spans       filling  built-in  40 of 200 files, 1.2 MB of 268 MB, 20 s of 2 min
    5 h    maintain  logs        quiet    night     cron 30 3 * * *: …; quiet hours of policy night until 06:00 UTC
    -      autopilot all tables  disabled built-in  its rule has enabled: false
    """
    from neve.app.control import build_forecast

    found = build_forecast(context.settings, context.lake)
    lines = [line for line in found.lines if _is_selected(line, task, pattern)]
    if as_json:
        print_json(_plan_document(found, lines))
        return
    _show_plan(found, lines, is_grouped=pattern is None)


def _is_selected(line: ForecastEntry, task: str | None, pattern: str | None) -> bool:
    return task in (None, line.task.value) and (pattern is None or fnmatchcase(line.table, pattern))


def _plan_document(found: Forecast, lines: list[ForecastEntry]) -> dict[str, Any]:
    return {
        "at": found.at.isoformat(),
        "policies": found.source,
        "lines": [{**vars(line), "when": line.when.isoformat() if line.when else None} for line in lines],
        "warnings": list(found.warnings),
    }


def _show_plan(found: Forecast, lines: list[ForecastEntry], *, is_grouped: bool) -> None:
    if not lines:
        print_text("nothing is scheduled")
    else:
        names: dict[tuple[str, ...], list[str]] = {}  # of tables with the same work for the same reason
        for line in lines:
            work = (_format_when(line.when, found.at), line.task.value, line.state.value, line.policy, line.why)
            names.setdefault(work, []).append(f"{line.table or ALL_TABLES} {line.window}".rstrip())
        rows = [
            (when, task, table, state, policy, why)
            for (when, task, state, policy, why), tables in names.items()
            for table in (
                tables if len(tables) < MANY_TABLES or not is_grouped else [format_count(len(tables), "table")]
            )
        ]
        if len(rows) < len(lines):
            print_note("--table '*' lists each table")
        print_table(("when", "task", "table", "state", "policy", "why"), rows)
    print_text(f"policies: {found.source}")
    if found.warnings:
        print_note(f"{format_count(len(found.warnings), 'warning')}:")
    for words in found.warnings:
        print_note(f"  {words}")


def _format_when(when: datetime | None, now: datetime) -> str:
    if when is None:
        return "-"
    return format_duration(when - now) if when > now else "now"
