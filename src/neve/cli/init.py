"""`neve init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import emit, json_option, say

if TYPE_CHECKING:
    from neve.cli.context import Context


@click.command()
@json_option
@click.pass_obj
def init(context: Context, as_json: bool) -> None:
    """Create the tables, or bring older ones up to this release.

    Runs as often as you like: what is there stays, new columns are added without rewriting a file, and a change that
    would need a rewrite is refused by name.
    """
    from neve.lake.tables import init_tables

    outcomes = init_tables(context.lake)
    if as_json:
        emit(
            [
                {"table": o.table, "created": o.created, "changes": [str(change) for change in o.changes]}
                for o in outcomes
            ]
        )
        return
    for outcome in outcomes:
        what = "created" if outcome.created else f"{len(outcome.changes)} changes" if outcome.changes else "up to date"
        say(f"{outcome.table:<16} {what}")
        for change in outcome.changes:
            say(f"{'':<16} - {change}")
    say(f"\nthe lake is at {context.settings.lake.location}")
