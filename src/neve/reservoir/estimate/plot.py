"""Plot of estimates by group: dots with their intervals beside the truth; the largest groups, and the others as one."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import ConfigError, EnvironmentFault, LakeError
from neve.reservoir.estimate.result import MEAN, RATE, SHARE, SUM, TOTAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from neve.reservoir.estimate.comparison import Comparison
    from neve.reservoir.estimate.result import Estimate, Estimates


ADDABLE = (TOTAL, RATE, SHARE, SUM)
NO_NAME = "(no name)"
LONGEST = 32


@dataclass(frozen=True)
class Bar:
    """One group: its name, the estimate with its limits, and the true number if it is known."""

    name: str
    value: float
    low: float
    high: float
    truth: float | None = None


@dataclass(frozen=True)
class Bars:
    """Groups to plot, the largest first.

    `left` groups are omitted, because their numbers can't be added up.
    """

    bars: tuple[Bar, ...]
    left: int = 0


def select_bars(estimates: Estimates, kind: str, limit: int, comparison: Comparison | None = None) -> Bars:
    """Select the first groups of some estimates, and combine the rest into one if that is possible."""
    found = [
        _bar(shorten_name(line.group), line.estimates[kind], _truth(comparison, place, kind))
        for place, line in enumerate(estimates.groups)
        if not math.isnan(line.estimates[kind].value)
    ]
    rest = found[limit:]
    if not rest or kind not in ADDABLE:
        return Bars(tuple(found[:limit]), len(rest))
    return Bars((*found[:limit], _combine_groups(rest)))


def shorten_name(name: str | None, longest: int = LONGEST) -> str:
    """Shorten a name to fit beside a plot.

    Long names lose their middle, because their ends distinguish them.

    >>> shorten_name("payments-gateway-europe-west-production", 20)
    'payments-g…roduction'
    """
    if name is None:
        return NO_NAME
    plain = "".join(letter if letter.isprintable() else "·" for letter in name)
    if len(plain) <= longest:
        return plain
    tail = (longest - 1) // 2
    return f"{plain[: longest - 1 - tail]}…{plain[-tail:]}"


def _bar(name: str, estimate: Estimate, truth: float | None) -> Bar:
    return Bar(name, estimate.value, estimate.low, estimate.high, truth)


def _truth(comparison: Comparison | None, place: int, kind: str) -> float | None:
    compared = None if comparison is None else comparison.groups[place].get(kind)
    return None if compared is None else compared.truth


def _combine_groups(rest: Sequence[Bar]) -> Bar:
    """Combine groups: errors of groups are uncorrelated or negatively correlated, so that their squares add up."""
    value = math.fsum(one.value for one in rest)
    down = math.hypot(*(one.value - one.low for one in rest))
    up = math.hypot(*(one.high - one.value for one in rest))
    truths = [one.truth for one in rest if one.truth is not None]
    name = f"{len(rest):,} others" if len(rest) > 1 else rest[0].name
    return Bar(name, value, value - down, value + up, math.fsum(truths) if len(truths) == len(rest) else None)


FORMATS = ("png", "svg")
LIMIT_DEFAULT = 20
# Blue and vermilion differ for the colour-blind too, and in lightness. The marks also differ in shape.
ESTIMATED, TRUE = "#0b4f8a", "#d55e00"
WIDE = 30  # ratio of the largest number to the smallest from which on the axis is logarithmic
LABELS = {TOTAL: "records", RATE: "records per second", SHARE: "share of all records"}


def check_plot(path: str) -> str:
    """Return the image format for the suffix of a file.

    Others are rejected before anything is computed.
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise ConfigError(f"plot is {path!r}, expected a file that ends in .png or .svg")
    if find_spec("matplotlib") is None:
        raise EnvironmentFault("plots need matplotlib, which is not installed", hint="pip install 'neve[plot]'")
    return ending


def plot(
    estimates: Estimates,
    path: str,
    kind: str = TOTAL,
    *,
    comparison: Comparison | None = None,
    limit: int = LIMIT_DEFAULT,
) -> None:
    """Write a plot of one kind of estimate; the same estimates give the same bytes."""
    ending = check_plot(path)
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    shown = select_bars(estimates, kind, limit, comparison)
    with rc_context({"svg.hashsalt": "neve", "font.family": "DejaVu Sans"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in characters that the font lacks shows boxes
        figure = Figure(figsize=(9, 1.9 + 0.3 * len(shown.bars)), layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure, shown, estimates, kind)
        try:
            figure.savefig(path, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else {})
        except OSError as error:
            raise LakeError(f"the plot can't be written to {path!r}: {error.strerror or error}") from error


def axis_label(estimates: Estimates, kind: str) -> str:
    """Return the label of the axis of numbers."""
    if kind in LABELS:
        return LABELS[kind]
    words = {SUM: "sum", MEAN: "mean"}.get(kind, kind)
    return f"{words} of {estimates.of}"


def _draw(figure: Figure, shown: Bars, estimates: Estimates, kind: str) -> None:
    axes = figure.subplots()
    places = range(len(shown.bars))
    _scale(axes, shown, kind)
    for place, bar in zip(places, shown.bars, strict=True):
        _draw_bar(axes, place, bar)
    axes.set_yticks(list(places), [bar.name for bar in shown.bars], parse_math=False)
    axes.set_ylim(len(shown.bars) - 0.4, -0.6)
    axes.set_xlabel(_write_caption(axes, shown, estimates, kind), parse_math=False)
    axes.set_ylabel("group")
    axes.grid(axis="x", color="#d9d9d9", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    words = axis_label(estimates, kind)
    title = (
        f"{words[0].upper() if kind in LABELS else words[0]}{words[1:]} by group, from {estimates.items:,} kept items"
    )
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    _legend(figure, shown, estimates)


def _write_caption(axes: Axes, shown: Bars, estimates: Estimates, kind: str) -> str:
    logarithmic = " (logarithmic)" if axes.get_xscale() == "log" else ""
    left = f"; {shown.left:,} more groups are not shown" if shown.left else ""
    return f"{axis_label(estimates, kind)}{logarithmic}{left}"


def _draw_bar(axes: Axes, place: int, bar: Bar) -> None:
    low, high = axes.get_xlim()
    reach = (max(bar.low, low), min(bar.high, high))  # an infinite limit extends to the edge, without a cap
    axes.plot(reach, (place, place), color=ESTIMATED, linewidth=2.2, solid_capstyle="butt", zorder=2)
    for end, shows in ((bar.low, bar.low >= low), (bar.high, bar.high <= high)):
        if shows:
            axes.plot((end,), (place,), marker="|", color=ESTIMATED, markersize=9, markeredgewidth=1.6, zorder=2)
    axes.plot((bar.value,), (place,), marker="o", color=ESTIMATED, markersize=6, zorder=3)
    if bar.truth is not None:
        for line in axes.plot((bar.truth,), (place,), zorder=4):
            _style_true_mark(line)


def _style_true_mark(line: Line2D) -> Line2D:
    """Style a mark as an open diamond, through which the estimate is visible."""
    line.set(linestyle="none", marker="D", markersize=8.5, markeredgewidth=1.6)
    line.set(markerfacecolor="none", markeredgecolor=TRUE)
    return line


def _scale(axes: Axes, shown: Bars, kind: str) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter, PercentFormatter  # noqa: PLC0415

    numbers = [one for bar in shown.bars for one in (bar.low, bar.value, bar.high, bar.truth) if one is not None]
    edges = [one for one in numbers if math.isfinite(one)]
    least, most = min(edges, default=0.0), max(edges, default=1.0)
    if least > 0 and most > WIDE * least:
        axes.set_xscale("log")
        axes.set_xlim(least / 1.3, most * 1.3)
        # 1, 2 and 5 of each power of ten. If there are more than a few powers, only the powers.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 1e4 * least else (1,)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        room = 0.04 * ((most - min(least, 0.0)) or 1.0)
        axes.set_xlim(0.0 if least >= 0 else least - room, most + room)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0) if kind == SHARE else EngFormatter(sep=""))


def _legend(figure: Figure, shown: Bars, estimates: Estimates) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    words = f"estimate with its {estimates.level * 100:g} % interval"
    marks = [Line2D([], [], color=ESTIMATED, marker="o", linewidth=2.2, markersize=6, label=words)]
    if any(bar.truth is not None for bar in shown.bars):
        marks.append(_style_true_mark(Line2D([], [], label="truth")))
    figure.legend(handles=marks, loc="outside lower right", ncols=2, frameon=False)
