"""Commands of `neve autopilot`: analysis, recommendations, the steps of an attempt, the nightly run, the history."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from neve.cli.maintenance.autopilot_output import (
    show_analysis,
    show_attempt,
    show_history,
    show_merge,
    show_outcome,
    show_promises,
    show_rollback,
    show_run,
    show_staged,
    show_table,
    show_trial,
)
from neve.cli.output import json_option, print_error, print_json, print_json_line, print_note, print_text, progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.attempt_runner import AttemptRunner
    from neve.autopilot.nightly_run import RunReport
    from neve.autopilot.workload_scan import WorkloadScan
    from neve.cli.context import Context


steal_option = click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")


@contextmanager
def open_autopilot(context: Context, *, as_json: bool, steal: bool = False) -> Iterator[AttemptRunner]:
    """Return the autopilot of the settings, with a progress bar on a terminal."""
    from neve.app.autopilot import open_pilot

    with (
        progress_bar(enabled=not as_json) as bar,
        open_pilot(context.settings, context.lake, bar, steal=steal) as pilot,
    ):
        yield pilot


@click.command()
@click.argument("table")
@steal_option
@json_option
@click.pass_obj
def stage(context: Context, table: str, steal: bool, as_json: bool) -> None:
    """Stage the recommended layout of a table on a branch. An interrupted stage is continued.

    Main is unchanged. Rows are counted and hashed on both sides.

    \b
    Examples:
      neve autopilot stage spans
    """
    from neve.errors import ConfigError

    with open_autopilot(context, as_json=as_json, steal=steal) as pilot:
        survey = pilot.scan
        [name, *others] = survey.tables([table])
        if others:
            raise ConfigError(f"{table} means {len(others) + 1} tables, expected one")
        attempt, analysis = pilot.open_attempt(name), None
        if attempt is None:
            analysis = survey.analyze()
            promises = survey.advise(name, analysis)
            if not promises.gains:
                raise ConfigError(
                    f"nothing is recommended for {name}: {promises.advice.reason}",
                    hint=f"neve autopilot recommend {name}",
                )
            attempt = pilot.begin(promises.gains[0], promises.advice)
        attempt, report = pilot.stage(attempt, analysis)
    if as_json:
        print_json({"attempt": attempt.as_document(), "stage": report.as_document()})
    else:
        show_staged(attempt, report)


@click.command()
@click.argument("attempt_id", metavar="ATTEMPT")
@steal_option
@json_option
@click.pass_obj
def canary(context: Context, attempt_id: str, steal: bool, as_json: bool) -> None:
    """Run hot queries on main and on the branch. A failed canary rolls the attempt back.

    To pass, results must be identical, including types, and the lower bound of the reduction of planned bytes must
    reach autopilot.stage.canary.threshold_pct.

    \b
    Examples:
      neve autopilot canary 20260131020000-1f2e3d
    """
    with open_autopilot(context, as_json=as_json, steal=steal) as pilot:
        attempt = pilot.find(attempt_id)
        hot = pilot.hot(attempt.table, pilot.scan.analyze())
        attempt, trial = pilot.canary(attempt, hot)
    if as_json:
        print_json({"attempt": attempt.as_document(), **trial.as_document()})
    else:
        show_trial(attempt, trial)
    if not trial.canary.passed:
        raise click.exceptions.Exit(1)


@click.command(short_help="Open or update a pull request with the layout.")
@click.argument("attempt_id", metavar="ATTEMPT")
@json_option
@click.pass_obj
def propose(context: Context, attempt_id: str, as_json: bool) -> None:
    """Open or update a pull request, or a branch and a patch in a local repository of table specs.

    Merging it there approves the layout. Queries are shown without values unless autopilot.propose.allow_literals is
    set.

    \b
    Examples:
      neve autopilot propose 20260131020000-1f2e3d
    """
    with open_autopilot(context, as_json=as_json) as pilot:
        attempt, posted = pilot.propose(pilot.find(attempt_id))
    if as_json:
        print_json({"attempt": attempt.as_document(), "proposal": posted.as_document()})
        return
    print_text(f"{posted.action}: {posted.place}")
    if posted.patch:
        print_text(f"as a patch: {posted.patch}")
    print_text(f"after approval: neve autopilot merge {attempt.id}")


@click.command(short_help="Publish an approved layout, and measure hot queries again.")
@click.argument("attempt_id", metavar="ATTEMPT")
@click.option("--yes", is_flag=True, help="Approve it yourself. The canary must have passed.")
@steal_option
@json_option
@click.pass_obj
def merge(context: Context, attempt_id: str, yes: bool, steal: bool, as_json: bool) -> None:
    """Publish an approved layout on main in one commit, and measure the hot queries again.

    If main has changed, the file swap is rebased on it. Concurrent commits are not lost.

    \b
    Examples:
      neve autopilot merge 20260131020000-1f2e3d
      neve autopilot merge 20260131020000-1f2e3d --yes
    """
    with open_autopilot(context, as_json=as_json, steal=steal) as pilot:
        attempt = pilot.find(attempt_id)
        hot = pilot.hot(attempt.table, pilot.scan.analyze())
        attempt, report = pilot.merge(attempt, by_hand=yes)
        # The merge is committed: report it even if the measurement fails.
        if not as_json:
            show_merge(attempt, report)
        try:
            outcome = pilot.measure(attempt, hot)
        except Exception:
            if as_json:
                print_json({"merge": report.as_document(), "outcome": None})
            raise
    if as_json:
        print_json({"merge": report.as_document(), "outcome": vars(outcome) if outcome else None})
    else:
        show_outcome(outcome)


@click.command(short_help="Roll an attempt back, also after its merge.")
@click.argument("attempt_id", metavar="ATTEMPT")
@click.option("--reason", default="requested", show_default=True, help="Reason, shown in the history.")
@steal_option
@json_option
@click.pass_obj
def rollback(context: Context, attempt_id: str, reason: str, steal: bool, as_json: bool) -> None:
    """Roll an attempt back: delete its branch or, after the merge, restore the previous layout.

    Rows committed to main since the merge stay.

    \b
    Examples:
      neve autopilot rollback 20260131020000-1f2e3d --reason "a report got slower"
    """
    with open_autopilot(context, as_json=as_json, steal=steal) as pilot:
        attempt, report = pilot.rollback(pilot.find(attempt_id), reason)
    if as_json:
        print_json({"attempt": attempt.as_document(), "rollback": report.as_document() if report else None})
    else:
        show_rollback(attempt, report)


@click.command(short_help="Run all steps, from analysis to merge and measurement.")
@click.argument("tables", nargs=-1)
@click.option("--once", is_flag=True, help="Run once, now, then exit.")
@click.option("--steal", is_flag=True, help="Take over the leases of a dead run.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    help="Port for Prometheus metrics; 0: disabled.  [default: autopilot.metrics_port]",
)
@json_option
@click.pass_obj
def run(
    context: Context, tables: tuple[str, ...], once: bool, steal: bool, metrics_port: int | None, as_json: bool
) -> None:
    """Run the nightly optimization: analyze, recommend, stage, canary, propose, merge approved layouts, and measure.

    Tables are processed one by one, under a lease and a time limit. The next run continues where this one stopped.
    Failed attempts are rolled back and kept in the history. Without --once it starts every day at autopilot.start_hour
    (UTC) until SIGTERM or Ctrl+C.

    \b
    Examples:
      neve autopilot run --once
      neve autopilot run --once spans logs
      neve autopilot run --metrics-port 9091
    """
    from neve.app.autopilot import build_nightly, open_pilot, run_nightly
    from neve.autopilot.metrics import serve_metrics

    with ExitStack() as beside:
        bar = beside.enter_context(progress_bar(enabled=once and not as_json))
        pilot = beside.enter_context(open_pilot(context.settings, context.lake, bar, steal=steal))
        port = pilot.config.metrics_port if metrics_port is None else metrics_port
        if port:
            address = pilot.config.metrics_address
            bound = beside.enter_context(serve_metrics(pilot.history, address, port))
            print_note(f"metrics on http://{address}:{bound}/metrics")
        nightly = build_nightly(pilot, (lambda _one: None) if as_json else show_table)
        if once:
            result = nightly.run(tables)
        else:
            run_nightly(
                nightly,
                tables,
                lambda found: _report_run(found, as_json=as_json),
                lambda error: print_error(error, as_json=as_json),
            )
            return
    if as_json:
        print_json(result.as_document())
    else:
        show_run(result)
    if result.has_failed:
        raise click.exceptions.Exit(1)


def _report_run(result: RunReport, *, as_json: bool) -> None:
    if as_json:
        print_json_line(result.as_document())
    else:
        show_run(result)


literals_option = click.option(
    "--literals/--no-literals", default=None, help="Show query values.  [default: autopilot.logs.allow_literals]"
)


@click.group(short_help="Optimize table layouts from query logs.")
def autopilot() -> None:
    """Optimize table layouts from query logs: estimate, stage on a branch, propose, merge and measure.

    Nothing changes main before the merge, and a merge can be rolled back until its tag expires.

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


@autopilot.command(short_help="Analyze query logs: columns of filters, joins, sort orders.")
@click.argument("tables", nargs=-1)
@literals_option
@json_option
@click.pass_obj
def analyze(context: Context, tables: tuple[str, ...], literals: bool | None, as_json: bool) -> None:
    """Analyze query logs: columns used in filters, joins and sort orders, and hot queries.

    Queries that can't be parsed are counted and listed. Values are hidden unless they are allowed.

    \b
    Examples:
      neve autopilot analyze
      neve autopilot analyze spans logs --json
    """
    with open_autopilot(context, as_json=as_json) as pilot:
        found, names = pilot.scan.analyze(), pilot.scan.tables(tables)
        allowed = pilot.config.logs.allow_literals if literals is None else literals
    if as_json:
        document = found.as_document(allow_literals=allowed)
        print_json({**document, "tables": [one for one in document["tables"] if one["table"] in names]})
    else:
        show_analysis(found, names, allow_literals=allowed)


@autopilot.command(short_help="Recommend layouts with expected gain, cost and payback.")
@click.argument("tables", nargs=-1)
@click.option("--all", "show_all", is_flag=True, help="Show all rejected candidates instead of the first ten.")
@json_option
@click.pass_obj
def recommend(context: Context, tables: tuple[str, ...], show_all: bool, as_json: bool) -> None:
    """Recommend layout changes, with the expected reduction as an interval, the cost and the payback time.

    Layouts are estimated on a sample of the rows. Nothing is written. Rejected candidates are listed with the reason.

    \b
    Examples:
      neve autopilot recommend
      neve autopilot recommend spans --all
      neve autopilot recommend shop.orders --json
    """
    with open_autopilot(context, as_json=as_json) as pilot:
        survey: WorkloadScan = pilot.scan
        names, analysis = survey.tables(tables), survey.analyze()
        found = []
        for number, name in enumerate(names, 1):
            found.append(survey.advise(name, analysis))
            pilot.progress("tables", number, len(names))
    if as_json:
        print_json([one.as_document() for one in found])
        return
    if not found:
        print_text("no table is configured: set autopilot.tables")
    for one in found:
        show_promises(one, show_all=show_all)


@autopilot.command()
@click.argument("attempt_id", metavar="ATTEMPT", required=False)
@click.option("--table", "table", metavar="NAME", help="Only attempts of this table.")
@json_option
@click.pass_obj
def history(context: Context, attempt_id: str | None, table: str | None, as_json: bool) -> None:
    """List all attempts with their stage and measured result. With ATTEMPT, show its steps and reports.

    \b
    Examples:
      neve autopilot history
      neve autopilot history --table spans --json
      neve autopilot history 20260131020000-1f2e3d
    """
    with open_autopilot(context, as_json=as_json) as pilot:
        if attempt_id:
            one = pilot.find(attempt_id)
            steps = [(step, pilot.history.report(step)) for step in one.steps]
        else:
            name = pilot.scan.tables([table])[0] if table else ""
            attempts = pilot.history.attempts(name)
            outcomes = {found.attempt_id: found for found in pilot.history.outcomes(name)}
    if attempt_id:
        if as_json:
            print_json({**one.as_document(), "reports": [report for _step, report in steps]})
        else:
            show_attempt(one)
    elif as_json:
        print_json(
            [
                {**one.as_document(), "outcome": vars(outcomes[one.id]) if one.id in outcomes else None}
                for one in attempts
            ]
        )
    else:
        show_history(attempts, outcomes)
