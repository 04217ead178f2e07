"""Plots of results: bars in a terminal, lines in an image."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.cli.terminal.plot import draw_bars, write_image
from neve.cli.terminal.time_series import MAX_SERIES, read_time_series
from neve.errors import QueryError
from tests.cli.runner import run

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 31, 8, tzinfo=UTC)


def minutes(count: int) -> list[datetime]:
    """So many minutes."""
    return [START + timedelta(minutes=number) for number in range(count)]


def test_bars_of_one_series() -> None:
    """The highest fills its lines, a zero is visible, and what is missing is a gap."""
    times = minutes(4)
    table = pa.table({"minute": [times[0], times[1], times[3]], "n": [0, 8, 16]})
    lines = list(draw_bars(read_time_series(table.to_reader()), 24, "UTC"))
    assert lines[0] == "n: peak 16 at 08:03, last 16"
    assert lines[1] == "16 ┤               █████"
    assert lines[10] == " 0 ┤▁▁▁▁▁█████     █████"
    assert lines[-1].split() == ["08:00", "08:03"]


def test_a_series_for_each_label_and_column() -> None:
    """Series of one column have one scale; the largest come first, and times are in the zone."""
    rows = [(time, service, n, n / 10) for time in minutes(30) for service, n in (("cart", 5), ("payment", 50))]
    names = ["minute", "service", "n", "errors"]
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    found = read_time_series(table.to_reader())
    assert [(one.label, one.column) for one in found.series] == [
        ("payment", "n"),
        ("cart", "n"),
        ("payment", "errors"),
        ("cart", "errors"),
    ]
    lines = list(draw_bars(found, 80, "Europe/Berlin"))
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if "peak" in line][1] == "cart n: peak 5 at 09:00, last 5"
    assert lines[-1].split() == ["09:00", "09:29"]


def test_negative_and_many_points() -> None:
    """More points than columns are averaged; the scale reaches below zero."""
    times = [START + timedelta(seconds=number) for number in range(5000)]
    table = pa.table({"t": times, "v": [float(number % 3 - 1) for number in range(5000)]})
    lines = list(draw_bars(read_time_series(table.to_reader()), 60, "UTC"))
    assert lines[1].startswith(" 1 ┤")
    assert lines[10].startswith("-1 ┤")
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"n": [1]}, "a column of times"),
        ({"t": [START]}, "a column of numbers"),
        ({"t": pa.nulls(2, pa.timestamp("us", "UTC")), "n": [1, 2]}, "no points"),
        ({"t": [START], "n": [float("nan")]}, "no points"),
    ],
)
def test_a_result_that_has_no_series_is_refused(columns: dict[str, object], words: str) -> None:
    """In words, with a hint."""
    with pytest.raises(QueryError, match=words) as refused:
        read_time_series(pa.table(columns).to_reader())
    assert refused.value.hint


def test_only_the_largest_series_are_drawn() -> None:
    """And a note says how many are not."""
    names = [f"s{number}" for number in range(40)]
    table = pa.table({"t": [START] * 40, "name": names, "n": list(range(40))})
    found = read_time_series(table.to_reader())
    assert len(found.series) == MAX_SERIES
    assert found.series[0].label == "s39"
    assert found.notes == ("28 smaller series not drawn",)


def test_dates_and_times_without_a_zone() -> None:
    """Both can be plotted."""
    days = pa.table({"day": [(START + timedelta(days=number)).date() for number in range(3)], "n": [1, 2, 3]})
    assert next(draw_bars(read_time_series(days.to_reader()), 80, "")) == "n: peak 3 at 2026-02-02, last 3"


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_images(tmp_path: Path, ending: str) -> None:
    """A name with markup and characters that no font has is only text."""
    pytest.importorskip("matplotlib")
    table = pa.table({"t": minutes(3), "name": ["$x_{", "\x1b漢", "b"], "n": [1, 2, 3], "m": [3, 2, 1]})
    path = tmp_path / f"plot.{ending}"
    write_image(read_time_series(table.to_reader()), str(path), "Europe/Berlin")
    assert path.read_bytes().startswith(b"\x89PNG" if ending == "png" else b"<?xml")


@pytest.mark.slow
def test_the_command_plots(config: str, tmp_path: Path) -> None:
    """To the terminal, and by its ending to an image; other formats are refused."""
    sql = "SELECT timestamp, count(*) AS n FROM logs GROUP BY 1"
    shown = run("-c", config, "query", sql, "--plot")
    assert shown.code == 0
    assert shown.text.startswith("n: peak 2 at 08:53:20, last 2\n")
    picture = tmp_path / "n.svg"
    drawn = run("-c", config, "query", sql, "-o", str(picture))
    assert (drawn.code, drawn.errors) == (0, f"plotted to {picture}\n")
    assert picture.exists()
    for options in (["--plot", "--json"], ["--plot", "-o", "x.csv"]):
        assert run("-c", config, "query", sql, *options).code == 1
    failed = run("-c", config, "query", sql, "--plot", "-o", str(tmp_path / "gone" / "x.png"))
    assert failed.code == 1
    assert "can't write" in failed.errors
