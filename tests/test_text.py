"""Sizes, counts, amounts and durations in words: one system of units, in order, and never zero for something."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import neve
from neve.text import (
    BYTE_UNITS,
    format_age,
    format_bytes,
    format_count,
    format_dollars,
    format_duration,
    format_share,
    pluralize,
)

BYTES = {unit: 1000**power for power, unit in enumerate(BYTE_UNITS)}
SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
NOW = datetime(2026, 3, 10, tzinfo=UTC)

sizes = st.integers(0, 10**21) | st.floats(0, 1e21)
durations = st.floats(0.001, 1e9) | st.integers(0, 10**9)
amounts = st.floats(1e-12, 1e9)


def parse(text: str, units: dict[str, float] | dict[str, int]) -> float:
    """Return the number that a text with a unit stands for."""
    number, unit = text.split(" ")
    return float(number.replace(",", "")) * units[unit]


@given(sizes)
@example(999.5)
@example(999_499)
@example(999_500)
@example(0.2)
@example(10**21)
def test_a_size_is_read_back_within_its_precision(size: float) -> None:
    """Three significant digits are right, in a unit that leaves at most three before the point."""
    text = format_bytes(size)
    assert parse(text, BYTES) == pytest.approx(size, rel=0.005)
    assert float(text.split(" ")[0].replace(",", "")) < 1000 or text.endswith(" EB")


@given(sizes, sizes)
def test_larger_sizes_are_not_shown_as_smaller_ones(one: float, other: float) -> None:
    """The order of sizes is the order of their texts."""
    smaller, larger = sorted((one, other))
    assert parse(format_bytes(smaller), BYTES) <= parse(format_bytes(larger), BYTES)


@given(st.floats(5e-324, 1e30), st.sampled_from([format_bytes, format_dollars, format_duration, format_share]))
def test_an_amount_is_never_shown_as_nothing(amount: float, form: object) -> None:
    """A number that is not zero has a digit that is not zero."""
    assert callable(form)
    assert re.search("[1-9]", form(amount))


@pytest.mark.parametrize(
    ("form", "text"), [(format_bytes, "0 B"), (format_dollars, "$0"), (format_duration, "0 s"), (format_share, "0 %")]
)
def test_nothing_is_shown_as_zero(form: object, text: str) -> None:
    """Zero has its own text, without digits behind the point."""
    assert callable(form)
    assert form(0) == form(0.0) == text


@given(durations)
@example(119.7)
@example(7199.9)
@example(0.99996)
@example(1_045_006)
def test_a_duration_is_read_back_within_its_precision(seconds: float) -> None:
    """Three significant digits are right."""
    assert parse(format_duration(seconds), SECONDS) == pytest.approx(seconds, rel=0.005)


@given(durations, durations)
@example(119.96, 120)
@example(59.96, 60.04)
def test_longer_durations_are_not_shown_as_shorter_ones(one: float, other: float) -> None:
    """The order of durations is the order of their texts, up to the rounding of floating point."""
    shorter, longer = sorted((one, other))
    assert parse(format_duration(shorter), SECONDS) <= parse(format_duration(longer), SECONDS) * (1 + 1e-12)


@given(st.integers(0, 10**9))
def test_a_duration_may_be_a_timedelta(milliseconds: int) -> None:
    """Seconds and a timedelta of the same length have the same text."""
    length = timedelta(milliseconds=milliseconds)
    assert format_duration(length) == format_duration(length.total_seconds())


@given(amounts, amounts)
def test_dollars_keep_their_order_and_their_value(one: float, other: float) -> None:
    """Amounts are right to the cent, or to two significant digits, in plain notation."""
    smaller, larger = sorted((one, other))
    read = [float(format_dollars(amount).removeprefix("$").replace(",", "")) for amount in (smaller, larger)]
    assert read[0] <= read[1]
    assert read[1] == pytest.approx(larger, rel=0.05)
    assert "e" not in format_dollars(smaller)


@given(st.floats(-1e6, 1e6, allow_nan=False))
def test_negative_amounts_have_the_sign_first(amount: float) -> None:
    """The text of a loss is that of the gain with a sign."""
    loss = -abs(amount)
    for form in (format_bytes, format_dollars):
        assert form(loss) == ("-" if loss else "") + form(-loss)


@given(st.floats(-1, 1))
def test_shares_are_right_within_half_a_percent(share: float) -> None:
    """A share is rounded to whole percents, small ones to two digits."""
    text = format_share(share)
    found = float(text.split(" ")[-2])
    assert math.isclose(found, 100 * share, abs_tol=0.5)


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("row", "rows"),
        ("query", "queries"),
        ("key", "keys"),
        ("batch", "batches"),
        ("index", "indexes"),
        ("delete file", "delete files"),
        ("file of deletes", "files of deletes"),
    ],
)
def test_plurals(noun: str, plural: str) -> None:
    """Nouns agree with their number."""
    assert [pluralize(noun, count) for count in (0, 1, 2)] == [plural, noun, plural]
    assert format_count(1234, noun) == f"1,234 {plural}"


def test_an_age_is_the_time_since_a_moment() -> None:
    """Moments to come are zero old, and no moment has no age."""
    assert format_age(NOW - timedelta(minutes=16, seconds=40), NOW) == "16.7 min"
    assert format_age(NOW + timedelta(days=1), NOW) == "0 s"
    assert format_age(NOW - timedelta(milliseconds=189), NOW) == "0 s"
    assert format_age(None, NOW) == ""


@pytest.mark.slow
def test_units_are_named_in_one_place() -> None:
    """No other module formats bytes on its own, and none writes KB, which means 1000 to some and 1024 to others.

    `lexical/literals.py` writes durations as query languages read them.
    """
    found = {
        str(path.relative_to(Path(neve.__file__).parent))
        for path in Path(neve.__file__).parent.rglob("*.py")
        if re.search(r"def _?format_(bytes|size|dollars|duration|age)\b|\bKB\b", path.read_text())
    }
    assert found == {"text.py", "lexical/literals.py"}
