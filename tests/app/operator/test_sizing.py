"""Estimates of what a load needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.app.operator.sizing import Load, Need, SlopesConfig, size_load, total_busy_cores, total_dollars
from neve.lake.config import PricesConfig

SLOPES, PRICES = SlopesConfig(), PricesConfig()


def find(needs: list[Need], part: str, name: str) -> Need:
    """Return one line of an estimate."""
    [need] = [need for need in needs if (need.part, need.name) == (part, name)]
    return need


def test_a_million_records_a_second() -> None:
    """The numbers are the arithmetic of the measured costs."""
    needs = size_load(Load(1e6), SLOPES, PRICES)
    assert find(needs, "receivers", "cores").amount == 10
    assert find(needs, "ingestion", "cores").amount == 35
    assert find(needs, "Kafka", "partitions").amount == 36
    assert find(needs, "storage", "tables").amount == pytest.approx(1e6 * 86_400 * 55 * 30)
    assert find(needs, "object storage", "lists").amount == pytest.approx(730 * 360 * 23)
    assert total_dollars(needs) == pytest.approx(sum(need.dollars_month for need in needs))


@given(
    st.floats(1, 1e7),
    st.integers(1, 500),
    st.sampled_from(("records_per_second", "organizations", "retention_days", "headroom")),
)
def test_more_of_anything_never_needs_less(rate: float, organizations: int, key: str) -> None:
    """Neither cores nor requests, bytes or dollars."""
    small = Load(rate, organizations=organizations)
    large = Load(**{**vars(small), key: vars(small)[key] * 2})
    before, after = size_load(small, SLOPES, PRICES), size_load(large, SLOPES, PRICES)
    assert [(need.part, need.name) for need in before] == [(need.part, need.name) for need in after]
    assert all(one.amount <= other.amount for one, other in zip(before, after, strict=True))
    assert total_dollars(before) <= total_dollars(after)


def test_signals_that_nobody_sends_need_nothing() -> None:
    """Logs alone need no rollups and no tail sampling, and write one file for each commit."""
    needs = size_load(Load(1000, metrics_share=0, spans_share=0, logs_share=1), SLOPES, PRICES)
    assert {need.part for need in needs}.isdisjoint({"rollups", "tail sampling"})
    assert "262,800 data files" in find(needs, "object storage", "writes").reason
    assert total_busy_cores(needs) == pytest.approx(1000 / 221_000 + 1000 / 57_700 + 1000 / 118_000)
