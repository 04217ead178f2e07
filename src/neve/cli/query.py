"""`neve query`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from neve.cli.output import note, org_option, table
from neve.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.cli.context import Context

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
BINARY = ("parquet", "arrow")


@click.command()
@click.argument("sql")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="How to print.  [default: table; with --output by its ending]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines: the same as --format jsonl.")
@click.option("--output", "-o", type=click.Path(dir_okay=False, writable=True), help="Write to a file.")
@org_option
@click.pass_obj
def query(context: Context, sql: str, form: str | None, as_json: bool, output: str | None, org: str | None) -> None:
    """Ask the lake in SQL (DuckDB's dialect); every table holds the organization's rows only.

    \b
    Examples:
      neve query "SELECT service_name, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC"
      neve query "SELECT * FROM logs WHERE severity_number >= 17" --format parquet -o errors.parquet
    """
    from neve.query.output import write_result
    from neve.query.run import run_query

    form = "jsonl" if as_json else form or _form_of(output)
    if form in BINARY and not output and sys.stdout.isatty():
        raise QueryError(f"{form} is not for a terminal", hint="add --output FILE, or send the output somewhere")
    settings = context.settings
    reader = run_query(context.lake, settings.query, sql, context.organization(org))
    if form == "table":
        if output:
            raise QueryError("a table is for a terminal", hint=f"choose one of {', '.join(FORMATS[1:])} for a file")
        show(reader, settings.query.max_rows)
        return
    if output is None:
        write_result(reader, form, sys.stdout.buffer)
        return
    try:
        with open(output, "wb") as sink:
            rows = write_result(reader, form, sink)
    except OSError as error:
        raise QueryError(f"can't write {output}: {error.strerror or error}") from error
    note(f"{rows:,} rows in {output}")


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


def show(reader: pa.RecordBatchReader, most: int, *, footer: bool = True) -> None:
    """The first rows as a table."""
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
    table(reader.schema.names, rows, right=numbers)
    if more:
        note(f"first {most:,} rows; query.max_rows sets how many, --format gives all")
    elif footer:
        note(f"{len(rows):,} rows")


def cell(value: object, kind: pa.DataType | None = None) -> str:
    """One value as a person reads it."""
    import json
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
