"""`neve otap`: import, export and check folders of OTAP Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.ingest_output import show_ingest as show_ingested
from neve.cli.output import json_option, org_option, print_json, print_table, print_text, progress_bar
from neve.cli.time_options import TimeParam
from neve.text import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.cli.context import Context
    from neve.ingest.results import OtapResult
    from neve.otap.check_report import Report
    from neve.reservoir.otap.export import ExportResult

TABLES = ("logs", "spans")


@click.group(short_help="Import, export and check OTAP Parquet folders.")
def otap() -> None:
    """Import, export and check OTAP Parquet folders, as written by OpenTelemetry Arrow.

    \b
    Examples:
      neve otap check telemetry/
      neve otap import s3://raw/otap --org acme
      neve otap export out/ --table logs --since 2026-01-31 --until 2026-02-01
    """


@otap.command("import", short_help="Import logs and spans of a folder into the lake.")
@click.argument("folder")
@org_option
@json_option
@click.pass_obj
def import_otap(context: Context, folder: str, org: str | None, as_json: bool) -> None:
    """Import the logs and spans of FOLDER, a local folder or an s3:// address, into the lake.

    Both id conventions are supported: that of the specification and that of otel-arrow's exporter. Root files are
    identified by their content: running the same command again adds nothing. Rejected records are stored in the table
    quarantine with the reason.
    """
    from neve.app.otap import import_folder

    organization = context.organization(org)
    with progress_bar(not as_json) as tell:
        result = import_folder(context.settings, context.lake, folder, organization, tell)
    print_json(result.to_json()) if as_json else show_import(result)
    if result.ingested.failed or result.ingested.lost:
        raise click.exceptions.Exit(1)


@otap.command(short_help="Export rows of an organization as OTAP Parquet.")
@click.argument("folder")
@click.option("--table", "name", type=click.Choice(TABLES), required=True, help="Signal to export.")
@click.option("--since", type=TimeParam(), metavar="TIME", help="Only rows from this time on (UTC).")
@click.option("--until", type=TimeParam(), metavar="TIME", help="Only rows before this time (UTC).")
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
    """Export rows of an organization as OTAP Parquet to FOLDER, a local folder or an s3:// address.

    Repeating the command leaves the folder unchanged and reports so. If the lake has changed, or a run was interrupted,
    it rewrites its parts under the same ids. Values that OTAP can't represent are counted by name.
    """
    from neve.app.otap import export_folder

    organization = context.organization(org)
    with progress_bar(not as_json) as tell:
        result = export_folder(context.lake, folder, name, organization, (since, until), tell)
    print_json(result.to_json()) if as_json else show_export(result)


@otap.command(short_help="Validate a folder of OTAP Parquet.")
@click.argument("folder")
@json_option
@click.pass_obj
def check(context: Context, folder: str, as_json: bool) -> None:
    """Validate FOLDER, a local folder or an s3:// address, as OTAP, and report the convention of its ids.

    Exits with 1 if there is an error. Notes are properties that the specification allows but readers may want to know.
    """
    from neve.app.otap import check_folders

    reports = check_folders(context.settings, folder)
    if as_json:
        print_json([_report_document(report) for report in reports])
    else:
        for report in reports:
            show_check(report)
    if not all(report.is_valid for report in reports):
        raise click.exceptions.Exit(1)


def show_import(result: OtapResult) -> None:
    """Print the summary of an import."""
    show_ingested(result.ingested)
    for convention, parts in sorted(result.conventions.items()):
        print_text(f"parts     {parts:,} with ids as the {convention} has them")
    for name, files in sorted(result.other_tables.items()):
        print_text(f"          {files:,} file(s) of {name} skipped: only logs and spans are ingested")
    _show_losses(result.losses)


def show_export(result: ExportResult) -> None:
    """Print the summary of an export."""
    request, exported = result.request, result.exported
    if result.unchanged:
        print_text(f"{request.folder} already contains these rows, nothing was written")
    elif result.replaced:
        print_text("the output of an earlier run was replaced")
    print_text(f"records   {exported.rows[request.table]:,} {request.table}")
    for name, count in sorted(exported.rows.items()):
        if name != request.table:
            print_text(f"          {count:,} {name}")
    print_text(
        f"files     {exported.files:,} in {format_count(len(exported.parts), 'part')}, {format_bytes(exported.bytes)}"
    )
    _show_losses(exported.losses)
    print_text(f"seconds   {result.seconds:.1f}")


def show_check(report: Report) -> None:
    """Print the findings in the tables of one root."""
    verdict = "valid" if report.is_valid else "not valid"
    print_text(f"{report.root}: {verdict}; ids as the {report.convention} has them")
    lines = [(name, f"{report.files[name]:,}", f"{rows:,}") for name, rows in report.rows.items()]
    print_table(("table", "files", "rows"), lines, right=(1, 2))
    for problem in report.problems:
        word = "wrong" if problem.is_error else "note"
        print_text(f"{word}: {problem.table}: {problem.kind.value}: {problem.count:,}, for example {problem.example}")


def _show_losses(losses: Mapping[str, int]) -> None:
    for name, count in sorted(losses.items()):
        if count:
            print_text(f"lost      {count:,} {name}")


def _report_document(report: Report) -> dict[str, Any]:
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
