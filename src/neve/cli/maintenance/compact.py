"""`neve compact`: plan, run, explain and list compactions."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from neve.cli.maintenance.compact_output import (
    format_outcome,
    health_document,
    list_verdicts,
    plan_document,
    show_plan,
    show_result,
)
from neve.cli.output import (
    json_option,
    print_error,
    print_json,
    print_note,
    print_table,
    print_text,
    progress_bar,
)
from neve.errors import NeveError
from neve.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.compact.compactor import Compactor
    from neve.compact.plan import Request

STRATEGIES = ("adaptive", "small_files", "deletes", "time_series", "dimensional", "cost")


@click.group(short_help="Merge small files, apply deletes and sort rows.")
def compact() -> None:
    """Merge small files, apply deletes and sort rows, with a proof that no row is lost.

    \b
    Examples:
      neve compact plan spans
      neve compact run
      neve compact explain spans --partition 2026-01-31
    """


def _plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that change the plan."""
    for option in (
        click.option(
            "--thorough", is_flag=True, help="Check every partition, even if the table's summary shows no problem."
        ),
        click.option(
            "--partition", "partitions", metavar="TEXT", help="Only partitions whose name contains this text."
        ),
        click.option(
            "--level", type=click.Choice(("minor", "major", "full")), help="Level of work: minor, major or full."
        ),
        click.option(
            "--target-size", metavar="SIZE", help="Target file size, such as 256MB.  [default: the table's property]"
        ),
        click.option(
            "--strategy", type=click.Choice(STRATEGIES), help="Compaction strategy.  [default: compact.strategy]"
        ),
    ):
        command = option(command)
    return command


@compact.command()
@click.argument("name", metavar="TABLE")
@_plan_options
@json_option
@click.pass_obj
def plan(context: Context, /, name: str, as_json: bool, **asked: Any) -> None:
    """Show what a run would do now, its cost and the reasons. Changes nothing and needs no Spark.

    TABLE is a table of the lake, or namespace.table for any other table of the catalog.
    """
    planned = _compactor(context).plan(name, _request(**asked))
    if as_json:
        print_json(plan_document(planned))
    else:
        show_plan(planned)


@compact.command()
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@_plan_options
@click.option("--dry-run", is_flag=True, help="Only show the plan, as `neve compact plan` does.")
@click.option("--steal", is_flag=True, help="Take over the lease of a dead compactor.")
@json_option
@click.pass_obj
def run(context: Context, /, names: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool, **asked: Any) -> None:
    """Compact all tables, or some. Recovers interrupted runs first.

    Rows are counted and hashed before and after. Nothing is published unless they are equal. Files that another writer
    changed concurrently are left to the next run.
    """
    compactor, request = _compactor(context, is_short=dry_run), _request(**asked)
    chosen = names or tuple(context.lake.table_names())
    if dry_run:
        plans = [compactor.plan(name, request) for name in chosen]
        if as_json:
            print_json([plan_document(one) for one in plans])
        for one in plans if not as_json else ():
            show_plan(one)
            print_text()
        return
    results, refused = [], False
    with progress_bar(enabled=not as_json) as bar:
        for name in chosen:
            try:
                results.append(compactor.compact(name, request, progress=partial(bar, name), steal=steal))
            except NeveError as error:  # a failed table does not stop the others
                print_error(error, as_json=as_json)
                refused = True
    if as_json:
        print_json([result.as_document() for result in results])
    else:
        for result in results:
            show_result(result)
    if refused or not all(result.is_whole for result in results):
        sys.exit(1)


@compact.command(short_help="Show the health of tables, their files and the last run.")
@click.argument("names", metavar="[TABLE]...", nargs=-1)
@json_option
@click.pass_obj
def status(context: Context, names: tuple[str, ...], as_json: bool) -> None:
    """Show the health of tables (0 to 100), their files, running compactions and the last run."""
    compactor = _compactor(context)
    from neve.compact.journal import Journal
    from neve.state.leases import find_lease_holder

    lines = []
    for name in names or tuple(context.lake.table_names()):
        health = compactor.health(name)
        past = compactor.history(name)
        holder = find_lease_holder(compactor.documents, f"compact:{health.table}")
        unfinished = list(Journal(compactor.documents, health.table).runs())
        lines.append(
            {
                **health_document(health),
                "running": holder.owner if holder and not holder.expired else None,
                "unfinished_runs": [one.id for one in unfinished],
                "last_run": past[-1].started if past else None,
            }
        )
    if as_json:
        print_json(lines)
        return
    headers = (
        "table",
        "health",
        "files",
        "bytes",
        "fragments",
        "undersized",
        "deletes",
        "snapshots",
        "last run",
        "now",
    )
    rows = [
        (
            *(_shorten_name(line["table"]), f"{line['health']:.0f}", f"{line['files']:,}", format_bytes(line["bytes"])),
            *(f"{line[key]:,}" for key in ("fragments", "undersized", "delete_files", "snapshots")),
            *((line["last_run"] or "never")[:19].replace("T", " "), _format_activity(line)),
        )
        for line in lines
    ]
    print_table(headers, rows, right=(1, 2, 3, 4, 5, 6, 7), optional=(7, 6, 5, 4))


def _shorten_name(table: str) -> str:
    """Return the name of a table of the lake without its namespace, as commands accept it."""
    from neve.model.signals import NAMESPACE

    return table.removeprefix(f"{NAMESPACE}.")


def _format_activity(line: dict[str, Any]) -> str:
    if line["running"]:
        return f"run by {line['running']}"
    return f"{len(line['unfinished_runs'])} to finish" if line["unfinished_runs"] else ""


@compact.command(short_help="Explain for each partition why it would be rewritten.")
@click.argument("name", metavar="TABLE")
@_plan_options
@json_option
@click.pass_obj
def explain(context: Context, /, name: str, as_json: bool, **asked: Any) -> None:
    """Explain for each partition why it would or would not be rewritten, least healthy first."""
    compactor = _compactor(context)
    planned = compactor.plan(name, _request(**{**asked, "thorough": True}))
    health = {measure.partition.key: measure.health for measure in compactor.health(name).partitions}
    verdicts = list_verdicts(planned, health)
    if as_json:
        print_json({"table": planned.table, "health": planned.health, "reason": planned.reason, "partitions": verdicts})
        return
    print_text(f"{planned.table}: health {planned.health:.0f}, {planned.reason}")
    for verdict in verdicts:
        name_of = verdict["partition"] or "the whole table"
        print_text(f"  {verdict['health']:3.0f}  {name_of}: {verdict['verdict']}")
        print_text(f"       {verdict['reason']}")


@compact.command()
@click.argument("name", metavar="[TABLE]", required=False)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of newest runs.")
@json_option
@click.pass_obj
def history(context: Context, name: str | None, limit: int, as_json: bool) -> None:
    """List finished runs with their results and costs, newest last."""
    results = _compactor(context).history(name)[-limit:]
    if as_json:
        print_json([result.as_document() for result in results])
        return
    if not results:
        print_note("no finished runs yet: `neve compact run` starts one")
        return
    headers = ("started", "table", "groups", "files", "bytes", "health", "seconds", "calls", "dollars", "outcome")
    rows = [
        (
            *(one.started[:19].replace("T", " "), _shorten_name(one.table), f"{one.committed:,}"),
            f"{one.files_in:,} → {one.files_out:,}",
            f"{format_bytes(one.bytes_in)} → {format_bytes(one.bytes_out)}",
            f"{one.health_before:.0f} → {one.health_after:.0f}",
            *(f"{one.seconds:.1f}", f"{one.api_calls:,}", f"{one.dollars:.6f}", format_outcome(one)),
        )
        for one in results
    ]
    print_table(headers, rows, right=(2, 3, 4, 5, 6, 7, 8), optional=(7, 8, 2, 6))


def _compactor(context: Context, *, is_short: bool = True) -> Compactor:
    from neve.lake.pandas_import import defer_pandas
    from neve.lake.pyiceberg_import import defer_models

    defer_pandas()
    if is_short:
        defer_models()
    from neve.app.wiring import build_compactor

    return build_compactor(context.settings, context.lake)


def _request(
    strategy: str | None, target_size: str | None, level: str | None, partitions: str | None, thorough: bool
) -> Request:
    from neve.compact.compactor import parse_size
    from neve.compact.plan import Request

    return Request(
        strategy=strategy,
        target_bytes=parse_size(target_size) if target_size else None,
        level=level,
        partitions=partitions,
        thorough=thorough,
    )
