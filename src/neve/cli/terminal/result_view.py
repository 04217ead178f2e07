"""Show the rows of a result: as a table if the columns fit into the terminal, else one below the other.

A whole table (`SELECT *`) begins with the columns that people look at first, and leaves out columns without any value.
Only the display differs: files and `--json` have all columns in the order of the statement.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from neve.cli.output import (
    GAP,
    escape_controls,
    print_note,
    print_text,
    print_unfolded,
    screen_width,
    show_in_pager,
    text_width,
)
from neve.cli.terminal.cells import AS_IS, UNSHORTENED, CellFormat
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa


TEXT_WIDTHS = (36, 18)  # that a column of text gets at least, if it needs it; a UUID fits into the first
TABLE_NESTED = 60  # characters of a nested value in a table
VERTICAL_LINES = 5  # of a nested value below its name
NARROWEST = 20  # columns of a value below its name, in a terminal however narrow

FIRST_COLUMNS = (
    *("timestamp", "service_name", "severity_text", "message", "operation_name", "duration_ms", "status_code"),
    *("status_message", "span_kind", "metric_name", "metric_type", "value", "count", "sum", "min", "max", "unit"),
    *("attributes", "trace_id", "span_id", "parent_span_id"),
)
LAST_COLUMNS = ("organization_id", "record_id", "ingested_at")

Orientation = Literal["auto", "on", "off"]


@dataclass
class ResultView:
    """Display settings of results; the commands of the prompt change them."""

    max_rows: int = 1000
    vertical: Orientation = "auto"
    zone: str = AS_IS
    full: bool = False
    paged: bool = False
    footer: bool = True

    def show(self, reader: pa.RecordBatchReader) -> None:
        """Print the first rows; with `paged`, text longer than the screen goes through the pager."""
        batches, more = _read_batches(reader, self.max_rows)
        columns = Columns.of(reader.schema, batches, whole=self.full)
        rows = sum(batch.num_rows for batch in batches)
        draw = self._choose_form(columns)
        show_in_pager(draw) if self.paged else draw()
        if columns.empty:
            print_note(f"{format_count(columns.empty, 'empty column')} not shown; --full or \\full shows them")
        if more:
            print_note(f"first {self.max_rows:,} rows; query.max_rows sets how many, --format gives all")
        elif self.footer:
            print_note(format_count(rows, "row"))

    def _choose_form(self, columns: Columns) -> Callable[[], None]:
        width = screen_width()
        if self.vertical == "on":
            return partial(self._print_vertical, columns, width)
        cells = columns.format(CellFormat(self.zone, UNSHORTENED if self.full else TABLE_NESTED))
        widths = _fit_table(columns, cells, width)
        if widths is None and self.vertical == "auto":
            return partial(self._print_vertical, columns, width)
        return partial(_print_table, columns, cells, widths or columns.required_widths(cells, TEXT_WIDTHS[0]))

    def _print_vertical(self, columns: Columns, width: int) -> None:
        names = columns.names
        label = max(map(text_width, names), default=0)
        room = max(width - label - GAP, NARROWEST)
        nested = UNSHORTENED if self.full else VERTICAL_LINES * room
        cells = columns.format(CellFormat(self.zone, nested))
        for line in _vertical_lines(names, cells, label, room):
            print_text(line)


@dataclass(frozen=True)
class Columns:
    """Columns of a result in the order of display; `empty` ones are left out."""

    fields: tuple[pa.Field, ...]
    chunks: tuple[tuple[pa.Array, ...], ...]
    empty: int = 0

    @classmethod
    def of(cls, schema: pa.Schema, batches: Sequence[pa.RecordBatch], *, whole: bool = False) -> Columns:
        """Return the columns of some batches; with `whole`, of a table those without values, too."""
        places = list(range(len(schema)))
        left = 0
        if batches and _is_table(schema.names):
            places = sort_columns(schema.names)
            shown = [place for place in places if whole or any(_has_values(batch.column(place)) for batch in batches)]
            left, places = len(places) - len(shown), shown
        chunks = tuple(tuple(batch.column(place) for batch in batches) for place in places)
        return cls(tuple(schema.field(place) for place in places), chunks, left)

    @property
    def names(self) -> list[str]:
        """The headers, escaped for a terminal."""
        return [escape_controls(field.name).replace("\n", " ") for field in self.fields]

    @property
    def numbers(self) -> list[int]:
        """The places of columns that are aligned to the right."""
        return [place for place, field in enumerate(self.fields) if is_number(field.type)]

    def format(self, form: CellFormat) -> list[list[str]]:
        """Return the texts of each column, escaped for a terminal."""
        return [
            [escape_controls(text).expandtabs(4) for chunk in chunks for text in form.format_column(chunk)]
            for chunks in self.chunks
        ]

    def required_widths(self, cells: Sequence[Sequence[str]], least_width: int) -> list[int]:
        """Return the widths below which columns can't be read: text is folded, all else stays in one piece."""
        natural = natural_widths(self.names, cells)
        least = [max(TEXT_WIDTHS), *[least_width] * len(natural)]  # the first column often names the row
        return [
            max(text_width(name), min(width, least[place])) if self._is_foldable(place) else width
            for place, (name, width) in enumerate(zip(self.names, natural, strict=True))
        ]

    def _is_foldable(self, place: int) -> bool:
        import pyarrow as pa

        kind = self.fields[place].type
        return place > 0 and bool(
            pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_nested(kind)
        )


def sort_columns(names: Sequence[str]) -> list[int]:
    """Return the places of columns in the order of display.

    >>> sort_columns(["organization_id", "trace_id", "links", "message", "timestamp"])
    [4, 3, 1, 2, 0]
    """
    ranks = {name: rank - len(FIRST_COLUMNS) for rank, name in enumerate(FIRST_COLUMNS)}
    ranks |= {name: rank + 1 for rank, name in enumerate(LAST_COLUMNS)}
    return sorted(range(len(names)), key=lambda place: ranks.get(names[place], 0))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is a number."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _read_batches(reader: pa.RecordBatchReader, most: int) -> tuple[list[pa.RecordBatch], bool]:
    """Read the first rows, and tell whether there are more."""
    taken: list[pa.RecordBatch] = []
    rows = 0
    for batch in reader:
        part = batch.slice(0, most - rows)
        rows += part.num_rows
        if part.num_rows:
            taken.append(part)
        if part.num_rows < batch.num_rows:
            return taken, True
    return taken, False


def _is_table(names: Sequence[str]) -> bool:
    """Return whether columns are those of a table of the lake, as `SELECT *` gives them."""
    from neve.model.tables import TABLES

    return any(list(names) == [column.name for column in table.columns] for table in TABLES)


def _has_values(column: pa.Array) -> bool:
    """Return whether a column has a value other than null, an empty list or an empty map."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return False
    if pa.types.is_map(column.type):
        return len(column.keys) > 0
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return bool(pc.any(pc.greater(pc.list_value_length(column), 0)).as_py())
    return True


def natural_widths(names: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of the longest text of each column."""
    return [max(map(text_width, (name, *texts))) for name, texts in zip(names, cells, strict=True)]


def _fit_table(columns: Columns, cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of columns side by side; None if they do not fit, or take more lines than vertical rows."""
    if len(cells) <= 1:
        return [min(width, one) for one in natural_widths(columns.names, cells)]
    for number, least_width in enumerate(TEXT_WIDTHS):
        required = columns.required_widths(cells, least_width)
        room = width - sum(required) - GAP * (len(required) - 1)
        if room < 0:
            continue
        widths = _share_room(required, natural_widths(columns.names, cells), room)
        if number == 0 or _count_lines(cells, widths) <= len(cells[0]) * (len(cells) + 1):
            return widths
    return None


def _share_room(required: Sequence[int], wanted: Sequence[int], room: int) -> list[int]:
    """Give the rest of the line to columns that have longer texts.

    >>> _share_room([5, 10, 10], [5, 12, 90], 20)
    [5, 12, 28]
    """
    given = list(required)
    needy = sorted(range(len(given)), key=lambda place: wanted[place] - given[place])
    for number, place in enumerate(needy):
        more = min(wanted[place] - given[place], room // (len(needy) - number))
        given[place] += more
        room -= more
    return given


def _count_lines(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> int:
    """Estimate the lines of a table."""
    return sum(
        max(-(-text_width(text) // max(1, width)) + text.count("\n") for text, width in zip(row, widths, strict=True))
        for row in zip(*cells, strict=True)
    )


def _print_table(columns: Columns, cells: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    if print_unfolded([columns.names, *zip(*cells, strict=True)], widths, columns.numbers):
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    numbers = columns.numbers
    for place, (name, width) in enumerate(zip(columns.names, widths, strict=True)):
        justify: Literal["right", "left"] = "right" if place in numbers else "left"
        drawn.add_column(Text(name), justify=justify, overflow="fold", width=width)
    for row in zip(*cells, strict=True):
        drawn.add_row(*map(Text, row))
    Console(width=max(screen_width(), sum(widths) + GAP * len(widths)), highlight=False).print(drawn)


def _vertical_lines(names: Sequence[str], cells: Sequence[Sequence[str]], label: int, room: int) -> Iterator[str]:
    """Yield the lines of rows: a rule with the number of the row, then each name with its value beside it."""
    for number, row in enumerate(zip(*cells, strict=True), 1):
        yield f"── row {number:,} ".ljust(label + GAP + min(room, 40), "─")
        for name, text in zip(names, row, strict=True):
            first, *others = _fold(text, room)
            yield f"{name}{' ' * (label - text_width(name) + GAP)}{first}".rstrip()
            yield from (f"{'':<{label + GAP}}{line}" for line in others)


def _fold(text: str, width: int) -> list[str]:
    """Fold text to a width: between words if every character takes one column, else anywhere."""
    from rich.cells import cell_len, chop_cells

    words = textwrap.TextWrapper(width, break_on_hyphens=False, replace_whitespace=False)
    return [
        part
        for line in text.split("\n")
        for part in ((words.wrap(line) if cell_len(line) == len(line) else chop_cells(line, width)) or [""])
    ]
