"""Conditions in SQL mean what OTTL says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.tail.policy.ottl.translate import combine_conditions, translate_condition
from tests.tail.policy.ottl_chance import conditions
from tests.tail.policy.ottl_plain import holds
from tests.tail.policy.rows import Rows, Span
from tests.tail.policy.strategies import several


@pytest.mark.slow
@pytest.mark.parametrize("context", ["span", "spanevent"])
@given(data=st.data(), spans=several)
@settings(max_examples=30, deadline=None)
def test_sql_agrees_with_a_plain_interpreter(context: str, data: st.DataObject, spans: list[Span]) -> None:
    """Whatever the condition and the spans, both say the same."""
    condition = data.draw(conditions(context), label="condition")
    truth = translate_condition(condition.text, context)
    asked = (
        combine_conditions([truth], [], stop=False)
        if context == "span"
        else combine_conditions([], [truth], stop=False)
    )
    assert Rows(spans).ask(asked) == [holds(condition, span, context) for span in spans], condition.text
