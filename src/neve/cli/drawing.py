"""What views are made of: tables of cells, and times as people say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from neve.cli.output import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rich.console import JustifyMethod

Cell = str | Text | ProgressBar


def duration(seconds: float | None) -> str:
    """A time as people say it; nothing for one that nobody knows.

    >>> duration(42), duration(600), duration(90_000), duration(900_000), duration(None)
    ('42 s', '10 min', '25.0 h', '10.4 d', '')
    """
    if seconds is None:
        return ""
    for limit, length, unit, digits in ((120, 1, "s", 0), (7200, 60, "min", 0), (172_800, 3600, "h", 1)):
        if seconds < limit:
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{seconds / 86_400:.1f} d"


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago a moment was; nothing where there was none."""
    return duration(max(0.0, (now - moment).total_seconds())) if moment else ""


def grid(headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Sequence[int] = ()) -> Table:
    """Cells under headers; columns in `right` hold numbers."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for position, header in enumerate(headers):
        # What comes first is what is copied: an id that is broken into two is none.
        justify: JustifyMethod = "right" if position in right else "left"
        drawn.add_column(header, justify=justify, overflow="fold", no_wrap=position == 0)
    for row in rows:
        drawn.add_row(*(Text(visible(cell)) if isinstance(cell, str) else cell for cell in row))
    return drawn
