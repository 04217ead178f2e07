"""`neve query`: run SQL locally or on a server, print or export the result; without SQL, an interactive prompt."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import org_option, print_note, print_text, screen_width
from neve.cli.querying.query_target import LocalTarget, PromQLTarget, TableTarget
from neve.cli.terminal.cells import find_zone
from neve.cli.terminal.result_view import ResultView
from neve.cli.time_options import TimeParam
from neve.errors import QueryError
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa

    from neve.cli.context import Context
    from neve.cli.querying.query_target import QueryTarget
    from neve.query.request import Request


FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
TYPE_ERRORS = ("No function matches", "Could not choose a best candidate", "Conversion Error", "as a text")
BINARY_FORMATS = ("parquet", "arrow")
IMAGES = (".png", ".svg")


@click.command()
@click.argument("sql", required=False)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="Output format.  [default: table; with --output by its suffix]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, the same as --format jsonl.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, writable=True), help="Write to a file.")
@click.option(
    "--since", type=TimeParam(ago=True), metavar="TIME", help="Only rows from this time on: 1h, 7d (ago), or ISO 8601."
)
@click.option(
    "--until", type=TimeParam(ago=True), metavar="TIME", help="Only rows before this time: 30m (ago), or ISO 8601."
)
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
@click.option("--promql", is_flag=True, help="Read the argument as PromQL; with --since at each step, else at --until.")
@click.option("--logql", is_flag=True, help="Read the argument as LogQL: lines, or values as with --promql.")
@click.option("--traceql", is_flag=True, help="Read the argument as TraceQL: matching spans, or values at each step.")
@click.option("--step", metavar="DURATION", help="Step of --promql, --logql and --traceql.  [default: 250 steps]")
@click.option("--explain", is_flag=True, help="Show the files that would be read and why, instead of the result.")
@click.option("--timing", is_flag=True, help="Print statistics of the query on standard error.")
@click.option(
    "--vertical", "-x", is_flag=True, help="Print rows one below the other.  [default: if columns do not fit]"
)
@click.option("--full", is_flag=True, help="Do not shorten nested values, and show empty columns.")
@click.option("--tz", metavar="ZONE", help="Show times in a zone, such as Europe/Berlin or local.  [default: UTC]")
@click.option("--plot", is_flag=True, help="Plot times and numbers; with --output FILE.png or .svg as an image.")
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
    promql: bool,
    logql: bool,
    traceql: bool,
    step: str | None,
    explain: bool,
    timing: bool,
    vertical: bool,
    full: bool,
    tz: str | None,
    plot: bool,
    no_pager: bool,
    server: str | None,
    key: str | None,
    org: str | None,
) -> None:
    """Query the lake in SQL (DuckDB's dialect). Every table contains only the rows of the organization.

    Without SQL, reads the statement from standard input. At a terminal, opens a prompt with history and completion.

    --since and --until bound the column timestamp of every table, in addition to the conditions of the statement. Times
    without a zone are in UTC.

    \b
    Examples:
      neve query "SELECT service_name, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC"
      neve query "SELECT * FROM logs WHERE severity_number >= 17" --format parquet -o errors.parquet
      neve query --since 1h "SELECT * FROM logs WHERE has_term(message, :word)" -p word=exhausted
      neve query --explain "SELECT count(*) FROM spans WHERE trace_id = unhex('5b8aa5a2d2c872e8321cf37308d69df2')"
      neve query --plot "SELECT date_trunc('minute', timestamp) AS t, count(*) AS n FROM spans GROUP BY 1 ORDER BY 1"
      neve query --promql "sum by (job) (rate(http_requests_total[5m]))" --since 6h --plot
      neve query --logql 'sum by (status) (rate({service_name="shop"} | json [5m]))' --since 6h
      neve query --traceql '{ status = error } >> { kind = client && duration > 1s }' --since 6h
      neve query --server http://127.0.0.1:8480
    """
    from neve.query.request import UTC_ZONE, Request, TimeRange, split_zone

    form = _choose_format("jsonl" if as_json else form, output, plot=plot)
    _check_format(form, output)
    if tz:
        find_zone(tz)
    sql = _read_statement(sql)
    if server and org:
        raise QueryError(
            f"--org is {org!r}, expected none together with --server: the key selects the organization",
            hint="omit --org, and pass a key of that organization with --key",
        )
    chosen = [name for name, is_given in (("promql", promql), ("logql", logql), ("traceql", traceql)) if is_given]
    language = chosen[0] if len(chosen) == 1 else ""
    if chosen or step:
        _check_language(sql, language, server=server, is_measured=explain or timing or bool(parameters))
    asked = _remote_target(context, server, key) if server else _with_language(_local_target(context), language, step)
    organization = "" if server else context.organization(org)
    session_zone, sql = split_zone(sql) if sql and not language else ("", sql)
    if session_zone:
        find_zone(session_zone)
    request = Request(
        sql or "",
        organization,
        parameters=_parse_parameters(parameters),
        time=TimeRange(since, until),
        limit=limit,
        timeout_seconds=timeout,
        partial=partly,
        fresh=fresh,
        time_zone=session_zone or UTC_ZONE,
    )

    view = ResultView(
        context.settings.query.max_rows,
        vertical="on" if vertical else "auto",
        zone=tz or session_zone or context.settings.query.time_zone,
        full=full,
        paged=not no_pager,
    )

    def answer(one: Request, told: bool, form: str = form) -> None:
        with _text_hint(one):
            reply = asked.ask(one)
        if form == "table":
            view.show(reply.reader)
        elif form == "plot":
            _plot_result(reply.reader, output, view.zone)
        else:
            _write_result(reply.reader, form, output)
        if told:
            print_note(_format_statistics(reply.statistics()))

    if sql is None:
        from neve.cli.terminal.prompt import Prompt

        draw = partial(answer, told=False, form="plot")
        Prompt(asked, request, answer, timing=timing, view=view, plot=draw).run()
        return
    answer(request.asking(f"EXPLAIN {sql}") if explain else request, timing)


def _with_language(target: LocalTarget, language: str, step: str | None) -> QueryTarget:
    """Return the target of a language. Without one it is SQL."""
    if language == "promql":
        return PromQLTarget(target.service, _parse_step(step), lambda text: print_note(f"note: {text}"))
    return TableTarget(target.service, language, _parse_step(step)) if language else target


_EXAMPLES = {
    "promql": '"sum(rate(http_requests_total[5m]))"',
    "logql": """'{service_name="shop"} |= "error"'""",
    "traceql": "'{ status = error }'",
}
_PATHS = {"promql": "/prometheus/api/v1/query", "logql": "/loki/api/v1/query_range", "traceql": "/tempo/api/search"}


def _check_language(sql: str | None, language: str, *, server: str | None, is_measured: bool) -> None:
    """Reject options that other languages than SQL do not have."""
    if not language:
        hint = "add one of --promql, --logql and --traceql, or leave out --step"
        raise QueryError("--step is for PromQL, LogQL or TraceQL, one at a time", hint=hint)
    if sql is None:
        raise QueryError(f"--{language} needs an expression", hint=f"for example --{language} {_EXAMPLES[language]}")
    if server:
        hint = f"request {_PATHS[language]} of the server, or leave out --server"
        raise QueryError(f"--{language} runs in this process, not on a server", hint=hint)
    if is_measured:
        raise QueryError("--explain, --timing and --param are for SQL", hint="leave them out")


def _parse_step(text: str | None) -> int | None:
    """Return a step in milliseconds."""
    from neve.lexical.literals import LiteralError, parse_duration

    if text is None:
        return None
    try:
        milliseconds = parse_duration(text)
    except LiteralError:
        milliseconds = 0
    if milliseconds <= 0:
        raise QueryError(f"--step is {text!r}, expected a duration such as 30s, 1m or 1h30m")
    return milliseconds


def _choose_format(form: str | None, output: str | None, *, plot: bool) -> str:
    """Return the output format: as requested, else by the suffix of the file."""
    is_image = output is not None and output.lower().endswith(IMAGES)
    if not plot and not (is_image and form is None):
        return form or _format_of_file(output)
    if form not in (None, "table"):
        raise QueryError(f"--plot draws a picture, it can't be {form}", hint="leave out --plot, or --format and --json")
    if output is not None and not is_image:
        raise QueryError(f"--output is {output!r}, expected a file that ends in .png or .svg")
    return "plot"


def _check_format(form: str, output: str | None) -> None:
    """Reject an output format that does not fit the destination."""
    if form in BINARY_FORMATS and not output and sys.stdout.isatty():
        raise QueryError(f"{form} is not for a terminal", hint="add --output FILE, or redirect the output")
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


def _remote_target(context: Context, server: str, key: str | None) -> QueryTarget:
    from neve.cli.remote_client import RemoteClient

    return RemoteClient(server, key, context.settings.client)


def _local_target(context: Context) -> LocalTarget:
    from neve.lake.pandas_import import defer_pandas
    from neve.lake.pyiceberg_import import defer_models

    defer_pandas()
    defer_models()
    from neve.app.query.service import build_query_service
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
        hint = f"{names[0]} is not a string: for a string, write -p {names[0]}='\"{value}\"'"
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
    print_note(f"{format_count(rows, 'row')} in {output}")


def _plot_result(reader: pa.RecordBatchReader, output: str | None, zone: str) -> None:
    """Draw a result in the terminal, or to an image."""
    from neve.cli.terminal.plot import draw_bars, write_image
    from neve.cli.terminal.time_series import read_time_series

    if output is not None:
        from neve.reservoir.estimate.plot import check_plot

        check_plot(output)
    found = read_time_series(reader)
    if output is not None:
        write_image(found, output, zone)
        print_note(f"plotted to {output}")
    else:
        for line in draw_bars(found, screen_width(), zone):
            print_text(line)
    for note in found.notes:
        print_note(f"note: {note}")


def _format_statistics(statistics: dict[str, Any]) -> str:
    parts = [
        f"{format_duration(statistics['seconds'])}, planned in {format_duration(statistics['planning_seconds'])}",
        f"{statistics['engine']}",
        f"{format_count(statistics['files'], 'file')} of {format_bytes(statistics['bytes'])} read, "
        f"{format_count(statistics['pruned_files'], 'file')} of {format_bytes(statistics['pruned_bytes'])} pruned",
    ]
    parts += [f"cache {statistics['cache']}"] if statistics["cache"] else []
    return ", ".join([*parts, *statistics["notes"]])


def _format_of_file(output: str | None) -> str:
    if output is None:
        return "table"
    ending = output.rsplit(".", 1)[-1].lower()
    if ending not in FORMATS[1:]:
        raise QueryError(
            f"{output} has no known suffix",
            hint="use .jsonl, .csv, .parquet or .arrow, or pass --format",
        )
    return ending
