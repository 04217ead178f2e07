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
    """What is in the lake: rows, files, bytes, snapshots and time range of each table, from metadata alone."""
    from neve.errors import TableMissing
    from neve.lake.statistics import table_statistics

    names = context.lake.table_names()
    if not names:
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    found = [table_statistics(context.lake.table(name)) for name in names]
    if as_json:
        emit(
            [
                vars(statistics) | {"earliest": _iso(statistics.earliest), "latest": _iso(statistics.latest)}
                for statistics in found
            ]
        )
        return
    rows = [
        (s.name, f"{s.rows:,}", f"{s.files:,}", size(s.bytes), f"{s.snapshots:,}", _short(s.earliest), _short(s.latest))
        for s in found
    ]
    table(("table", "rows", "files", "bytes", "snapshots", "earliest", "latest"), rows, right=(1, 2, 3, 4))


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _short(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S") if moment else ""
