"""`neve search`: build the full-text index and show its coverage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_error, print_json, print_table, print_text, progress_bar
from neve.errors import NeveError
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.search.job import BuildResult, IndexStatus, SearchIndexer


@click.group()
def search() -> None:
    """Build the full-text index, which lets a search skip files.

    \b
    Examples:
      neve search build
      neve search build logs
      neve search status
    """


@search.command()
@click.argument("name", metavar="[TABLE]", required=False)
@click.option("--steal", is_flag=True, help="Take over the lease of a dead run.")
@json_option
@click.pass_obj
def build(context: Context, name: str | None, steal: bool, as_json: bool) -> None:
    """Index new files of one table, or of all tables in the settings.

    A run reads the text columns in search.tables, and commits the index at its end. An interrupted run leaves nothing
    behind: run it again.
    """
    results, failed = [], False
    with progress_bar(enabled=not as_json) as bar:
        job = _open_search(context, bar, steal=steal)
        for one in [name] if name else job.config.tables:
            try:
                results.append(job.build(one))
            except NeveError as error:  # the other tables can be indexed
                print_error(error, as_json=as_json)
                failed = True
    if as_json:
        print_json([result.as_document() for result in results])
    else:
        for result in results:
            show_result(result)
    if failed:
        sys.exit(1)


@search.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show how much of each table is indexed, and the size of the index."""
    found = _open_search(context, lambda _step, _done, _total: None).status()
    if as_json:
        print_json([one.as_document() for one in found])
        return
    headers = ("table", "columns", "files", "indexed", "not indexed", "gone", "bytes", "share", "index", "of the data")
    print_table(headers, [_status_row(one) for one in found], right=tuple(range(2, len(headers))))


def show_result(result: BuildResult) -> None:
    """Print the result for the index of a table."""
    if not result.committed:
        print_text(f"{result.table}: {result.reason}")
    else:
        print_text(
            f"{result.table}: {format_count(result.files_indexed, 'file')} of {format_bytes(result.data_bytes)} "
            f"indexed in {format_bytes(result.index_bytes)}, {format_count(result.rows, 'row')}, "
            f"in {format_duration(result.seconds)}"
        )
        print_text(f"  {result.reason}")
    if result.files_left_out:
        print_text(
            f"  {format_count(result.files_left_out, 'file')} can't be indexed: every search opens unindexed files"
        )


def _status_row(one: IndexStatus) -> tuple[str, ...]:
    numbers = (one.files, one.files_indexed, one.files_missing, one.files_gone)
    ratio = f"{one.index_bytes / one.bytes_indexed:.1%}" if one.bytes_indexed else ""
    return (
        *(one.table, ", ".join(one.columns), *(f"{number:,}" for number in numbers)),
        *(format_bytes(one.bytes), f"{one.share:.0%}", format_bytes(one.index_bytes), ratio),
    )


def _open_search(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> SearchIndexer:
    from neve.app.search import build_search

    return build_search(context.settings, context.lake, bar, steal=steal)
