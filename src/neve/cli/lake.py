"""`neve init`, `neve tables` and `neve doctor`: create the tables, list them, check the installation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_json, print_table, print_text
from neve.text import format_bytes

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context
    from neve.lake.read.local_statistics import TableStatistics


@click.command()
@json_option
@click.pass_obj
def init(context: Context, as_json: bool) -> None:
    """Create the tables, or upgrade older ones to this release.

    Safe to repeat: existing tables stay, and new columns are added without rewriting files. Fails, naming the column,
    if data would have to be rewritten.
    """
    from neve.app.wiring import build_documents, check_state_format
    from neve.lake.tables import init_tables

    documents = build_documents(context.settings)
    check_state_format(documents)
    documents.close()
    outcomes = init_tables(context.lake)
    if as_json:
        print_json(
            [
                {"table": o.table, "created": o.created, "changes": [str(change) for change in o.changes]}
                for o in outcomes
            ]
        )
        return
    for outcome in outcomes:
        what = "created" if outcome.created else f"{len(outcome.changes)} changes" if outcome.changes else "up to date"
        print_text(f"{outcome.table:<16} {what}")
        for change in outcome.changes:
            print_text(f"{'':<16} - {change}")
    print_text(f"\nthe lake is at {context.settings.lake.location}")
    if all(outcome.created for outcome in outcomes):
        print_text("next: `neve ingest files PATH`, or `neve serve` to receive OTLP")


@click.command(short_help="Show rows, files, bytes and time ranges of each table.")
@json_option
@click.pass_obj
def tables(context: Context, as_json: bool) -> None:
    """Show rows, files, bytes, snapshots and time ranges of each table, from metadata alone.

    The column duplicates counts records that ingestion skipped because they were already present, in the commits that
    the table still lists. The rows of quarantine are the rejected records.
    """
    from neve.lake.read.local_statistics import read_local_statistics

    found = read_local_statistics(context.settings.catalog) or _read_statistics(context)
    if as_json:
        print_json(
            [
                vars(statistics)
                | {name: _format_iso(getattr(statistics, name)) for name in ("earliest", "latest", "committed")}
                for statistics in found
            ]
        )
        return
    rows = [
        (
            *(s.name, f"{s.rows:,}", f"{s.files:,}", format_bytes(s.bytes), f"{s.snapshots:,}"),
            *(f"{s.duplicates:,}", _format_time(s.earliest), _format_time(s.latest), _format_time(s.committed)),
        )
        for s in sorted(found, key=_place_of)
    ]
    headers = ("table", "rows", "files", "bytes", "snapshots", "duplicates", "earliest", "latest", "committed")
    print_table(headers, rows, right=(1, 2, 3, 4, 5), optional=(8, 4, 5, 2))


def _place_of(statistics: TableStatistics) -> tuple[bool, str]:
    """Return the place of a table in the list: the three signals first, then the others by name."""
    from neve.model.signals import Signal

    return statistics.name not in {signal.table for signal in Signal}, statistics.name


def _read_statistics(context: Context) -> list[TableStatistics]:
    from neve.lake.pandas_import import defer_pandas

    defer_pandas()
    from neve.errors import TableMissing
    from neve.lake.read.statistics import read_table_statistics

    names = context.lake.table_names()
    if not names:
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    return [read_table_statistics(context.lake.table(name)) for name in names]


def _format_iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _format_time(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""


MARKS = {
    "ok": click.style("ok   ", fg="green"),
    "note": click.style("note ", fg="yellow"),
    "wrong": click.style("wrong", fg="red"),
}


@click.command(short_help="Check installation, configuration and connections.")
@click.option("--spark", is_flag=True, help="Also start Spark.")
@json_option
@click.pass_obj
def doctor(context: Context, spark: bool, as_json: bool) -> None:
    """Check installation, configuration and connections, and suggest remedies. Exits with 1 if there is a problem."""
    from neve.app.configuration.given_values import config_file
    from neve.lake.pandas_import import defer_pandas
    from neve.lake.pyiceberg_import import defer_models

    defer_pandas()
    defer_models()
    from neve.app.doctor import examine

    found = []
    for finding in examine(
        context.settings, context.lake, config_file=str(config_file(context.config)), start_spark=spark
    ):
        found.append(finding)
        if not as_json:
            print_text(f"{MARKS[finding.status]} {finding.what:<14} {finding.detail}")
            if finding.remedy:
                print_text(f"{'':<20} -> {finding.remedy}")
    if as_json:
        print_json([vars(finding) for finding in found])
    if any(finding.status == "wrong" for finding in found):
        raise click.exceptions.Exit(1)
