"""`neve maintain`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from neve.cli.maintain_output import show, show_runs
from neve.cli.output import emit, json_option, note, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.maintain.job import Maintainer
    from neve.maintain.result import Outcome, StepResult
    from neve.maintain.work import Work

    Run = Callable[[Maintainer, str], list[StepResult]]

STEPS = ("retention", "deletes", "manifests", "statistics", "tags", "expire", "orphans")

tables = click.argument("tables", nargs=-1, metavar="[TABLE…]")
dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
steal = click.option("--steal", is_flag=True, help="Take the lease of a maintainer that is known to be dead.")


@click.group()
def maintain() -> None:
    """Keep tables small and quick to plan: forget snapshots, remove orphans, delete what is past its time.

    TABLE is one of the lake's own, or namespace.table for any other Iceberg table of the catalog; without one, all of
    the lake's own tables are taken. Every line says what is done, or kept, and why.
    """


@maintain.command()
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def expire(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Forget old snapshots, and remove the files that only they had.

    Branches and tags are respected, and so is what ingestion stands on: the position of each stream, batches that are
    not finished, and the time within which duplicates are found. What is kept beyond its age is listed with the reason.

    \b
    Examples:
      neve maintain expire --dry-run
      neve maintain expire spans logs --json
    """
    _run(context, tables, _only("expire", dry_run), steal=steal, as_json=as_json)


@maintain.command()
@tables
@click.option("--delete/--dry-run", "delete", default=False, help="Remove the orphans, or only list them (default).")
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    metavar="HOURS",
    help="Leave younger files alone.  [default: maintain.orphans.older_than_hours]",
)
@click.option("--force-young", is_flag=True, help="Allow less than 24 hours: only where nobody writes to the table.")
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
    """List files in the tables' folders that no snapshot knows, and remove them with --delete.

    They come of writers that were killed or lost a race. Paths are compared, not the way they are written: file:/a and
    file:///a are one file, and so are s3://, s3a:// and s3n://.

    \b
    Examples:
      neve maintain orphans spans
      neve maintain orphans spans --delete
    """
    from neve.maintain.orphans import check_age
    from neve.maintain.orphans import orphans as find

    age = None if older_than is None else timedelta(hours=older_than)
    if age is not None:
        check_age(age, force_young=force_young)

    def how(work: Work) -> Outcome:
        return find(work, older_than=age, force_young=force_young)

    def run(maintainer: Maintainer, table: str) -> list[StepResult]:
        return maintainer.run(table, ["orphans"], dry_run=not delete, how={"orphans": how})

    found = _run(context, tables, run, steal=steal, as_json=as_json)
    if not delete and not as_json and any(result.outcome.gain.files for result in found):
        note("nothing was removed; --delete removes them")


@maintain.command()
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def manifests(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Write manifests anew where many small ones make planning slow; says why not where it does not pay."""
    _run(context, tables, _only("manifests", dry_run), steal=steal, as_json=as_json)


@maintain.command()
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def deletes(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Write position deletes anew: fewer files, and none about data files that are gone."""
    _run(context, tables, _only("deletes", dry_run), steal=steal, as_json=as_json)


@maintain.command()
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def retention(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Delete rows that are past their time, by the rules in maintain.retention.

    Whole partitions are taken out of the metadata, and the partition at the boundary is deleted to the row. Their files
    stay until the snapshots that had them are expired.

    \b
    Examples:
      neve maintain retention --dry-run
      neve maintain retention spans
    """
    _run(context, tables, _only("retention", dry_run), steal=steal, as_json=as_json)


@maintain.command()
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def tags(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Set hourly, daily and monthly tags where maintain.tags says so, and take away those that are past their time.

    Tags that Neve did not set are never touched.
    """
    _run(context, tables, _only("tags", dry_run), steal=steal, as_json=as_json)


@maintain.command()
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def statistics(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """Compute what query planners ask for: distinct values of columns, and sums of partitions."""
    _run(context, tables, _only("statistics", dry_run), steal=steal, as_json=as_json)


@maintain.command(name="all")
@tables
@dry_run
@steal
@json_option
@click.pass_obj
def everything(context: Context, tables: tuple[str, ...], dry_run: bool, steal: bool, as_json: bool) -> None:
    """All steps in their order: retention, deletes, manifests, statistics, tags, expire, orphans.

    A step that fails does not stop the next one, and the command then ends with 1. Orphans are only listed unless
    maintain.orphans.delete says otherwise, and statistics are computed where maintain.statistics.enabled does.
    """

    def run(maintainer: Maintainer, table: str) -> list[StepResult]:
        return maintainer.round(table, dry_run=dry_run)

    _run(context, tables, run, steal=steal, as_json=as_json)


@maintain.command()
@click.argument("table", required=False)
@click.option("--step", type=click.Choice(STEPS), help="Only this step.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most this many runs.")
@json_option
@click.pass_obj
def history(context: Context, table: str | None, step: str | None, limit: int, as_json: bool) -> None:
    """What was done, when, what it gained and what it cost; the newest run first. Dry runs are not remembered."""
    from neve.app.wiring import build_documents
    from neve.lake.lake import identify
    from neve.maintain.history import History

    documents = build_documents(context.settings)
    try:
        name = ".".join(identify(table)) if table else ""
        runs = History(documents).runs(name, step=step or "", limit=limit)
    finally:
        documents.close()
    emit(runs) if as_json else show_runs(runs)


def _only(step: str, dry_run: bool) -> Run:
    def run(maintainer: Maintainer, table: str) -> list[StepResult]:
        return maintainer.run(table, [step], dry_run=dry_run)

    return run


def _run(context: Context, tables: tuple[str, ...], run: Run, *, steal: bool, as_json: bool) -> list[StepResult]:
    """Run steps on tables, one table after the other, and show what came of it."""
    from neve.api.logs import configure_logs
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
            with progress(not as_json) as tell:
                maintainer = build_maintainer(context.settings, context.lake, documents, tell, steal=steal)
                try:
                    found = run(maintainer, name)
                except LeaseTaken as error:  # one table that another one is at is no reason to leave the others
                    found = [maintainer.refused(name, error)]
            results += found
            if not as_json:
                show(found)
    finally:
        documents.close()
    if as_json:
        emit(_documents(results))
    if any(result.failed for result in results):
        raise click.exceptions.Exit(1)
    return results


def _documents(results: list[StepResult]) -> list[dict[str, Any]]:
    return [result.to_json() for result in results]
