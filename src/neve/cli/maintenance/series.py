"""`neve series`: keep the tables of series and streams current, and show what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_json, print_table, print_text, progress_bar
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.series.job import SeriesIndexer, SeriesResult


@click.group()
def series() -> None:
    """Keep the tables of series current, from which PromQL gets labels.

    \b
    Examples:
      neve series run
      neve series status
    """


@series.command()
@click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")
@json_option
@click.pass_obj
def run(context: Context, steal: bool, as_json: bool) -> None:
    """Add the series of new metrics and the streams of new logs.

    A run reads the files that were committed since the last one. An interrupted run leaves nothing behind: run it
    again.
    """
    with progress_bar(enabled=not as_json) as bar:
        results = _open_series(context, bar, steal=steal).run()
    if as_json:
        print_json([result.as_document() for result in results])
        return
    for result in results:
        show_result(result)


@series.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show how many files were not read yet. Queries read these files directly."""
    found = _open_series(context, lambda _step, _done, _total: None).status()
    if as_json:
        print_json([one.as_document() for one in found])
        return
    headers = ("table", "source", "files", "not read", "bytes not read")
    rows = [
        (one.table, one.source, f"{one.files:,}", f"{one.files_missing:,}", format_bytes(one.bytes_missing))
        for one in found
    ]
    print_table(headers, rows, right=(2, 3, 4))


def show_result(result: SeriesResult) -> None:
    """Print the result for a table."""
    if not result.committed:
        print_text(f"{result.table}: {result.reason}")
        return
    print_text(
        f"{result.table}: {format_count(result.rows, 'row')} on {format_count(result.days, 'day')} written "
        f"in {format_duration(result.seconds)}"
    )
    print_text(f"  {result.reason}")


def _open_series(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> SeriesIndexer:
    from neve.app.series import build_series

    return build_series(context.settings, context.lake, bar, steal=steal)
