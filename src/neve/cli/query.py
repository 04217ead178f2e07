"""`neve query`."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from neve.cli.asking import Here
from neve.cli.far import Server
from neve.cli.moment import Moment
from neve.cli.output import note, org_option, size, table
from neve.cli.paging import paged
from neve.cli.prompt import Prompt
from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa

    from neve.cli.context import Context
    from neve.query.request import Request

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
OTHER_KIND = ("No function matches", "Could not choose a best candidate", "Conversion Error", "as a text")
BINARY = ("parquet", "arrow")


@click.command()
@click.argument("sql", required=False)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="How to print.  [default: table; with --output by its ending]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: the same as --format jsonl.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, writable=True), help="Write to a file.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only rows from this time on (UTC).")
@click.option("--until", type=Moment(), metavar="TIME", help="Only rows before this time (UTC).")
@click.option("--param", "-p", "parameters", multiple=True, metavar="NAME=VALUE", help="A value for :NAME in the SQL.")
@click.option("--limit", type=click.IntRange(min=1), metavar="ROWS", help="Cut the result off after so many rows.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="Give up after so long.  [default: never; a server has its own limit]",
)
@click.option("--fresh", is_flag=True, help="Take no result that was kept.")
@click.option("--partial", "partly", is_flag=True, help="Leave out files that can't be read, instead of failing.")
@click.option("--explain", is_flag=True, help="Say what would be read and why, instead of the answer.")
@click.option("--timing", is_flag=True, help="Say what the answer took, on standard error.")
@click.option("--no-pager", is_flag=True, help="Print long tables at once; else PAGER shows them page by page.")
@click.option("--server", metavar="ADDRESS", help="Ask a server, for example http://127.0.0.1:8480.")
@click.option("--key", envvar="NEVE_API_KEY", help="The API key for the server.  [env: NEVE_API_KEY]")
@org_option
@click.pass_obj
def query(
    context: Context,
    sql: str | None,
    form: str | None,
    as_json: bool,
    output: str | None,
    since: datetime | None,
    until: datetime | None,
    parameters: tuple[str, ...],
    limit: int | None,
    timeout: float | None,
    fresh: bool,
    partly: bool,
    explain: bool,
    timing: bool,
    no_pager: bool,
    server: str | None,
    key: str | None,
    org: str | None,
) -> None:
    """Ask the lake in SQL (DuckDB's dialect); every table holds the organization's rows only.

    Without SQL, what standard input says is asked; at a terminal, a prompt with history and completion.

    \b
    Examples:
      neve query "SELECT service_name, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC"
      neve query "SELECT * FROM logs WHERE severity_number >= 17" --format parquet -o errors.parquet
      neve query --since 2026-01-31 "SELECT * FROM logs WHERE has_term(message, :word)" -p word=exhausted
      neve query --explain "SELECT count(*) FROM spans WHERE trace_id = unhex('5b8aa5a2d2c872e8321cf37308d69df2')"
      neve query --server http://127.0.0.1:8480
    """
    from neve.query.request import Request, TimeRange

    form = "jsonl" if as_json else form or _form_of(output)
    _check_form(form, output)
    sql = _statement(sql)
    if server and org:
        raise QueryError(
            f"--org is {org!r}, expected none together with --server: the key says whose rows are asked for",
            hint="leave --org out, and give a key of that organization with --key",
        )
    asked = Server(server, key) if server else _here(context)
    organization = "" if server else context.organization(org)
    request = Request(
        sql or "",
        organization,
        parameters=_values(parameters),
        time=TimeRange(since, until),
        limit=limit,
        timeout_seconds=timeout,
        partial=partly,
        fresh=fresh,
    )

    def answer(one: Request, told: bool) -> None:
        with _text_hint(one):
            reply = asked.ask(one)
        if form == "table":
            show(reply.reader, context.settings.query.max_rows, pages=not no_pager)
        else:
            _write(reply.reader, form, output)
        if told:
            note(_took(reply.statistics()))

    if sql is None:
        Prompt(asked, request, answer, timing=timing).run()
        return
    answer(request.asking(f"EXPLAIN {sql}") if explain else request, timing)


def _check_form(form: str, output: str | None) -> None:
    """Refuse a form that does not fit where it goes."""
    if form in BINARY and not output and sys.stdout.isatty():
        raise QueryError(f"{form} is not for a terminal", hint="add --output FILE, or send the output somewhere")
    if form == "table" and output:
        raise QueryError("a table is for a terminal", hint=f"choose one of {', '.join(FORMATS[1:])} for a file")


def _statement(sql: str | None) -> str | None:
    """What is asked: the argument, else what standard input says; nothing at a terminal, which has a prompt."""
    if sql is not None or sys.stdin.isatty():
        return sql
    said = sys.stdin.read().strip()
    if not said:
        raise click.UsageError("Missing argument 'SQL': nothing was given, and standard input is empty")
    return said


def _here(context: Context) -> Here:
    from neve.app.query import build_query_service
    from neve.query.service import no_limits

    return Here(build_query_service(context.settings, context.lake, limits=no_limits))


def _values(parameters: tuple[str, ...]) -> dict[str, str | int | float | bool | None]:
    """Values by name; what is JSON is taken for it, all else is text."""
    found: dict[str, str | int | float | bool | None] = {}
    for text in parameters:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise QueryError(f"--param is {text!r}, expected NAME=VALUE")
        try:
            told = json.loads(value)
        except ValueError:
            told = value
        found[name] = value if isinstance(told, list | dict) else told
    return found


@contextmanager
def _text_hint(request: Request) -> Iterator[None]:
    """Where a function has no such kind of argument, a value that looks like a number may have been meant as text."""
    try:
        yield
    except QueryError as error:
        given = request.parameters
        names = [name for name, value in given.items() if not isinstance(value, str)] if isinstance(given, dict) else []
        if not names or not any(words in error.message for words in OTHER_KIND):
            raise
        value = json.dumps(given[names[0]])
        hint = f"{names[0]} is no text: for text, write -p {names[0]}='\"{value}\"'"
        raise QueryError(error.message, hint=hint) from error


def _write(reader: pa.RecordBatchReader, form: str, output: str | None) -> None:
    from neve.query.output import write_result

    if output is None:
        write_result(reader, form, sys.stdout.buffer)
        return
    try:
        with open(output, "wb") as sink:
            rows = write_result(reader, form, sink)
    except OSError as error:
        raise QueryError(f"can't write {output}: {error.strerror or error}") from error
    note(f"{rows:,} rows in {output}")


def _took(statistics: dict[str, Any]) -> str:
    parts = [
        f"{statistics['seconds']:.3f} s, planned in {statistics['planning_seconds'] * 1000:.0f} ms",
        f"{statistics['engine']}",
        f"{statistics['files']:,} files of {size(statistics['bytes'])} read, "
        f"{statistics['pruned_files']:,} of {size(statistics['pruned_bytes'])} pruned",
    ]
    parts += [f"cache {statistics['cache']}"] if statistics["cache"] else []
    return ", ".join([*parts, *statistics["notes"]])


def _form_of(output: str | None) -> str:
    if output is None:
        return "table"
    ending = output.rsplit(".", 1)[-1].lower()
    if ending not in FORMATS[1:]:
        raise QueryError(
            f"{output} has no ending that says its format",
            hint="name it .jsonl, .csv, .parquet or .arrow, or pass --format",
        )
    return ending


def show(reader: pa.RecordBatchReader, most: int, *, footer: bool = True, pages: bool = False) -> None:
    """The first rows as a table; with `pages`, one that is longer than the screen is shown page by page."""
    rows: list[list[str]] = []
    more = False
    for batch in reader:
        taken = batch.slice(0, most - len(rows))
        columns = [[cell(value, column.type) for value in column.to_pylist()] for column in taken.columns]
        rows += [list(row) for row in zip(*columns, strict=True)]
        more = more or taken.num_rows < batch.num_rows
        if len(rows) >= most and more:
            break
    numbers = [position for position, field in enumerate(reader.schema) if _is_number(field.type)]
    draw = partial(table, reader.schema.names, rows, right=numbers)
    paged(draw) if pages else draw()
    if more:
        note(f"first {most:,} rows; query.max_rows sets how many, --format gives all")
    elif footer:
        note(f"{len(rows):,} rows")


def cell(value: object, kind: pa.DataType | None = None) -> str:
    """One value as a person reads it."""
    from datetime import datetime

    from neve.query.output import plain

    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
        return text.rstrip("0").rstrip(".")
    said = plain(value, kind)
    if said is None:
        return ""
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
