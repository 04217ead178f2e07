"""`neve maintain`: expire snapshots, remove orphans, apply retention, rewrite manifests and deletes, show history."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, print_json, print_note, print_table, print_text, progress_bar
from neve.text import format_bytes, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from neve.cli.context import Context
    from neve.maintain.job import Maintainer
    from neve.maintain.step import Entry, Outcome, StepContext, StepResult

    Run = Callable[[Maintainer, str], list[StepResult]]

SHOWN = 20  # lines printed of each action


def show_steps(results: Iterable[StepResult]) -> None:
    """Print each step in a line, and below it what it changed or kept, and why."""
    for result in results:
        words = f"{result.table}: {result.step}: "
        if result.is_failure:
            print_note(f"error: {words}{result.error}" + (f"\nhint: {result.hint}" if result.hint else ""))
            continue
        would = " (dry run)" if result.dry_run else ""
        print_text(f"{words}{result.outcome.reason}{_format_gain(result)}, {format_duration(result.seconds)}{would}")
        for line in _entry_lines(result.outcome.entries):
            print_text(f"  {line}")


def show_runs(runs: list[dict[str, Any]]) -> None:
    """Print the history as a table."""
    if not runs:
        print_text("no runs yet; `neve maintain all` runs every step")
        return
    rows = [
        (
            *(run["started_at"][:19].replace("T", " "), run["table"], run["step"], f"{run['seconds']:.1f}"),
            *(format_bytes(run["gain"]["bytes"]), format_bytes(run["cost"]["bytes_written"])),
            f"error: {run['error']}" if run["error"] else run["reason"],
        )
        for run in runs
    ]
    headers = ("started", "table", "step", "seconds", "freed", "written", "what")
    print_table(headers, rows, right=(3, 4, 5))


def _format_gain(result: StepResult) -> str:
    freed = result.outcome.gain.bytes
    return f", about {format_bytes(freed)}" if freed else ""


def _entry_lines(entries: Iterable[Entry]) -> list[str]:
    by_action: dict[str, list[Entry]] = {}
    for entry in entries:
        by_action.setdefault(entry.action, []).append(entry)
    lines = []
    for action, found in by_action.items():
        lines += [_format_entry(entry) for entry in found[:SHOWN]]
        if len(found) > SHOWN:
            lines.append(f"{action:<8} … and {len(found) - SHOWN:,} more; --json lists all")
    return lines


def _format_entry(entry: Entry) -> str:
    of = f" ({format_bytes(entry.bytes)})" if entry.bytes else ""
    return f"{entry.action:<8} {entry.what}{of}: {entry.reason}"


STEPS = ("retention", "deletes", "manifests", "statistics", "tags", "expire", "orphans")

tables = click.argument("tables", nargs=-1, metavar="[TABLE…]")
dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
steal = click.option("--steal", is_flag=True, help="Take over the lease of a dead maintenance run.")


def step_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments of a step: tables, --dry-run, --steal and --json."""
    return tables(dry_run(steal(json_option(click.pass_obj(command)))))


@click.group(short_help="Expire snapshots, remove orphan files, apply retention.")
def maintain() -> None:
    """Maintain tables: expire snapshots, remove orphan files, apply retention, rewrite manifests.

    TABLE is a table of the lake, or namespace.table for any other Iceberg table of the catalog. Without one, all tables
    of the lake are maintained. Every line gives the action and its reason.
    """


@maintain.command(short_help="Expire old snapshots, and remove their files.")
@step_options
def expire(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Expire old snapshots, and remove the files that only they reference.

    Branches, tags and the needs of ingestion are respected: the position of each stream, unfinished batches, and the
    period in which duplicates are detected. Snapshots that are kept beyond their age are listed with the reason.

    \b
    Examples:
      neve maintain expire --dry-run
      neve maintain expire spans logs --json
    """
    _run_steps(context, tables, _single_step("expire", dry_run), steal=steal, as_json=as_json)


@maintain.command(short_help="List files that no snapshot references, or remove them.")
@tables
@click.option("--delete/--dry-run", "delete", default=False, help="Remove orphan files, or only list them (default).")
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    metavar="HOURS",
    help="Minimum age of orphan files.  [default: maintain.orphans.older_than_hours]",
)
@click.option("--force-young", is_flag=True, help="Allow less than 24 hours. Only safe if nothing writes to the table.")
@steal
@json_option
@click.pass_obj
def orphans(
    context: Context,
    tables: tuple[str, ...],
    delete: bool,
    older_than: float | None,
    force_young: bool,
    steal: bool,
    as_json: bool,
) -> None:
    """List files in the table folders that no snapshot references, and remove them with --delete.

    Killed writers and lost commit races leave orphan files. Paths are compared in normal form: file:/a and file:///a
    are the same file, and so are s3://, s3a:// and s3n://.

    \b
    Examples:
      neve maintain orphans spans
      neve maintain orphans spans --delete
    """
    from neve.maintain.orphans import check_age
    from neve.maintain.orphans import remove_orphans as find

    age = None if older_than is None else timedelta(hours=older_than)
    if age is not None:
        check_age(age, force_young=force_young)

    def how(work: StepContext) -> Outcome:
        return find(work, older_than=age, force_young=force_young)

    def run(maintainer: Maintainer, table: str) -> list[StepResult]:
        return maintainer.run(table, ["orphans"], dry_run=not delete, how={"orphans": how})

    found = _run_steps(context, tables, run, steal=steal, as_json=as_json)
    if not delete and not as_json and any(result.outcome.gain.files for result in found):
        print_note("nothing was removed; --delete removes them")


@maintain.command(short_help="Rewrite manifests if many small ones slow planning.")
@step_options
def manifests(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Rewrite manifests if many small ones slow planning down, or explain why not."""
    _run_steps(context, tables, _single_step("manifests", dry_run), steal=steal, as_json=as_json)


@maintain.command(short_help="Rewrite position deletes into fewer files.")
@step_options
def deletes(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Rewrite position deletes: fewer files, and none for data files that no longer exist."""
    _run_steps(context, tables, _single_step("deletes", dry_run), steal=steal, as_json=as_json)


@maintain.command()
@step_options
def retention(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Delete expired rows by the rules in maintain.retention.

    Whole partitions are removed by metadata. In the partition at the boundary, rows are deleted exactly. Files stay
    until the snapshots that reference them expire.

    \b
    Examples:
      neve maintain retention --dry-run
      neve maintain retention spans
    """
    _run_steps(context, tables, _single_step("retention", dry_run), steal=steal, as_json=as_json)


@maintain.command(short_help="Create hourly, daily and monthly tags, remove expired ones.")
@step_options
def tags(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Create hourly, daily and monthly tags as configured in maintain.tags, and remove expired ones.

    Tags that Neve did not create are never changed.
    """
    _run_steps(context, tables, _single_step("tags", dry_run), steal=steal, as_json=as_json)


@maintain.command(short_help="Compute statistics for query planners.")
@step_options
def statistics(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Compute statistics for query planners: distinct values of columns, and partition statistics."""
    _run_steps(context, tables, _single_step("statistics", dry_run), steal=steal, as_json=as_json)


@maintain.command(name="all", short_help="Run all steps in order.")
@step_options
def everything(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Run all steps in order: retention, deletes, manifests, statistics, tags, expire, orphans.

    A failed step does not stop the next one, but the command then exits with 1. Orphans are only listed unless
    maintain.orphans.delete is set, and statistics are computed if maintain.statistics.enabled is set.
    """

    def run(maintainer: Maintainer, table: str) -> list[StepResult]:
        return maintainer.round(table, dry_run=dry_run)

    _run_steps(context, tables, run, steal=steal, as_json=as_json)


@maintain.command(short_help="List maintenance runs with results and costs.")
@click.argument("table", required=False)
@click.option("--step", type=click.Choice(STEPS), help="Only this step.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of runs.")
@json_option
@click.pass_obj
def history(context: Context, table: str | None, step: str | None, limit: int, as_json: bool) -> None:
    """List maintenance runs with their results and costs, newest first. Dry runs are not recorded."""
    from neve.app.wiring import build_documents
    from neve.lake.lake import parse_table_name
    from neve.maintain.step import History

    documents = build_documents(context.settings)
    try:
        name = ".".join(parse_table_name(table)) if table else ""
        runs = History(documents).runs(name, step=step or "", limit=limit)
    finally:
        documents.close()
    print_json(runs) if as_json else show_runs(runs)


def _single_step(step: str, dry_run: bool) -> Run:
    def run(maintainer: Maintainer, table: str) -> list[StepResult]:
        return maintainer.run(table, [step], dry_run=dry_run)

    return run


def _run_steps(context: Context, tables: tuple[str, ...], run: Run, *, steal: bool, as_json: bool) -> list[StepResult]:
    """Run steps on tables, one table after the other, and print the results."""
    from neve.api.log_config import configure_logs
    from neve.app.maintain import build_maintainer
    from neve.app.wiring import build_documents
    from neve.errors import LeaseTaken, TableMissing

    configure_logs()
    names = tables or tuple(context.lake.table_names())
    if not names:
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    documents = build_documents(context.settings)
    results: list[StepResult] = []
    try:
        for name in names:
            with progress_bar(not as_json) as tell:
                maintainer = build_maintainer(context.settings, context.lake, documents, tell, steal=steal)
                try:
                    found = run(maintainer, name)
                except LeaseTaken as error:  # another process holds the lease of this table: go on with the others
                    found = [maintainer.report_lease_taken(name, error)]
            results += found
            if not as_json:
                show_steps(found)
    finally:
        documents.close()
    if as_json:
        print_json(_documents(results))
    if any(result.is_failure for result in results):
        raise click.exceptions.Exit(1)
    return results


def _documents(results: list[StepResult]) -> list[dict[str, Any]]:
    return [result.to_json() for result in results]
