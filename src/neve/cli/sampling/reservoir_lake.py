"""`neve reservoir lake`: sample logs or spans of the lake into their sample tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, print_json, print_note, print_table, print_text, progress_bar
from neve.cli.time_options import SinceParam, TimeParam
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.results import TableRunResult
    from neve.reservoir.tables.plan import Plan, Scope

SHOWN = 20


@click.command(short_help="Sample logs or spans of the lake.")
@click.argument("source", type=click.Choice(("logs", "spans")))
@click.option("--k", type=click.IntRange(min=1), help="Records to keep per group and window; without it all are kept.")
@click.option(
    "--by",
    multiple=True,
    metavar="NAME",
    help="Group by this column or attribute; may be repeated.  [default: service_name]",
)
@click.option("--method", type=click.Choice(("priority", "exact_total")), help="Sampling method.  [default: priority]")
@click.option("--window", "window_seconds", type=click.IntRange(min=1), metavar="SECONDS", help="Window length.")
@click.option(
    "--since", type=SinceParam(), metavar="TIME", help="Only windows since this time: 7d, 12h, or a time (UTC)."
)
@click.option("--until", type=TimeParam(), metavar="TIME", help="Only windows that begin before this time (UTC).")
@click.option("--again", is_flag=True, help="Sample unchanged windows again, for example after a change of --k.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and why.")
@click.option("--org", metavar="NAME", help="Organization.  [default: all]")
@click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")
@json_option
@click.pass_obj
def lake(
    context: Context,
    /,
    source: str,
    since: datetime | None,
    until: datetime | None,
    again: bool,
    dry_run: bool,
    org: str | None,
    steal: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Sample `logs` or `spans` of the lake into logs_sample or spans_sample, by organization and window.

    Only windows whose records changed since the last run are sampled, each as a whole, all in one commit. A run with
    --since, --until or --org does not move the position for the next one. Groups are columns, attributes['key'] or
    resource_attrs['key'].

    \b
    Examples:
      neve reservoir lake logs --k 100
      neve reservoir lake spans --k 50 --by service_name --by operation_name --window 3600
    """
    from neve.app.reservoir import build_lake_sampler

    config, scope = _config(context, given), _scope(since, until, org, again=again)
    with progress_bar(enabled=not as_json) as bar:
        sampler = build_lake_sampler(context.settings, context.lake, source, config, bar, steal=steal)
        if dry_run:
            plan = sampler.plan(scope)
        else:
            result = sampler.run(scope)
    if dry_run:
        _show_plan(plan, config, as_json=as_json)
    elif as_json:
        print_json(result.as_document())
    else:
        show_lake_run(result)


def _config(context: Context, given: dict[str, Any]) -> LakeSampling:
    """Return the configuration with the options of the command line applied."""
    from neve.reservoir.config import LakeSampling

    options = {key: value for key, value in given.items() if value not in (None, ())}
    return LakeSampling(**{**context.settings.reservoir.lake.model_dump(), **options})


def _scope(since: datetime | None, until: datetime | None, org: str | None, *, again: bool) -> Scope:
    from neve.lake.calendar import micros_of
    from neve.lake.time_ranges import BEGINNING, END
    from neve.model.settings import check_organization
    from neve.reservoir.tables.plan import Scope

    if since is not None and until is not None and until <= since:
        raise click.BadParameter(f"{until.isoformat()} is not after --since {since.isoformat()}", param_hint="--until")
    return Scope(
        micros_of(since) if since else BEGINNING,
        micros_of(until) if until else END,
        check_organization(org) if org else None,
        again,
    )


def show_lake_run(result: TableRunResult) -> None:
    """Print the result of a run."""
    headers = ("organization", "window", "records", "kept")
    lines = [(one.organization_id, one.start, f"{one.records:,}", f"{one.kept:,}") for one in result.windows[-SHOWN:]]
    if lines:
        print_table(headers, lines, right=(2, 3))
    if len(result.windows) > SHOWN:
        print_text(f"and {len(result.windows) - SHOWN:,} windows before these; --json lists them")
    print_text(
        f"{format_count(len(result.windows), 'window')} of {result.source} sampled ({result.how}): "
        f"{result.kept_records:,} of {result.records:,} records kept, "
        f"{format_duration(result.seconds)} ({result.reason})"
    )
    if result.is_committed:
        print_text(
            f"{result.target}: {format_count(result.files_added, 'file')} of {format_bytes(result.bytes)} came, "
            f"{result.files_removed:,} went, rows marked in {result.delete_files:,}; snapshot {result.snapshot}"
        )
    for count, noun, words in (
        (result.waiting, "window", "still receiving data"),
        (result.left, "window", "unchanged: retention may have removed some of its records"),
        (result.counted_as_one, "record", "counted as 1: invalid weight"),
    ):
        if count:
            print_note(f"note: {format_count(count, noun)} {words}")
    if result.mixed:
        print_note("note: unchanged windows were sampled with other settings before; --again samples them again")


def _show_plan(plan: Plan, config: LakeSampling, *, as_json: bool) -> None:
    from neve.reservoir.results import format_planned_windows

    windows = format_planned_windows(plan)
    if as_json:
        print_json(windows)
        return
    lines = [(one["organization_id"], one["start"], f"{one['records']:,}") for one in windows[-SHOWN:]]
    print_table(("organization", "window", "records"), lines, right=(2,))
    print_text(
        f"{format_count(len(windows), 'window')} with {format_count(plan.records, 'record')} "
        f"would be sampled ({config.how})"
    )
