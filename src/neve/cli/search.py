"""`neve search`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.output import complain, emit, json_option, many, progress, say, size, table
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.cli.context import Context
    from neve.search.job import Search
    from neve.search.result import BuildResult, IndexStatus


@click.group()
def search() -> None:
    """The index of words, which tells a full-text search the files that it need not open.

    \b
    Examples:
      neve search build
      neve search build logs
      neve search status
    """


@search.command()
@click.argument("name", metavar="[TABLE]", required=False)
@click.option("--steal", is_flag=True, help="Take the lease of a run that is known to be dead.")
@json_option
@click.pass_obj
def build(context: Context, name: str | None, steal: bool, as_json: bool) -> None:
    """Index the files that are not indexed yet, of one table or of all that the settings name.

    A run reads the columns of text that search.tables names, and commits what it made at its end. A run that was killed
    left nothing behind that counts: run it again.
    """
    results, failed = [], False
    with progress(enabled=not as_json) as bar:
        job = _search(context, bar, steal=steal)
        for one in [name] if name else job.config.tables:
            try:
                results.append(job.build(one))
            except NeveError as error:  # the others can be indexed all the same
                complain(error, as_json=as_json)
                failed = True
    if as_json:
        emit([result.as_document() for result in results])
    else:
        for result in results:
            show_result(result)
    if failed:
        sys.exit(1)


@search.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """How much of each table is indexed, and how large the index is."""
    found = _search(context, lambda _step, _done, _total: None).status()
    if as_json:
        emit([one.as_document() for one in found])
        return
    headers = ("table", "columns", "files", "indexed", "not indexed", "gone", "bytes", "share", "index", "of the data")
    table(headers, [_line(one) for one in found], right=tuple(range(2, len(headers))))


def show_result(result: BuildResult) -> None:
    """What was done to the index of a table."""
    if not result.committed:
        say(f"{result.table}: {result.reason}")
    else:
        say(
            f"{result.table}: {many(result.files_indexed, 'file')} of {size(result.data_bytes)} indexed in "
            f"{size(result.index_bytes)}, {many(result.rows, 'row')}, in {result.seconds:.1f} s"
        )
        say(f"  {result.reason}")
    if result.files_left_out:
        say(f"  {many(result.files_left_out, 'file')} can't be indexed: every search opens what is not indexed")


def _line(one: IndexStatus) -> tuple[str, ...]:
    numbers = (one.files, one.files_indexed, one.files_missing, one.files_gone)
    ratio = f"{one.index_bytes / one.bytes_indexed:.1%}" if one.bytes_indexed else ""
    return (
        *(one.table, ", ".join(one.columns), *(f"{number:,}" for number in numbers)),
        *(size(one.bytes), f"{one.share:.0%}", size(one.index_bytes), ratio),
    )


def _search(context: Context, bar: Callable[[str, int, int], None], *, steal: bool = False) -> Search:
    from neve.app.search import build_search

    return build_search(context.settings, context.lake, bar, steal=steal)
