"""Rows of random histories, against a reference that knows nothing of Arrow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.model.levels import LEVELS
from neve.rollup.config import RollupConfig, RollupRule
from tests.rollup.compare import differences, raised, rolled
from tests.rollup.points import histories
from tests.rollup.reference import merge, roll_up

CONFIGS = (
    RollupConfig(),
    RollupConfig(attributes="none", resource_attributes=("service.name",), quantiles=(0.25, 0.9)),
    RollupConfig(relative_error=0.05, rules=(RollupRule(metrics="*", attributes=("route",), quantiles=(0.999,)),)),
)
MINUTE, FIVE, HOUR, DAY = LEVELS


@pytest.mark.slow
@given(histories(), st.sampled_from(CONFIGS))
@settings(max_examples=50, deadline=None)
def test_rows_are_those_of_the_reference(points: list[dict[str, Any]], config: RollupConfig) -> None:
    """All five types, both temporalities, resets, gaps, late and repeated points."""
    assert not differences(rolled(points, config, MINUTE), roll_up(points, config))


@pytest.mark.long
@given(histories(), st.sampled_from(CONFIGS))
@settings(max_examples=50, deadline=None)
def test_levels_are_those_of_the_reference(points: list[dict[str, Any]], config: RollupConfig) -> None:
    """The same after each of three merges."""
    ours, reference = rolled(points, config, MINUTE), roll_up(points, config)
    for level in (FIVE, HOUR, DAY):
        ours, reference = raised(ours, config, level), merge(reference, config, window_seconds=level.seconds)
        assert not differences(ours, reference)
