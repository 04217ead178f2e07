"""`neve tables`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import emit, json_option, size, table

if TYPE_CHECKING:
    from datetime import datetime

    from neve.cli.context import Context


@click.command()
@json_option
@click.pass_obj
def tables(context: Context, as_json: bool) -> None:
    """What is in the lake: rows, files, bytes, snapshots and times of each table, from metadata alone.

    Known counts the records that ingestion left out because they were there already, in the commits that the table
    remembers; the rows of quarantine are the records that it refused.
    """
    from neve.errors import TableMissing
    from neve.lake.statistics import table_statistics

    names = context.lake.table_names()
    if not names:
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    found = [table_statistics(context.lake.table(name)) for name in names]
    if as_json:
        emit(
            [
                vars(statistics)
                | {name: _iso(getattr(statistics, name)) for name in ("earliest", "latest", "committed")}
                for statistics in found
            ]
        )
        return
    rows = [
        (
            *(s.name, f"{s.rows:,}", f"{s.files:,}", size(s.bytes), f"{s.snapshots:,}"),
            *(f"{s.duplicates:,}", _short(s.earliest), _short(s.latest), _short(s.committed)),
        )
        for s in found
    ]
    headers = ("table", "rows", "files", "bytes", "snapshots", "known", "earliest", "latest", "committed")
    table(headers, rows, right=(1, 2, 3, 4, 5))


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _short(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
