"""Plot time series: as bars of characters in a terminal, and as lines in a PNG or SVG image."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from neve.cli.output import escape_controls
from neve.cli.terminal.cells import find_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from neve.cli.terminal.time_series import Series, TimeSeries


EIGHTHS = " ▁▂▃▄▅▆▇█"
NARROWEST = 20  # columns of bars
ROWS = (2, 10)  # lines of one series, least and most
ALL_ROWS = 30  # lines that several series share
LONGEST_NAME = 60
DAY_SECONDS = 86_400


def draw_bars(found: TimeSeries, width: int, zone: str) -> Iterator[str]:
    """Yield the lines of a plot: series below each other, over one time axis. Series of one column have one scale."""
    scales = {column: _find_scale(found, column) for column in found.columns}
    label = max(len(format_value(value)) for scale in scales.values() for value in scale)
    room = max(NARROWEST, width - label - 3)
    rows = max(ROWS[0], min(ROWS[1], ALL_ROWS // len(found.series)))
    first, last = found.times[0], found.times[-1]
    form = _time_form((last - first).total_seconds(), found.step_seconds)
    for one in found.series:
        low, high = scales[one.column]
        yield _format_title(one, form, zone, several=len(found.columns) > 1)
        levels = [_level(value, low, high, rows) for value in _spread(one, found, room)]
        for row in reversed(range(rows)):
            mark = format_value(high) if row == rows - 1 else format_value(low) if row == 0 else ""
            bars = "".join(EIGHTHS[0 if level is None else max(0, min(8, level - 8 * row))] for level in levels)
            yield f"{mark:>{label}} ┤{bars}".rstrip()
        yield ""
    start, end = _format_axis(first, form, zone), _format_axis(last, form, zone)
    yield f"{'':<{label}}  {start}{end:>{room - len(start)}}"


def _find_scale(found: TimeSeries, column: str) -> tuple[float, float]:
    """Return the ends of the scale of a column: bars begin at zero."""
    values = [value for one in found.series if one.column == column for _time, value in one.points]
    low, high = min(0.0, *values), max(0.0, *values)
    return (low, high) if high > low else (low, low + 1.0)


def _spread(one: Series, found: TimeSeries, room: int) -> list[float | None]:
    """Return a value for each column of the plot: the mean of the points in it; None without points."""
    start, step = found.times[0], found.step_seconds
    cell = ((found.times[-1] - start).total_seconds() + step) / room
    sums, counts = [0.0] * room, [0] * room
    for time, value in one.points:
        at = (time - start).total_seconds()
        begin = min(room - 1, round(at / cell))
        for place in range(begin, max(begin + 1, min(room, round((at + step) / cell)))):
            sums[place] += value
            counts[place] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def _level(value: float | None, low: float, high: float, rows: int) -> int | None:
    """Return the height of a bar in eighths of a line; a point is visible however small it is."""
    return None if value is None else max(1, round((value - low) / (high - low) * rows * 8))


def _format_title(one: Series, form: str, zone: str, *, several: bool) -> str:
    at, value = one.peak
    name = " ".join(part for part in (one.label, one.column if several or not one.label else "") if part)
    latest = format_value(one.points[-1][1])
    return f"{shorten(name)}: peak {format_value(value)} at {_format_axis(at, form, zone)}, last {latest}"


def shorten(name: str) -> str:
    """Return a name for a plot: one line, printable, not long."""
    plain = escape_controls(name).replace("\n", " ")
    return plain if len(plain) <= LONGEST_NAME else f"{plain[: LONGEST_NAME - 1]}…"


def _time_form(seconds: float, step: float) -> str:
    if seconds >= DAY_SECONDS:
        return "%Y-%m-%d" if step >= DAY_SECONDS else "%Y-%m-%d %H:%M"
    return "%H:%M" if step >= 60 else "%H:%M:%S"


def _format_axis(moment: datetime, form: str, zone: str) -> str:
    return (moment.astimezone(find_zone(zone)) if zone else moment).strftime(form)


def format_value(value: float) -> str:
    """Format a number for an axis.

    >>> format_value(1234567.0), format_value(12.3456), format_value(0.0)
    ('1,234,567', '12.35', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


# Colours that the colour-blind can tell apart, too; line styles differ from the seventh series on.
COLOURS = ("#0b4f8a", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLES = ("-", "--")


def write_image(found: TimeSeries, path: str, zone: str) -> None:
    """Write the series as an image: a plot for each column of numbers, a line for each label."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    from neve.errors import QueryError
    from neve.reservoir.estimate.plot import check_plot

    ending = check_plot(path)
    with rc_context({"svg.hashsalt": "neve", "font.family": "DejaVu Sans"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in characters that the font lacks shows boxes
        figure = Figure(figsize=(10, 1.0 + 3.2 * len(found.columns)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(found.columns), 1, sharex=True, squeeze=False)[:, 0]
        for axis, column in zip(axes, found.columns, strict=True):
            shown = [one for one in found.series if one.column == column]
            for number, one in enumerate(shown):
                line = STYLES[number // len(COLOURS) % len(STYLES)]
                times, values = zip(*one.points, strict=True)
                axis.plot(times, values, line, color=COLOURS[number % len(COLOURS)], marker="." * (len(values) < 60))
            axis.set_ylabel(shorten(column), parse_math=False)
            axis.grid(alpha=0.3)
            _add_legend(axis, [one.label for one in shown])
            locator = AutoDateLocator(tz=find_zone(zone) if zone else None)  # type: ignore[no-untyped-call]
            axis.xaxis.set_major_locator(locator)
            form = ConciseDateFormatter(locator, tz=find_zone(zone) if zone else None)  # type: ignore[no-untyped-call]
            axis.xaxis.set_major_formatter(form)
        try:
            figure.savefig(path, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else {})
        except OSError as error:
            raise QueryError(f"can't write {path}: {error.strerror or error}") from error


def _add_legend(axis, labels: Sequence[str]) -> None:  # type: ignore[no-untyped-def] # matplotlib is optional
    if any(labels):
        legend = axis.legend([shorten(label) for label in labels], loc="upper left", fontsize="small")
        for text in legend.get_texts():
            text.set_parse_math(False)
