"""Documents of groups, states and results: what a worker gets and returns is what the service has."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from neve.promql.series import STALE
from neve.rules.alerts import Alert, AlertState, Notification
from neve.rules.evaluation import EvaluationOptions, RecordedSample, RuleResult, RuleState
from neve.rules.rule_file import Group, Rule
from neve.rules.running.group_documents import (
    build_group,
    build_options,
    build_result,
    describe_group,
    describe_options,
    describe_result,
    is_stale_mark,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=3).map(lambda pairs: tuple(sorted(pairs.items())))
TIMES = st.integers(0, 2**45)
MAYBE = st.none() | TIMES
FLOATS = st.floats(allow_nan=False)
ALERTS = st.builds(Alert, LABELS, LABELS, FLOATS, st.sampled_from(AlertState), TIMES, MAYBE, MAYBE, MAYBE, MAYBE)
STATES = st.builds(
    RuleState,
    st.lists(ALERTS, max_size=3).map(lambda alerts: {one.labels: one for one in alerts}),
    st.frozensets(LABELS, max_size=3),
    MAYBE,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
NOTES = st.builds(Notification, LABELS, LABELS, TIMES, TIMES, st.booleans(), TEXTS, st.booleans())
SAMPLES = st.builds(RecordedSample, LABELS, TIMES, FLOATS)
RESULTS = st.builds(
    RuleResult, STATES, st.lists(SAMPLES, max_size=3).map(tuple), st.lists(NOTES, max_size=2).map(tuple)
)
RULES = st.builds(Rule, TEXTS, st.booleans(), TEXTS, TIMES, TIMES, LABELS, LABELS, st.integers(0, 9))
GROUPS = st.builds(Group, TEXTS, st.lists(RULES, max_size=3).map(tuple), TIMES, TIMES, st.integers(0, 9), TEXTS)


def carry(document: Any) -> Any:
    """Return a document as it arrives on the other side of a channel."""
    return json.loads(json.dumps(document))


@given(RESULTS)
def test_results_survive(result: RuleResult) -> None:
    """A result is the same after its way through JSON."""
    assert build_result(carry(describe_result(result))) == result


@given(GROUPS)
def test_groups_survive(group: Group) -> None:
    """A group is the same after its way through JSON."""
    assert build_group(carry(describe_group(group))) == group


def test_options_survive() -> None:
    """Settings are the same after their way through JSON."""
    options = EvaluationOptions(10, 20, {"region": "eu"}, "http://neve")
    assert build_options(carry(describe_options(options))) == options


def test_a_stale_mark_is_no_other_nan() -> None:
    """Stale marks and other NaNs stay apart."""
    result = RuleResult(RuleState(), (RecordedSample((), 1, STALE), RecordedSample((), 2, math.nan)))
    first, second = build_result(carry(describe_result(result))).samples
    assert (is_stale_mark(first.value), is_stale_mark(second.value)) == (True, False)
