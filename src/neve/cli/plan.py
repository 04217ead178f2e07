"""`neve plan`."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import emit, json_option, many, note, say, table

if TYPE_CHECKING:
    from datetime import datetime

    from neve.app.outlook import Outlook
    from neve.cli.context import Context
    from neve.work.outlook import Line

TASKS = ("compact", "maintain", "rollup", "search", "autopilot")
ALL = "all tables"


@click.command()
@click.option("--task", type=click.Choice(TASKS), help="Only this task.")
@click.option("--table", "pattern", metavar="PATTERN", help="Only these tables; * and ? stand for what you like.")
@json_option
@click.pass_obj
def plan(context: Context, task: str | None, pattern: str | None, as_json: bool) -> None:
    """What would be done next to the lake, when and why; nothing is done.

    Read from the catalog and the state store, whether or not a `neve serve` runs: the jobs that run or wait, the
    commits that are gathered, and what the clock starts by the policies. What holds work up (a pause, quiet hours, a
    rule that is not enabled) is named, and so is a policy that has no effect. `neve compact plan TABLE` says which
    files.

    \b
    Examples:
      neve plan
      neve plan --task compact --table 'metrics_*'
      neve plan --json

    \b
    when   task      table       state    policy    why
    now    compact   logs        running            207 files of 3.1 MB in 9 s: batch.count is 200; host:7:1 is at it
    now    search    logs        due      built-in  every 10m: last 11 min ago
    100 s  compact   spans       filling  built-in  40 of 200 files, 1.2 of 256 MB, 20 of 120 s
    5 h    maintain  logs        quiet    night     cron 30 3 * * *: …; quiet hours of policy night until 06:00 UTC
    -      autopilot all tables  disabled built-in  its rule has enabled: false
    """
    from neve.app.outlook import build_outlook

    found = build_outlook(context.settings, context.lake)
    lines = [line for line in found.lines if _is_wanted(line, task, pattern)]
    if as_json:
        emit(_document(found, lines))
        return
    _show(found, lines)


def _is_wanted(line: Line, task: str | None, pattern: str | None) -> bool:
    return task in (None, line.task.value) and (pattern is None or fnmatchcase(line.table, pattern))


def _document(found: Outlook, lines: list[Line]) -> dict[str, Any]:
    return {
        "at": found.at.isoformat(),
        "policies": found.source,
        "lines": [{**vars(line), "when": line.when.isoformat() if line.when else None} for line in lines],
        "warnings": list(found.warnings),
    }


def _show(found: Outlook, lines: list[Line]) -> None:
    if not lines:
        say("nothing comes by itself")
    else:
        rows = [
            (
                _when(line.when, found.at),
                line.task.value,
                f"{line.table or ALL} {line.window}".rstrip(),
                line.state.value,
                line.policy,
                line.why,
            )
            for line in lines
        ]
        table(("when", "task", "table", "state", "policy", "why"), rows)
    say(f"policies: {found.source}")
    if found.warnings:
        note(f"{many(len(found.warnings), 'warning')}:")
    for words in found.warnings:
        note(f"  {words}")


def _when(when: datetime | None, now: datetime) -> str:
    from neve.work.due import ago

    if when is None:
        return "-"
    return ago(when - now) if when > now else "now"
