"""`neve rollup`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.moment import Moment
from neve.cli.output import complain, emit, json_option, many, progress, say, size, table
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.cli.context import Context
    from neve.rollup.job import Rollup
    from neve.rollup.result import LevelResult, LevelStatus

LEVELS = ("1m", "5m", "1h", "1d")


@click.group()
def rollup() -> None:
    """Metrics by minute, five minutes, hour and day, computed anew where something changed.

    \b
    Examples:
      neve rollup run
      neve rollup run --level 1m --since 2026-01-31
      neve rollup status
    """


@rollup.command()
@click.option("--level", "levels", type=click.Choice(LEVELS), multiple=True, help="Only this level; may be repeated.")
@click.option(
    "--since",
    type=Moment(past=True),
    metavar="TIME",
    help="Compute every window from this time on (UTC), changed or not.",
)
@click.option("--steal", is_flag=True, help="Take the lease of a run that is known to be dead.")
@json_option
@click.pass_obj
def run(context: Context, levels: tuple[str, ...], since: datetime | None, steal: bool, as_json: bool) -> None:
    """Bring the levels up to date, the finest first, as each is made from the one below it.

    A run reads what changed since the last one, computes the windows that it touches and replaces them in one commit
    for each level. A run that was killed left nothing behind that counts: run it again.
    """
    from neve.model.rollups import LEVELS as ALL

    results, failed = [], False
    with progress(enabled=not as_json) as bar:
        job = _rollup(context, bar, steal=steal)
        for level in [one for one in ALL if not levels or one.name in levels]:
            try:
                results.append(job.run_level(level, since))
            except NeveError as error:  # the levels above would be made from what is not there
                complain(error, as_json=as_json)
                failed = True
                break
    if as_json:
        emit([result.as_document() for result in results])
    else:
        for result in results:
            show_result(result)
        if levels and any(result.committed for result in results) and results[-1].level != LEVELS[-1]:
            say("the levels above follow with `neve rollup run`")
    if failed:
        sys.exit(1)


@rollup.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """How far each level is: its last final window, how long ago that ended, and what it has not seen of its source."""
    found = _rollup(context, lambda _step, _done, _total: None).status()
    if as_json:
        emit([one.as_document() for one in found])
        return
    headers = ("level", "table", "rows", "files", "bytes", "final until", "lag", "commits behind", "note")
    table(headers, [_line(one) for one in found], right=(2, 3, 4, 6, 7))


def show_result(result: LevelResult) -> None:
    """What was done to a level."""
    if result.committed:
        _show_commit(result)
    else:
        say(f"{result.table}: nothing to do in closed windows ({result.reason})")
    for count, words in (
        (result.duplicates, "points came more than once, and count once"),
        (result.without_value, "points have no value (none recorded, NaN or infinite)"),
        (result.unknown, "points are of unknown worth: cumulative, with nothing before them to compare with"),
        (result.left_windows, "windows stay as they are: retention may have taken some of their points"),
    ):
        if count:
            say(f"  {count:,} {words}")


def _show_commit(result: LevelResult) -> None:
    say(
        f"{result.table}: {many(result.source_rows, 'point' if result.level == '1m' else 'row')} became "
        f"{many(result.rows, 'row')} in {many(result.windows, 'window')}, final until {result.closed_until}, "
        f"in {result.seconds:.1f} s"
    )
    say(f"  {result.reason}")
    replaced = [f"{many(result.files_added, 'file')} of {size(result.bytes_added)} added"]
    if result.files_removed:
        replaced.append(f"{result.files_removed:,} removed")
    if result.delete_files:
        replaced.append(f"rows of {many(result.delete_files, 'file')} marked as replaced")
    say(f"  {', '.join(replaced)}")


def _line(one: LevelStatus) -> tuple[str, ...]:
    lag = "" if one.lag_seconds is None else _time(one.lag_seconds)
    behind = "" if one.commits_behind is None else f"{one.commits_behind:,}"
    return (
        *(one.level, one.table, f"{one.rows:,}", f"{one.files:,}", size(one.bytes), one.closed_until or "never"),
        *(lag, behind, one.note),
    )


def _time(seconds: float) -> str:
    """A time as people say it.

    >>> _time(42), _time(600), _time(90_000)
    ('42 s', '10 min', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _rollup(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> Rollup:
    from neve.app.rollup import build_rollup

    return build_rollup(context.settings, context.lake, bar, steal=steal)
