"""Pictures of estimates: the same bytes each time, by the file's ending, with what a reader needs in them."""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING

import pytest

from neve.errors import ConfigError, EnvironmentFault, LakeError
from neve.reservoir.estimate import plot as plots
from neve.reservoir.estimate.comparison import Comparison, Truth, compare
from neve.reservoir.estimate.estimators import Question, estimate
from neve.reservoir.estimate.plot import Bar, check_plot, plot, select_bars, shorten_name
from neve.reservoir.estimate.sample import Sample
from tests.reservoir.estimate.services import NAMES, services

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def told() -> Comparison:
    """Twenty-two services."""
    sample, truth = services()
    return compare(estimate(Sample.of(sample), Question("value", (0.5, 0.999))), Truth.of(truth))


def texts(path: Path) -> list[str]:
    """The texts of an SVG: matplotlib draws letters as shapes and puts the text beside them as a comment."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


@pytest.mark.slow
def test_an_svg_is_the_same_each_time_and_says_what_it_shows(told: Comparison, tmp_path: Path) -> None:
    """Names, the axis with its unit, the level; no date."""
    one, two = tmp_path / "one.svg", tmp_path / "two.SVG"
    for path in (one, two):
        plot(told.estimates, str(path), comparison=told)
    assert one.read_bytes() == two.read_bytes()
    assert b"<dc:date>" not in one.read_bytes()
    found = texts(one)
    assert {"cart", "payments-gateway…production-blue", "2 others", "truth"} <= set(found)
    assert "estimate with its 95 % interval" in found
    assert any(text.startswith("records") for text in found)


@pytest.mark.long
@pytest.mark.slow
def test_a_png_is_one(told: Comparison, tmp_path: Path) -> None:
    """Of a size to look at, the same each time, and no taller than its groups need."""
    paths = [tmp_path / "one.png", tmp_path / "two.png", tmp_path / "few.png"]
    for path, limit in zip(paths, (20, 20, 3), strict=True):
        plot(told.estimates, str(path), limit=limit)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    heads = [struct.unpack(">8sIIII", path.read_bytes()[:24]) for path in paths]
    assert {head[0] for head in heads} == {b"\x89PNG\r\n\x1a\n"}
    assert heads[0][3] == heads[2][3] >= 1200
    assert heads[0][4] > heads[2][4] >= 300


@pytest.mark.slow
def test_a_quantile_says_of_what_and_how_many_groups_are_left(told: Comparison, tmp_path: Path) -> None:
    """Quantiles of groups can't be added up."""
    path = tmp_path / "p.svg"
    plot(told.estimates, str(path), "p50", limit=5)
    assert any(text.endswith(f"of value; {len(NAMES) - 5} more groups are not shown") for text in texts(path))
    assert "truth" not in texts(path)


@pytest.mark.slow
def test_limits_that_are_infinite_can_be_drawn(told: Comparison, tmp_path: Path) -> None:
    """They go to the edge."""
    assert any(math.isinf(line.estimates["p99.9"].high) for line in told.estimates.groups)
    plot(told.estimates, str(tmp_path / "p.svg"), "p99.9", comparison=told)
    assert (tmp_path / "p.svg").stat().st_size > 1000


def test_the_others_are_one_bar_with_their_errors_together(told: Comparison) -> None:
    """Values add up, and so do the squares of the errors."""
    shown = select_bars(told.estimates, "total", 20, told)
    rest = [line.estimates["total"] for line in told.estimates.groups[20:]]
    last = shown.bars[-1]
    assert (len(shown.bars), last.name, shown.left) == (21, "2 others", 0)
    assert last.value == pytest.approx(sum(one.value for one in rest))
    assert last.high - last.value == pytest.approx(math.hypot(*(one.high - one.value for one in rest)))
    assert last.truth == sum(one["total"].truth for one in told.groups[20:])
    values = [bar.value for bar in shown.bars[:20]]
    assert values == sorted(values, reverse=True)


def test_names_are_shown_as_they_are_and_short() -> None:
    """Without controls, and told apart by both ends."""
    assert shorten_name(None) == "(no name)"
    assert shorten_name("a\x1b[2J\n") == "a·[2J·"
    assert shorten_name("x" * 32) == "x" * 32
    assert len(shorten_name("x" * 33)) == 32
    assert Bar(shorten_name("a"), 1, 0, 2).truth is None


@pytest.mark.parametrize("path", ["a.pdf", "png", "a.svg.gz", ""])
def test_other_endings_are_refused(path: str) -> None:
    """Before anything is computed."""
    with pytest.raises(ConfigError, match=r"expected a file that ends in \.png or \.svg"):
        check_plot(path)


def test_without_matplotlib_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is an extra."""
    monkeypatch.setattr(plots, "find_spec", lambda _name: None)
    with pytest.raises(EnvironmentFault) as missing:
        check_plot("a.png")
    assert missing.value.hint == "pip install 'neve[plot]'"


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_said(told: Comparison, tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(LakeError, match="no-such-folder"):
        plot(told.estimates, str(tmp_path / "no-such-folder" / "a.png"))
