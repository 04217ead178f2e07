"""`neve doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.output import emit, json_option, say

if TYPE_CHECKING:
    from neve.cli.context import Context

MARKS = {
    "ok": click.style("ok   ", fg="green"),
    "note": click.style("note ", fg="yellow"),
    "wrong": click.style("wrong", fg="red"),
}


@click.command()
@click.option("--spark", is_flag=True, help="Start Spark too.")
@json_option
@click.pass_obj
def doctor(context: Context, spark: bool, as_json: bool) -> None:
    """What is installed, found and reachable, and what is wrong, with the remedy. Exits with 1 when something is."""
    from neve.app.doctor import examine
    from neve.app.settings import config_file

    found = []
    for finding in examine(
        context.settings, context.lake, config_file=str(config_file(context.config)), start_spark=spark
    ):
        found.append(finding)
        if not as_json:
            say(f"{MARKS[finding.status]} {finding.what:<14} {finding.detail}")
            if finding.remedy:
                say(f"{'':<20} -> {finding.remedy}")
    if as_json:
        emit([vars(finding) for finding in found])
    if any(finding.status == "wrong" for finding in found):
        raise click.exceptions.Exit(1)
