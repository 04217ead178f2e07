"""`neve reservoir lake`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.moment import Moment
from neve.cli.output import emit, json_option, many, note, progress, say, size, table
from neve.cli.since import Since

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.reservoir.lake.config import LakeSampling
    from neve.reservoir.lake.plan import Plan, Scope
    from neve.reservoir.lake.result import LakeRun

SHOWN = 20


@click.command()
@click.argument("source", type=click.Choice(("logs", "spans")))
@click.option("--k", type=click.IntRange(min=1), help="Records kept of each group and window; without it all pass.")
@click.option("--by", multiple=True, metavar="NAME", help="Group by this; may be repeated.  [default: service_name]")
@click.option("--method", type=click.Choice(("priority", "exact_total")), help="How to sample.  [default: priority]")
@click.option("--window", "window_seconds", type=click.IntRange(min=1), metavar="SECONDS", help="Length of a window.")
@click.option("--since", type=Since(), metavar="TIME", help="Only windows since then: 7d, 12h, or a time (UTC).")
@click.option("--until", type=Moment(), metavar="TIME", help="Only windows that begin before this time (UTC).")
@click.option("--again", is_flag=True, help="Sample windows again that need it not: after another k, say.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and why.")
@click.option("--org", metavar="NAME", help="Organization.  [default: all]")
@click.option("--steal", is_flag=True, help="Take the lease of a run that is known to be dead.")
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

    Only windows whose records changed since the last run are sampled, each as a whole, and all in one commit; a run
    that leaves some out (--since, --until, --org) does not count for the next one. Groups are told by columns, or by
    attributes['key'] and resource_attrs['key'].

    \b
    Examples:
      neve reservoir lake logs --k 100
      neve reservoir lake spans --k 50 --by service_name --by operation_name --window 3600
    """
    from neve.app.reservoir_lake import build_lake_sampler

    config, scope = _config(context, given), _scope(since, until, org, again=again)
    with progress(enabled=not as_json) as bar:
        sampler = build_lake_sampler(context.settings, context.lake, source, config, bar, steal=steal)
        if dry_run:
            plan = sampler.plan(scope)
        else:
            result = sampler.run(scope)
    if dry_run:
        _show_plan(plan, config, as_json=as_json)
    elif as_json:
        emit(result.as_document())
    else:
        show_lake_run(result)


def _config(context: Context, given: dict[str, Any]) -> LakeSampling:
    """The configuration, with what the command line says in place of it."""
    from neve.reservoir.lake.config import LakeSampling

    said = {key: value for key, value in given.items() if value not in (None, ())}
    return LakeSampling(**{**context.settings.reservoir.lake.model_dump(), **said})


def _scope(since: datetime | None, until: datetime | None, org: str | None, *, again: bool) -> Scope:
    from neve.model.organization import check_organization
    from neve.reservoir.lake.plan import Scope
    from neve.reservoir.lake.windows import BEGINNING, END, micros_of

    if since is not None and until is not None and until <= since:
        raise click.BadParameter(f"{until.isoformat()} is not after --since {since.isoformat()}", param_hint="--until")
    return Scope(
        micros_of(since) if since else BEGINNING,
        micros_of(until) if until else END,
        check_organization(org) if org else None,
        again,
    )


def show_lake_run(result: LakeRun) -> None:
    """What a run did."""
    headers = ("organization", "window", "records", "kept")
    lines = [(one.organization_id, one.start, f"{one.records:,}", f"{one.kept:,}") for one in result.windows[-SHOWN:]]
    if lines:
        table(headers, lines, right=(2, 3))
    if len(result.windows) > SHOWN:
        say(f"and {len(result.windows) - SHOWN:,} windows before these; --json lists them")
    say(
        f"{many(len(result.windows), 'window')} of {result.source} sampled ({result.how}): {result.kept:,} of "
        f"{result.records:,} records kept, {result.seconds:.1f} s ({result.reason})"
    )
    if result.committed:
        say(
            f"{result.target}: {many(result.files_added, 'file')} of {size(result.bytes)} came, "
            f"{result.files_removed:,} went, rows marked in {result.delete_files:,}; snapshot {result.snapshot}"
        )
    for count, noun, words in (
        (result.waiting, "window", "waiting to settle"),
        (result.left, "window", "left as it was: retention may have taken records of it"),
        (result.counted_as_one, "record", "counted as 1: its weight can't be"),
    ):
        if count:
            note(f"note: {many(count, noun)} {words}")
    if result.mixed:
        note("note: windows that did not change were sampled in another way before, and left so; --again samples anew")


def _show_plan(plan: Plan, config: LakeSampling, *, as_json: bool) -> None:
    from neve.reservoir.lake.result import planned_told

    told = planned_told(plan)
    if as_json:
        emit(told)
        return
    lines = [(one["organization_id"], one["start"], f"{one['records']:,}") for one in told[-SHOWN:]]
    table(("organization", "window", "records"), lines, right=(2,))
    say(f"{many(len(told), 'window')} with {plan.records:,} records would be sampled ({config.how})")
