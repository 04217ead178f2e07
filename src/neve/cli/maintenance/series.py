"""`neve series`: keep the tables of series and streams current, and show what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.maintenance.followers import show_results, show_status
from neve.cli.output import json_option, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.series.job import SeriesIndexer


@click.group(short_help="Keep the tables of series current, for labels of PromQL.")
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

    The sizes of streams are updated too.

    A run reads the files that were committed since the last one. An interrupted run leaves nothing behind: run it
    again.
    """
    with progress_bar(enabled=not as_json) as bar:
        results = _open_series(context, bar, steal=steal).run()
    show_results(results, as_json=as_json)


@series.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show how many files were not read yet. Queries read these files directly."""
    show_status(_open_series(context, lambda _step, _done, _total: None).status(), as_json=as_json)


def _open_series(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> SeriesIndexer:
    from neve.app.derived_tables import build_series

    return build_series(context.settings, context.lake, bar, steal=steal)
