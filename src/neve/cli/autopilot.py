"""`neve autopilot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from neve.cli.autopilot_run import run
from neve.cli.autopilot_show import show_analysis, show_attempt, show_history, show_promises
from neve.cli.autopilot_steps import canary, merge, opened, propose, rollback, stage
from neve.cli.output import emit, json_option, say

if TYPE_CHECKING:
    from neve.autopilot.survey import Survey
    from neve.cli.context import Context

literals_option = click.option(
    "--literals/--no-literals", default=None, help="Show values of queries.  [default: autopilot.logs.allow_literals]"
)


@click.group()
def autopilot() -> None:
    """Layouts of tables from the queries that are asked: estimated, tried on a branch, proposed, merged, measured.

    Nothing changes main before the merge, and a merge can be taken back while its tag lives.

    \b
    Examples:
      neve autopilot analyze
      neve autopilot recommend spans
      neve autopilot stage spans
      neve autopilot run --once
      neve autopilot history
    """


for command in (stage, canary, propose, merge, rollback, run):
    autopilot.add_command(command)


@autopilot.command()
@click.argument("tables", nargs=-1)
@literals_option
@json_option
@click.pass_obj
def analyze(context: Context, tables: tuple[str, ...], literals: bool | None, as_json: bool) -> None:
    """What query logs ask of tables: columns by how they are filtered, joined and sorted by, and hot queries.

    Queries that can't be understood are counted and shown. Values are left out of everything unless they are allowed.

    \b
    Examples:
      neve autopilot analyze
      neve autopilot analyze spans logs --json
    """
    with opened(context, as_json=as_json) as pilot:
        found, names = pilot.survey.analyze(), pilot.survey.tables(tables)
        allowed = pilot.config.logs.allow_literals if literals is None else literals
    if as_json:
        document = found.as_document(allow_literals=allowed)
        emit({**document, "tables": [one for one in document["tables"] if one["table"] in names]})
    else:
        show_analysis(found, names, allow_literals=allowed)


@autopilot.command()
@click.argument("tables", nargs=-1)
@click.option("--all", "show_all", is_flag=True, help="Show every candidate that was rejected, not the first ten.")
@json_option
@click.pass_obj
def recommend(context: Context, tables: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """What should change about tables, with the expected reduction as an interval, the cost, and when it pays back.

    Layouts are tried on a sample of the rows; nothing is written. Rejected candidates are listed with why.

    \b
    Examples:
      neve autopilot recommend
      neve autopilot recommend spans --all
      neve autopilot recommend shop.orders --json
    """
    with opened(context, as_json=as_json) as pilot:
        survey: Survey = pilot.survey
        names, analysis = survey.tables(tables), survey.analyze()
        found = []
        for number, name in enumerate(names, 1):
            found.append(survey.advise(name, analysis))
            pilot.progress("tables", number, len(names))
    if as_json:
        emit([one.as_document() for one in found])
        return
    if not found:
        say("no table is looked after: name some in autopilot.tables")
    for one in found:
        show_promises(one, show_all=show_all)


@autopilot.command()
@click.argument("attempt_id", metavar="ATTEMPT", required=False)
@click.option("--table", "table", metavar="NAME", help="Only attempts of this table.")
@json_option
@click.pass_obj
def history(context: Context, attempt_id: str | None, table: str | None, as_json: bool) -> None:
    """Everything that was tried, how far it came and what it delivered; with ATTEMPT, its steps and reports.

    \b
    Examples:
      neve autopilot history
      neve autopilot history --table spans --json
      neve autopilot history 20260131020000-1f2e3d
    """
    with opened(context, as_json=as_json) as pilot:
        if attempt_id:
            one = pilot.find(attempt_id)
            steps = [(step, pilot.history.report(step)) for step in one.steps]
        else:
            name = pilot.survey.tables([table])[0] if table else ""
            attempts = pilot.history.attempts(name)
            outcomes = {found.attempt_id: found for found in pilot.history.outcomes(name)}
    if attempt_id:
        if as_json:
            emit({**one.as_document(), "reports": [report for _step, report in steps]})
        else:
            show_attempt(one)
    elif as_json:
        emit(
            [
                {**one.as_document(), "outcome": vars(outcomes[one.id]) if one.id in outcomes else None}
                for one in attempts
            ]
        )
    else:
        show_history(attempts, outcomes)
