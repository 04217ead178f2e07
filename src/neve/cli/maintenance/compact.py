"""`neve compact`: plan, run, explain and list compactions."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import (
    json_option,
    print_error,
    print_json,
    print_note,
    print_paragraph,
    print_table,
    print_text,
    progress_bar,
)
from neve.errors import NeveError
from neve.text import format_bytes, format_count, format_dollars, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.compact.compactor import Compactor
    from neve.compact.health import TableHealth
    from neve.compact.plan import Plan, Request
    from neve.compact.result import CompactResult

STRATEGIES = ("adaptive", "small_files", "deletes", "time_series", "dimensional", "cost")
SHOWN = 20


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
        print_json(_plan_document(planned))
    else:
        _show_plan(planned)


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
            print_json([_plan_document(one) for one in plans])
        for one in plans if not as_json else ():
            _show_plan(one)
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
                **_health_document(health),
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
    verdicts = _verdicts(planned, health)
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
            *(f"{one.seconds:.1f}", f"{one.api_calls:,}", f"{one.dollars:.6f}", _outcome(one)),
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


def _plan_document(planned: Plan) -> dict[str, Any]:
    from pydantic import TypeAdapter

    from neve.compact.plan import Plan

    document: dict[str, Any] = TypeAdapter(Plan).dump_python(planned, mode="json")
    return document | {"estimate": vars(planned.estimate), "snapshot_id": str(planned.snapshot_id or "")}


def _describe_files(files: int, size: int) -> str:
    return f"{format_count(files, 'file')}, {format_bytes(size)}"


def _show_plan(planned: Plan) -> None:
    print_text(f"{planned.table}: health {planned.health:.0f}, {_describe_files(planned.files, planned.bytes)}")
    print_paragraph(planned.reason, 2)
    for group in planned.groups[:SHOWN]:
        estimate = group.estimate
        print_paragraph(
            f"{group.partition.label or 'the whole table'}: {_describe_files(len(group.files), group.bytes)}"
            f" → {format_count(estimate.output_files, 'file')}, {format_bytes(estimate.output_bytes)}"
            f" [{group.level.value}, {group.strategy}, {group.layout}, by {group.executor.value}]",
            2,
        )
        print_paragraph(group.reason, 4)
        print_paragraph(f"{group.executor.value}: {group.executor_reason}", 4)
    if len(planned.groups) > SHOWN:
        print_paragraph(f"… and {len(planned.groups) - SHOWN:,} more groups (--json lists all)", 2)
    _show_rest(planned)
    if planned.groups:
        total, groups = planned.estimate, format_count(len(planned.groups), "group")
        print_paragraph(
            f"total: {groups}, about {format_duration(total.seconds)} of one core, "
            f"{total.api_calls:,} calls, {format_dollars(total.dollars)}",
            2,
        )


def _show_rest(planned: Plan) -> None:
    """Print the skipped work with its reason; print equal reasons once."""
    for one in planned.cut[:SHOWN]:
        print_paragraph(
            f"beyond the limit: {one.partition.label}: {_describe_files(one.files, one.bytes)}: {one.reason}",
            2,
        )
    if len(planned.cut) > SHOWN:
        print_paragraph(f"… and {len(planned.cut) - SHOWN:,} more partitions beyond a limit", 2)
    for left in planned.left_alone[:SHOWN]:
        print_paragraph(
            f"unchanged: {left.partition.label or 'the whole table'} (health {left.health:.0f}): {left.reason}",
            2,
        )
    if len(planned.left_alone) > SHOWN:
        print_paragraph(
            f"… and {len(planned.left_alone) - SHOWN:,} more partitions without work (`neve compact explain`)",
            2,
        )
    if planned.check_duplicates:
        partitions = format_count(len(planned.check_duplicates), "closed partition")
        print_paragraph(f"{partitions} will be checked for duplicates", 2)


def _verdicts(planned: Plan, health: dict[str, float]) -> list[dict[str, Any]]:
    found = [
        {"partition": group.partition.label, "key": group.partition.key, "verdict": "rewrite", "reason": group.reason}
        for group in planned.groups
    ]
    found += [
        {
            "partition": one.partition.label,
            "key": one.partition.key,
            "verdict": f"cut by {one.limit}",
            "reason": one.reason,
        }
        for one in planned.cut
    ]
    found += [
        {"partition": one.partition.label, "key": one.partition.key, "verdict": "leave alone", "reason": one.reason}
        for one in planned.left_alone
    ]
    scored = [{**one, "health": round(health.get(str(one.pop("key")), 100.0), 1)} for one in found]
    return sorted(scored, key=lambda one: (one["health"], one["partition"]))


def _health_document(health: TableHealth) -> dict[str, Any]:
    return {
        "table": health.table,
        "health": round(health.score, 1),
        "files": health.files,
        "bytes": health.bytes,
        "rows": health.rows,
        "partitions": len(health.partitions),
        "fragments": health.fragments,
        "undersized": health.undersized_files,
        "delete_files": health.delete_files,
        "snapshots": health.snapshot.snapshots,
        "manifests": health.snapshot.manifests,
        "target_bytes": health.target_bytes,
    }


def show_result(result: CompactResult) -> None:
    """Print the result of a run."""
    for run_id in result.continued:
        print_text(f"{result.table}: finished the interrupted run {run_id} had left")
    if result.published_for_dead or result.orphans:
        print_text(
            f"  {result.published_for_dead:,} groups published that it had written, {result.orphans:,} files removed"
        )
    if not result.planned:
        print_text(f"{result.table}: {result.reason}")
        return
    print_text(
        f"{result.table}: {result.files_in:,} files became {result.files_out:,}, "
        f"{format_bytes(result.bytes_in)} became {format_bytes(result.bytes_out)}, "
        f"health {result.health_before:.0f} → {result.health_after:.0f}, "
        f"in {format_duration(result.seconds)}, about {format_dollars(result.dollars)}"
    )
    print_text(f"  {result.rows:,} rows read, written and read back: equal; {_outcome(result)}")
    if result.duplicates:
        print_text(f"  {result.duplicates:,} duplicates removed")
    for error in result.errors:
        print_text(f"  {error}")


def _outcome(result: CompactResult) -> str:
    parts = [f"{result.committed:,} of {result.planned:,} groups published"]
    for count, words in (
        (result.conflicts, "lost to other writers"),
        (result.failed, "failed"),
        (result.unknown, "in doubt"),
        (result.not_begun, "not begun in time"),
    ):
        if count:
            parts.append(f"{count:,} {words}")
    return ", ".join(parts)
