"""Numbers and layouts in the words of a reason; never a literal of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.autopilot.estimate.interval import Interval
    from neve.autopilot.layout import Layout

UNITS = ("B", "KB", "MB", "GB", "TB")


def size(count: float) -> str:
    """Bytes as people say them.

    >>> size(900), size(1536), size(3 * 1024**4)
    ('900 B', '1.5 KB', '3 TB')
    """
    value, unit = float(count), UNITS[0]
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def percent(share: float) -> str:
    """A share of a whole.

    >>> percent(0.123), percent(-0.004), percent(-0.0001)
    ('12 %', '-0.4 %', '0 %')
    """
    points = 100 * share
    return f"{points:.0f} %" if abs(points) >= 1 else f"{round(points, 1) or 0:g} %"


def between(interval: Interval) -> str:
    """An interval, its estimate first."""
    return f"{percent(interval.estimate)} ({percent(interval.low)} to {percent(interval.high)})"


def span(seconds: float) -> str:
    """A time as people say it.

    >>> span(40), span(600), span(7200), span(200000)
    ('40 s', '10 min', '2 h', '2.3 days')
    """
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86_400:.2g} days"


def money(dollars: float) -> str:
    """Dollars, however few.

    >>> money(12.345), money(0.00012)
    ('$12.35', '$0.00012')
    """
    return f"${dollars:,.2f}" if dollars >= 0.1 else f"${dollars:.2g}"


def named(names: list[str]) -> str:
    """Names in a sentence.

    >>> named(["a"]), named(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def difference(before: Layout, after: Layout) -> str:
    """What changes between two layouts.

    >>> from neve.autopilot.layout import Layout
    >>> difference(Layout(), Layout(sort=("a",)))
    'sort by a instead of nothing'
    """
    parts = []
    for name, verb in (("partition", "partition by"), ("sort", "sort by"), ("zorder", "z-order by")):
        old, new = getattr(before, name), getattr(after, name)
        if old != new and new:
            parts.append(f"{verb} {', '.join(map(str, new))} instead of {', '.join(map(str, old)) or 'nothing'}")
        elif old != new:
            parts.append(f"no longer {verb} {', '.join(map(str, old))}")
    promoted = [one.source for one in after.promoted if one not in before.promoted]
    blooms = [name for name in after.blooms if name not in before.blooms]
    if promoted:
        parts.append(f"a column for {named(promoted)}")
    if blooms:
        parts.append(f"bloom filters on {named(blooms)}")
    if after.target_file_bytes and after.target_file_bytes != before.target_file_bytes:
        parts.append(f"files of {size(after.target_file_bytes)}")
    return "; ".join(parts) or "nothing"
