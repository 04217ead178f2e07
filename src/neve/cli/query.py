"""`neve query`: run SQL locally or on a server, print or export the result; without SQL, an interactive prompt."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import org_option, print_error, print_note, print_table, print_text, show_in_pager
from neve.cli.query_target import LocalTarget
from neve.cli.remote_client import RemoteClient
from neve.cli.time_options import TimeParam
from neve.errors import NeveError, QueryError
from neve.text import format_bytes, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import pyarrow as pa
    from prompt_toolkit import PromptSession

    from neve.cli.context import Context
    from neve.cli.query_target import QueryTarget
    from neve.query.request import Request


HELP = """\
\\d            the tables
\\d TABLE      the columns of one
\\e SQL        what would be read for a statement, and why
\\timing       say after each answer what it took, or no longer
\\q            the end (as is Ctrl-D)
A statement ends with ; and may have several lines. Tab completes names, the arrows go through the history."""
COMPLETIONS = """\
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT WITH AS JOIN LEFT ON USING AND OR NOT IN IS NULL LIKE ILIKE BETWEEN
CASE WHEN THEN ELSE END DISTINCT UNION ALL ASC DESC INTERVAL TIMESTAMP count sum min max avg date_trunc now
quantile_cont has_term has_phrase regexp_matches"""


@dataclass
class Prompt:
    """An interactive prompt that reads statements until the end of input; `show` prints a result and its statistics."""

    asked: QueryTarget
    request: Request
    show: Callable[[Request, bool], None]
    timing: bool = False

    def run(self) -> None:
        """Run the prompt until the end of input."""
        print_text("SQL ends with ;   \\? is help, \\q the end")
        session = self._session()
        for text in _read_statements(session):
            if text in ("\\q", "exit", "quit"):
                return
            try:
                self._do(text)
            except NeveError as error:
                print_error(error, as_json=False)
            except KeyboardInterrupt:
                print_note("cancelled")

    def _do(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        match word:
            case "\\?" | "\\h" | "help":
                print_text(HELP)
            case "\\d":
                self._describe(rest.strip())
            case "\\e":
                self.show(self.request.asking(f"EXPLAIN {rest}"), False)
            case "\\timing":
                self.timing = not self.timing
                print_text(f"timing is {'on' if self.timing else 'off'}")
            case _ if word.startswith("\\"):
                print_text(f"{word} is no command; \\? lists them")
            case _:
                self.show(self.request.asking(text), self.timing)

    def _describe(self, name: str) -> None:
        if name:
            self.show(self.request.asking(f'DESCRIBE "{name.replace(chr(34), "")}"'), False)
            return
        print_table(("table", "columns"), [(one, ", ".join(columns)) for one, columns in self.asked.names().items()])

    def _session(self) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory

        folder = Path(click.get_app_dir("neve"))
        folder.mkdir(parents=True, exist_ok=True)
        names = self.asked.names()
        known = [*names, *sorted({column for columns in names.values() for column in columns}), *COMPLETIONS.split()]
        completer = WordCompleter(known, ignore_case=True)
        return PromptSession(history=FileHistory(str(folder / "history")), completer=completer)


def _read_statements(session: PromptSession[str]) -> Iterator[str]:
    """Yield the input statement by statement; a prompt command is one line."""
    lines: list[str] = []
    while True:
        try:
            line = session.prompt("neve> " if not lines else "  ... ")
        except KeyboardInterrupt:
            lines = []
            continue
        except EOFError:
            return
        lines.append(line)
        text = "\n".join(lines).strip()
        if not text:
            lines = []
        elif text.startswith("\\") or text in ("exit", "quit", "help"):
            lines = []
            yield text
        elif text.endswith(";"):
            lines = []
            yield text.rstrip(";").strip()


FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
TYPE_ERRORS = ("No function matches", "Could not choose a best candidate", "Conversion Error", "as a text")
BINARY_FORMATS = ("parquet", "arrow")


@click.command()
@click.argument("sql", required=False)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Output format.  [default: table; with --output by its suffix]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, the same as --format jsonl.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, writable=True), help="Write to a file.")
@click.option("--since", type=TimeParam(), metavar="TIME", help="Only rows from this time on (UTC).")
@click.option("--until", type=TimeParam(), metavar="TIME", help="Only rows before this time (UTC).")
@click.option(
    "--param",
    "-p",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value for :NAME in the SQL; may be repeated.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="ROWS", help="Maximum number of result rows.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="Timeout.  [default: none; a server has its own limit]",
)
@click.option("--fresh", is_flag=True, help="Bypass the result cache.")
@click.option("--partial", "partly", is_flag=True, help="Skip unreadable files instead of failing.")
@click.option("--explain", is_flag=True, help="Show the files that would be read and why, instead of the result.")
@click.option("--timing", is_flag=True, help="Print statistics of the query on standard error.")
@click.option("--no-pager", is_flag=True, help="Do not use PAGER for long tables.")
@click.option("--server", metavar="ADDRESS", help="Query a server, for example http://127.0.0.1:8480.")
@click.option("--key", envvar="NEVE_API_KEY", help="API key for the server.  [env: NEVE_API_KEY]")
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
    """Query the lake in SQL (DuckDB's dialect). Every table contains only the rows of the organization.

    Without SQL, reads the statement from standard input. At a terminal, opens a prompt with history and completion.

    \b
    Examples:
      neve query "SELECT service_name, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC"
      neve query "SELECT * FROM logs WHERE severity_number >= 17" --format parquet -o errors.parquet
      neve query --since 2026-01-31 "SELECT * FROM logs WHERE has_term(message, :word)" -p word=exhausted
      neve query --explain "SELECT count(*) FROM spans WHERE trace_id = unhex('5b8aa5a2d2c872e8321cf37308d69df2')"
      neve query --server http://127.0.0.1:8480
    """
    from neve.query.request import Request, TimeRange

    form = "jsonl" if as_json else form or _format_of_file(output)
    _check_format(form, output)
    sql = _read_statement(sql)
    if server and org:
        raise QueryError(
            f"--org is {org!r}, expected none together with --server: the key says whose rows are asked for",
            hint="leave --org out, and give a key of that organization with --key",
        )
    asked = RemoteClient(server, key) if server else _local_target(context)
    organization = "" if server else context.organization(org)
    request = Request(
        sql or "",
        organization,
        parameters=_parse_parameters(parameters),
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
            show_rows(reply.reader, context.settings.query.max_rows, pages=not no_pager)
        else:
            _write_result(reply.reader, form, output)
        if told:
            print_note(_format_statistics(reply.statistics()))

    if sql is None:
        Prompt(asked, request, answer, timing=timing).run()
        return
    answer(request.asking(f"EXPLAIN {sql}") if explain else request, timing)


def _check_format(form: str, output: str | None) -> None:
    """Reject an output format that does not fit the destination."""
    if form in BINARY_FORMATS and not output and sys.stdout.isatty():
        raise QueryError(f"{form} is not for a terminal", hint="add --output FILE, or send the output somewhere")
    if form == "table" and output:
        raise QueryError("a table is for a terminal", hint=f"choose one of {', '.join(FORMATS[1:])} for a file")


def _read_statement(sql: str | None) -> str | None:
    """Return the statement: the argument, else standard input; None at a terminal, which gets a prompt."""
    if sql is not None or sys.stdin.isatty():
        return sql
    said = sys.stdin.read().strip()
    if not said:
        raise click.UsageError("Missing argument 'SQL': nothing was given, and standard input is empty")
    return said


def _local_target(context: Context) -> LocalTarget:
    from neve.app.query import build_query_service
    from neve.query.service import no_limits

    return LocalTarget(build_query_service(context.settings, context.lake, limits=no_limits))


def _parse_parameters(parameters: tuple[str, ...]) -> dict[str, str | int | float | bool | None]:
    """Parse named parameter values; valid JSON becomes its value, anything else is text."""
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
    """Add a hint to a type error: a parameter that was parsed as a number may have been meant as text."""
    try:
        yield
    except QueryError as error:
        given = request.parameters
        names = [name for name, value in given.items() if not isinstance(value, str)] if isinstance(given, dict) else []
        if not names or not any(words in error.message for words in TYPE_ERRORS):
            raise
        value = json.dumps(given[names[0]])
        hint = f"{names[0]} is no text: for text, write -p {names[0]}='\"{value}\"'"
        raise QueryError(error.message, hint=hint) from error


def _write_result(reader: pa.RecordBatchReader, form: str, output: str | None) -> None:
    from neve.query.output import write_result

    if output is None:
        write_result(reader, form, sys.stdout.buffer)
        return
    try:
        with open(output, "wb") as sink:
            rows = write_result(reader, form, sink)
    except OSError as error:
        raise QueryError(f"can't write {output}: {error.strerror or error}") from error
    print_note(f"{rows:,} rows in {output}")


def _format_statistics(statistics: dict[str, Any]) -> str:
    parts = [
        f"{format_duration(statistics['seconds'])}, planned in {format_duration(statistics['planning_seconds'])}",
        f"{statistics['engine']}",
        f"{statistics['files']:,} files of {format_bytes(statistics['bytes'])} read, "
        f"{statistics['pruned_files']:,} of {format_bytes(statistics['pruned_bytes'])} pruned",
    ]
    parts += [f"cache {statistics['cache']}"] if statistics["cache"] else []
    return ", ".join([*parts, *statistics["notes"]])


def _format_of_file(output: str | None) -> str:
    if output is None:
        return "table"
    ending = output.rsplit(".", 1)[-1].lower()
    if ending not in FORMATS[1:]:
        raise QueryError(
            f"{output} has no ending that says its format",
            hint="name it .jsonl, .csv, .parquet or .arrow, or pass --format",
        )
    return ending


def show_rows(reader: pa.RecordBatchReader, most: int, *, footer: bool = True, pages: bool = False) -> None:
    """Print the first rows as a table; with `pages`, a table longer than the screen goes through the pager."""
    rows: list[list[str]] = []
    more = False
    for batch in reader:
        taken = batch.slice(0, most - len(rows))
        columns = [_format_column(column) for column in taken.columns]
        rows += [list(row) for row in zip(*columns, strict=True)]
        more = more or taken.num_rows < batch.num_rows
        if len(rows) >= most and more:
            break
    numbers = [position for position, field in enumerate(reader.schema) if _is_number(field.type)]
    draw = partial(print_table, reader.schema.names, rows, right=numbers)
    show_in_pager(draw) if pages else draw()
    if more:
        print_note(f"first {most:,} rows; query.max_rows sets how many, --format gives all")
    elif footer:
        print_note(f"{len(rows):,} rows")


def _format_column(column: pa.Array) -> list[str]:
    from neve.query.output import has_unnamed, to_json_values

    if has_unnamed(column.type):
        return [format_cell(value) for value in to_json_values(column)]
    return [format_cell(value, column.type) for value in column.to_pylist()]


def format_cell(value: object, kind: pa.DataType | None = None) -> str:
    """Format one value for a person."""
    from datetime import datetime

    from neve.query.output import to_json_value

    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
        return text.rstrip("0").rstrip(".")
    said = to_json_value(value, kind)
    if said is None:
        return ""
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
