"""`neve otap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.ingest import show as show_ingested
from neve.cli.moment import Moment
from neve.cli.output import emit, json_option, org_option, progress, say, size, table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.cli.context import Context
    from neve.ingest.otap.result import OtapResult
    from neve.otap.report import Report
    from neve.reservoir.export.job import ExportResult

TABLES = ("logs", "spans")


@click.group()
def otap() -> None:
    """Folders of OTAP Parquet, as OpenTelemetry Arrow writes them: into the lake, out of it, checked.

    \b
    Examples:
      neve otap check telemetry/
      neve otap import s3://raw/otap --org acme
      neve otap export out/ --table logs --since 2026-01-31 --until 2026-02-01
    """


@otap.command("import")
@click.argument("folder")
@org_option
@json_option
@click.pass_obj
def take_in(context: Context, folder: str, org: str | None, as_json: bool) -> None:
    """Take the logs and spans of FOLDER, a local one or an s3:// address, into the lake.

    Both conventions of ids are read, that of the specification and that of otel-arrow's exporter. Root files are
    remembered by content: running the same command again adds nothing. Records that can't be accepted go to the table
    quarantine with their reason.
    """
    from neve.app.otap import import_folder

    organization = context.organization(org)
    with progress(not as_json) as tell:
        result = import_folder(context.settings, context.lake, folder, organization, tell)
    emit(result.to_json()) if as_json else show_import(result)
    if result.ingested.failed or result.ingested.lost:
        raise click.exceptions.Exit(1)


@otap.command()
@click.argument("folder")
@click.option("--table", "name", type=click.Choice(TABLES), required=True, help="What is exported.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only rows from this time on (UTC).")
@click.option("--until", type=Moment(), metavar="TIME", help="Only rows from before this time (UTC).")
@org_option
@json_option
@click.pass_obj
def export(
    context: Context,
    folder: str,
    name: str,
    since: datetime | None,
    until: datetime | None,
    org: str | None,
    as_json: bool,
) -> None:
    """Write rows of an organization as OTAP Parquet into FOLDER, a local one or an s3:// address.

    The same command again leaves the folder as it is, and says so; where the lake has changed, or a run was killed, it
    writes its parts anew under the same ids. What OTAP can't say is counted by name.
    """
    from neve.app.otap import export_folder

    organization = context.organization(org)
    with progress(not as_json) as tell:
        result = export_folder(context.lake, folder, name, organization, (since, until), tell)
    emit(result.to_json()) if as_json else show_export(result)


@otap.command()
@click.argument("folder")
@json_option
@click.pass_obj
def check(context: Context, folder: str, as_json: bool) -> None:
    """Say whether FOLDER, a local one or an s3:// address, is valid OTAP, and by which convention its ids are written.

    Ends with 1 where something is wrong; what the specification allows, and a reader may still want to know, is noted.
    """
    from neve.app.otap import check_folders

    reports = check_folders(context.settings, folder)
    if as_json:
        emit([_document(report) for report in reports])
    else:
        for report in reports:
            show_check(report)
    if not all(report.is_valid for report in reports):
        raise click.exceptions.Exit(1)


def show_import(result: OtapResult) -> None:
    """The summary of an import."""
    show_ingested(result.ingested)
    for convention, parts in sorted(result.conventions.items()):
        say(f"parts     {parts:,} with ids as the {convention} has them")
    for name, files in sorted(result.other_tables.items()):
        say(f"          {files:,} file(s) of {name} left alone: only logs and spans are taken in")
    _show_losses(result.losses)


def show_export(result: ExportResult) -> None:
    """The summary of an export."""
    request, exported = result.request, result.exported
    if result.unchanged:
        say(f"{request.folder} holds these rows already: nothing was written")
    elif result.replaced:
        say("what an earlier run had written was replaced")
    say(f"records   {exported.rows[request.table]:,} {request.table}")
    for name, count in sorted(exported.rows.items()):
        if name != request.table:
            say(f"          {count:,} {name}")
    say(f"files     {exported.files:,} in {len(exported.parts):,} part(s), {size(exported.bytes)}")
    _show_losses(exported.losses)
    say(f"seconds   {result.seconds:.1f}")


def show_check(report: Report) -> None:
    """What was found in the tables of one root."""
    verdict = "valid" if report.is_valid else "not valid"
    say(f"{report.root}: {verdict}; ids as the {report.convention} has them")
    lines = [(name, f"{report.files[name]:,}", f"{rows:,}") for name, rows in report.rows.items()]
    table(("table", "files", "rows"), lines, right=(1, 2))
    for problem in report.problems:
        word = "wrong" if problem.is_error else "note"
        say(f"{word}: {problem.table}: {problem.kind.value}: {problem.count:,}, for example {problem.example}")


def _show_losses(losses: Mapping[str, int]) -> None:
    for name, count in sorted(losses.items()):
        if count:
            say(f"lost      {count:,} {name}")


def _document(report: Report) -> dict[str, Any]:
    return {
        "folder": report.base,
        "root": report.root,
        "valid": report.is_valid,
        "conventions": dict(report.conventions),
        "files": dict(report.files),
        "rows": dict(report.rows),
        "problems": [
            {
                "kind": problem.kind.value,
                "table": problem.table,
                "count": problem.count,
                "example": problem.example,
                "error": problem.is_error,
            }
            for problem in report.problems
        ],
    }
