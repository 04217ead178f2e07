"""Estimates by group as a picture: dots with their intervals, beside the truth."""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import ConfigError, EnvironmentFault, LakeError
from neve.reservoir.estimate.bars import bars
from neve.reservoir.estimate.result import MEAN, RATE, SHARE, SUM, TOTAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from neve.reservoir.estimate.bars import Bar, Bars
    from neve.reservoir.estimate.result import Estimates
    from neve.reservoir.estimate.truth import Comparison

FORMATS = ("png", "svg")
LIMIT_DEFAULT = 20
# Blue and vermilion differ for the colour-blind too, and as light and dark; the marks differ in form besides.
ESTIMATED, TRUE = "#0b4f8a", "#d55e00"
WIDE = 30  # times that the largest number is above the smallest, from which on the axis is logarithmic
LABELS = {TOTAL: "records", RATE: "records per second", SHARE: "share of all records"}


def check_plot(path: str) -> str:
    """The format that the ending of a file says; refused before anything is computed."""
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise ConfigError(f"plot is {path!r}, expected a file that ends in .png or .svg")
    if find_spec("matplotlib") is None:
        raise EnvironmentFault("plots need matplotlib, which is not installed", hint="pip install 'neve[plot]'")
    return ending


def plot(
    told: Estimates, path: str, kind: str = TOTAL, *, beside: Comparison | None = None, limit: int = LIMIT_DEFAULT
) -> None:
    """Write a picture of one kind of estimate; the same estimates give the same bytes."""
    ending = check_plot(path)
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    shown = bars(told, kind, limit, beside)
    with rc_context({"svg.hashsalt": "neve", "font.family": "DejaVu Sans"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in letters that the font lacks shows boxes
        figure = Figure(figsize=(9, 1.9 + 0.3 * len(shown.bars)), layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure, shown, told, kind)
        try:
            figure.savefig(path, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else {})
        except OSError as error:
            raise LakeError(f"the plot can't be written to {path!r}: {error.strerror or error}") from error


def axis_label(told: Estimates, kind: str) -> str:
    """What the numbers of a plot are."""
    if kind in LABELS:
        return LABELS[kind]
    words = {SUM: "sum", MEAN: "mean"}.get(kind, kind)
    return f"{words} of {told.of}"


def _draw(figure: Figure, shown: Bars, told: Estimates, kind: str) -> None:
    axes = figure.subplots()
    places = range(len(shown.bars))
    _scale(axes, shown, kind)
    for place, bar in zip(places, shown.bars, strict=True):
        _draw_bar(axes, place, bar)
    axes.set_yticks(list(places), [bar.name for bar in shown.bars], parse_math=False)
    axes.set_ylim(len(shown.bars) - 0.4, -0.6)
    axes.set_xlabel(_beneath(axes, shown, told, kind), parse_math=False)
    axes.set_ylabel("group")
    axes.grid(axis="x", color="#d9d9d9", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    words = axis_label(told, kind)
    title = f"{words[0].upper() if kind in LABELS else words[0]}{words[1:]} by group, from {told.items:,} kept items"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", parse_math=False)
    _legend(figure, shown, told)


def _beneath(axes: Axes, shown: Bars, told: Estimates, kind: str) -> str:
    logarithmic = " (logarithmic)" if axes.get_xscale() == "log" else ""
    left = f"; {shown.left:,} more groups are not shown" if shown.left else ""
    return f"{axis_label(told, kind)}{logarithmic}{left}"


def _draw_bar(axes: Axes, place: int, bar: Bar) -> None:
    low, high = axes.get_xlim()
    reach = (max(bar.low, low), min(bar.high, high))  # a limit that is infinite goes to the edge, without a cap
    axes.plot(reach, (place, place), color=ESTIMATED, linewidth=2.2, solid_capstyle="butt", zorder=2)
    for end, shows in ((bar.low, bar.low >= low), (bar.high, bar.high <= high)):
        if shows:
            axes.plot((end,), (place,), marker="|", color=ESTIMATED, markersize=9, markeredgewidth=1.6, zorder=2)
    axes.plot((bar.value,), (place,), marker="o", color=ESTIMATED, markersize=6, zorder=3)
    if bar.truth is not None:
        for line in axes.plot((bar.truth,), (place,), zorder=4):
            _true_mark(line)


def _true_mark(line: Line2D) -> Line2D:
    """An open diamond, through which the estimate shows."""
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
        # 1, 2 and 5 of each power of ten; of more than a few powers only these.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 1e4 * least else (1,)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        room = 0.04 * ((most - min(least, 0.0)) or 1.0)
        axes.set_xlim(0.0 if least >= 0 else least - room, most + room)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0) if kind == SHARE else EngFormatter(sep=""))


def _legend(figure: Figure, shown: Bars, told: Estimates) -> None:
    from matplotlib.lines import Line2D  # noqa: PLC0415

    words = f"estimate with its {told.level * 100:g} % interval"
    marks = [Line2D([], [], color=ESTIMATED, marker="o", linewidth=2.2, markersize=6, label=words)]
    if any(bar.truth is not None for bar in shown.bars):
        marks.append(_true_mark(Line2D([], [], label="truth")))
    figure.legend(handles=marks, loc="outside lower right", ncols=2, frameon=False)
