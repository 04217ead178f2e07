"""`neve traces`: keep trace summaries and the service map current, and show what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.maintenance.followers import show_results, show_status
from neve.cli.output import json_option, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.traces.job import TraceAssembler


@click.group()
def traces() -> None:
    """Keep trace summaries and the service map current.

    \b
    Examples:
      neve traces run
      neve traces status
    """


@traces.command(short_help="Summarize new traces, and count calls between services.")
@click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")
@json_option
@click.pass_obj
def run(context: Context, steal: bool, as_json: bool) -> None:
    """Summarize the traces of new spans, and count the calls between their services.

    A run reads the files that were committed since the last one, and all spans of the traces in them. An interrupted
    run can be run again.
    """
    with progress_bar(enabled=not as_json) as bar:
        results = _open_traces(context, bar, steal=steal).run()
    show_results(results, as_json=as_json)


@traces.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show how many files were not read yet. Queries read these files directly."""
    show_status(_open_traces(context, lambda _step, _done, _total: None).status(), as_json=as_json)


def _open_traces(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> TraceAssembler:
    from neve.app.derived_tables import build_traces

    return build_traces(context.settings, context.lake, bar, steal=steal)
