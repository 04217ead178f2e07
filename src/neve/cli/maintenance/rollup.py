"""`neve rollup`: compute the metric rollups and show how far each level is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_error, print_json, print_table, print_text, progress_bar
from neve.cli.time_options import TimeParam
from neve.errors import NeveError
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.cli.context import Context
    from neve.rollup.job import LevelResult, Rollup
    from neve.rollup.status import LevelStatus

LEVELS = ("1m", "5m", "1h", "1d")


@click.group(short_help="Roll up metrics by minute, 5 minutes, hour and day.")
def rollup() -> None:
    """Roll up metrics by minute, 5 minutes, hour and day, incrementally.

    \b
    Examples:
      neve rollup run
      neve rollup run --level 1m --since 2026-01-31
      neve rollup status
    """


@rollup.command(short_help="Update the rollup levels, finest first.")
@click.option("--level", "levels", type=click.Choice(LEVELS), multiple=True, help="Only this level; may be repeated.")
@click.option(
    "--since",
    type=TimeParam(past=True),
    metavar="TIME",
    help="Recompute every window from this time on (UTC), changed or not.",
)
@click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")
@json_option
@click.pass_obj
def run(context: Context, levels: tuple[str, ...], since: datetime | None, steal: bool, as_json: bool) -> None:
    """Update the rollup levels, finest first, because each is computed from the one below it.

    A run reads the changes since the last one, computes the affected windows and replaces them in one commit per level.
    An interrupted run leaves nothing behind: run it again.
    """
    from neve.model.levels import LEVELS as ALL

    results, failed = [], False
    with progress_bar(enabled=not as_json) as bar:
        job = _open_rollup(context, bar, steal=steal)
        for level in [one for one in ALL if not levels or one.name in levels]:
            try:
                results.append(job.run_level(level, since))
            except NeveError as error:  # the levels above would be computed from missing rows
                print_error(error, as_json=as_json)
                failed = True
                break
    if as_json:
        print_json([result.as_document() for result in results])
    else:
        for result in results:
            show_result(result)
        if levels and any(result.committed for result in results) and results[-1].level != LEVELS[-1]:
            print_text("`neve rollup run` updates the higher levels")
    if failed:
        sys.exit(1)


@rollup.command(short_help="Show the last final window of each level and its lag.")
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show the last final window of each level, its lag, and source commits not yet rolled up."""
    found = _open_rollup(context, lambda _step, _done, _total: None).status()
    if as_json:
        print_json([one.as_document() for one in found])
        return
    headers = ("level", "table", "rows", "files", "bytes", "final until", "lag", "commits behind", "note")
    print_table(headers, [_status_row(one) for one in found], right=(2, 3, 4, 6, 7))


def show_result(result: LevelResult) -> None:
    """Print the result for a level."""
    if result.committed:
        _show_commit(result)
    else:
        print_text(f"{result.table}: nothing to do in closed windows ({result.reason})")
    for count, words in (
        (result.duplicates, "points arrived more than once and are counted once"),
        (result.without_value, "points have no value (none recorded, NaN or infinite)"),
        (result.unknown, "cumulative points have no earlier point to compute an increase from"),
        (result.left_windows, "windows are unchanged because retention may have removed some of their points"),
    ):
        if count:
            print_text(f"  {count:,} {words}")


def _show_commit(result: LevelResult) -> None:
    print_text(
        f"{result.table}: {format_count(result.source_rows, 'point' if result.level == '1m' else 'row')} became "
        f"{format_count(result.rows, 'row')} in {format_count(result.windows, 'window')}, "
        f"final until {result.closed_until}, in {format_duration(result.seconds)}"
    )
    print_text(f"  {result.reason}")
    replaced = [f"{format_count(result.files_added, 'file')} of {format_bytes(result.bytes_added)} added"]
    if result.files_removed:
        replaced.append(f"{result.files_removed:,} removed")
    if result.delete_files:
        replaced.append(f"rows of {format_count(result.delete_files, 'file')} marked as replaced")
    print_text(f"  {', '.join(replaced)}")


def _status_row(one: LevelStatus) -> tuple[str, ...]:
    lag = format_duration(one.lag_seconds)
    behind = "" if one.commits_behind is None else f"{one.commits_behind:,}"
    return (
        *(
            one.level,
            one.table,
            f"{one.rows:,}",
            f"{one.files:,}",
            format_bytes(one.bytes),
            one.closed_until or "never",
        ),
        *(lag, behind, one.note),
    )


def _open_rollup(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> Rollup:
    from neve.app.rollup import build_rollup

    return build_rollup(context.settings, context.lake, bar, steal=steal)
