"""`neve autopilot stage`, `canary`, `propose`, `merge` and `rollback`: an attempt, step by step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from neve.cli.autopilot_show import show_merge, show_outcome, show_rollback, show_staged, show_trial
from neve.cli.output import emit, json_option, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.pilot import Pilot
    from neve.cli.context import Context

steal_option = click.option("--steal", is_flag=True, help="Take the lease of a run that is known to be dead.")


@contextmanager
def opened(context: Context, *, as_json: bool, steal: bool = False) -> Iterator[Pilot]:
    """The autopilot of the settings, with a bar for people."""
    from neve.app.autopilot import open_pilot

    with (
        progress(enabled=not as_json) as bar,
        open_pilot(context.settings, context.lake, bar, steal=steal) as pilot,
    ):
        yield pilot


@click.command()
@click.argument("table")
@steal_option
@json_option
@click.pass_obj
def stage(context: Context, table: str, steal: bool, as_json: bool) -> None:
    """Put the recommended layout of a table on a branch; a stage that was killed is gone on with.

    Main reads as before. Rows are counted and hashed on both sides.

    \b
    Examples:
      neve autopilot stage spans
    """
    from neve.errors import ConfigError

    with opened(context, as_json=as_json, steal=steal) as pilot:
        survey = pilot.survey
        [name, *others] = survey.tables([table])
        if others:
            raise ConfigError(f"{table} means {len(others) + 1} tables, expected one")
        attempt, analysis = pilot.open_attempt(name), None
        if attempt is None:
            analysis = survey.analyze()
            promises = survey.advise(name, analysis)
            if not promises.kept:
                raise ConfigError(
                    f"nothing is recommended for {name}: {promises.advice.reason}",
                    hint=f"neve autopilot recommend {name}",
                )
            attempt = pilot.begin(promises.kept[0], promises.advice)
        attempt, report = pilot.stage(attempt, analysis)
    if as_json:
        emit({"attempt": attempt.as_document(), "stage": report.as_document()})
    else:
        show_staged(attempt, report)


@click.command()
@click.argument("attempt_id", metavar="ATTEMPT")
@steal_option
@json_option
@click.pass_obj
def canary(context: Context, attempt_id: str, steal: bool, as_json: bool) -> None:
    """Ask hot queries of main and of the branch; one that fails is taken back, with all that it staged.

    Passing means identical answers, types included, and a lower bound of the reduction of planned bytes of at least
    autopilot.stage.canary.threshold_pct.

    \b
    Examples:
      neve autopilot canary 20260131020000-1f2e3d
    """
    with opened(context, as_json=as_json, steal=steal) as pilot:
        attempt = pilot.find(attempt_id)
        hot = pilot.hot(attempt.table, pilot.survey.analyze())
        attempt, trial = pilot.canary(attempt, hot)
    if as_json:
        emit({"attempt": attempt.as_document(), **trial.as_document()})
    else:
        show_trial(attempt, trial)
    if not trial.canary.passed:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("attempt_id", metavar="ATTEMPT")
@json_option
@click.pass_obj
def propose(context: Context, attempt_id: str, as_json: bool) -> None:
    """Open a pull request, or a branch and a patch in a local repository of table specs; again: it is updated.

    Merging it there approves it. Queries are shown without values unless autopilot.propose.allow_literals is set.

    \b
    Examples:
      neve autopilot propose 20260131020000-1f2e3d
    """
    with opened(context, as_json=as_json) as pilot:
        attempt, posted = pilot.propose(pilot.find(attempt_id))
    if as_json:
        emit({"attempt": attempt.as_document(), "proposal": posted.as_document()})
        return
    say(f"{posted.action}: {posted.place}")
    if posted.patch:
        say(f"as a patch: {posted.patch}")
    say(f"after its approval: neve autopilot merge {attempt.id}")


@click.command()
@click.argument("attempt_id", metavar="ATTEMPT")
@click.option("--yes", is_flag=True, help="You approve it yourself; the canary must have passed all the same.")
@steal_option
@json_option
@click.pass_obj
def merge(context: Context, attempt_id: str, yes: bool, steal: bool, as_json: bool) -> None:
    """Publish an approved layout on main in one step, and measure the hot queries again.

    Where main has moved on, the swap of files is replayed on it: nothing that came meanwhile is lost.

    \b
    Examples:
      neve autopilot merge 20260131020000-1f2e3d
      neve autopilot merge 20260131020000-1f2e3d --yes
    """
    with opened(context, as_json=as_json, steal=steal) as pilot:
        attempt = pilot.find(attempt_id)
        hot = pilot.hot(attempt.table, pilot.survey.analyze())
        attempt, report = pilot.merge(attempt, by_hand=yes)
        # What was merged stands, and is said, whatever becomes of the measure.
        if not as_json:
            show_merge(attempt, report)
        try:
            outcome = pilot.measure(attempt, hot)
        except Exception:
            if as_json:
                emit({"merge": report.as_document(), "outcome": None})
            raise
    if as_json:
        emit({"merge": report.as_document(), "outcome": vars(outcome) if outcome else None})
    else:
        show_outcome(outcome)


@click.command()
@click.argument("attempt_id", metavar="ATTEMPT")
@click.option("--reason", default="asked for", show_default=True, help="Why, for the history.")
@steal_option
@json_option
@click.pass_obj
def rollback(context: Context, attempt_id: str, reason: str, steal: bool, as_json: bool) -> None:
    """Take an attempt back: its branch, or, after the merge, the layout that was there before.

    Rows that came to main since the merge stay.

    \b
    Examples:
      neve autopilot rollback 20260131020000-1f2e3d --reason "a report got slower"
    """
    with opened(context, as_json=as_json, steal=steal) as pilot:
        attempt, report = pilot.rollback(pilot.find(attempt_id), reason)
    if as_json:
        emit({"attempt": attempt.as_document(), "rollback": report.as_document() if report else None})
    else:
        show_rollback(attempt, report)
