"""Limits of the evaluation: expressions of tenants that need too much memory or time are rejected."""

import pytest

from neve.errors import EvaluationFailed, LimitExceeded
from neve.promql.evaluator import Options
from tests.promql.examples import Values, make_engine

LONG = 'label_replace(x, "a", "0123456789", "", "")'


def test_label_join_bomb() -> None:
    """Nested joins multiply the length of a label, and are rejected before the value is built."""
    text, sources = LONG, ", ".join(["'a'"] * 50)
    for _ in range(5):
        text = f'label_join({text}, "a", "", {sources})'
    with pytest.raises(EvaluationFailed, match=r"label_join\(\) would have more than 65,536 characters"):
        make_engine({"x": [1]}).query(text, 0)


def test_label_replace_bomb() -> None:
    """Nested replacements by `$1$1…` are rejected in the same way."""
    text, replacement = LONG, "$1" * 50
    for _ in range(5):
        text = f'label_replace({text}, "a", "{replacement}", "a", "(.*)")'
    with pytest.raises(EvaluationFailed, match=r"label_replace\(\) would have more than 65,536 characters"):
        make_engine({"x": [1]}).query(text, 0)


def test_labels_of_functions() -> None:
    """Labels that are short enough one by one have a limit in total."""
    zeros = "0" * 100
    engine = make_engine({f"x i={index}": [1] for index in range(20)}, options=Options(max_label_chars=1000))
    engine.query('label_replace(x, "a", "0123456789", "", "")', 0)
    with pytest.raises(LimitExceeded, match="too long in total"):
        engine.query(f"count(label_replace(x, 'a', '{zeros}', '', ''))", 0)


def test_labels_of_result() -> None:
    """One long label that matching copies to many series counts once for each."""
    series: Values = {f"x i={index}": [1] for index in range(20)}
    engine = make_engine(series | {f"y a={'0' * 100}": [1]}, options=Options(max_label_chars=1000))
    with pytest.raises(LimitExceeded, match="too long in total"):
        engine.query("x * on () group_left (a) y", 0)
