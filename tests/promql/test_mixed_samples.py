"""Every function, aggregation and operator on series that mix floats, special values and histograms of all layouts."""

import math
import random

import pytest

from neve.errors import QueryError
from neve.promql.engine import Engine, Result
from neve.promql.evaluator import Options
from neve.promql.histograms.native import CUSTOM_SCHEMA, Histogram, ResetHint, make_buckets
from neve.promql.labels import make_labels
from neve.promql.language.checks import MAX_DEPTH, SIGNATURES
from neve.promql.language.syntax import AGGREGATIONS, AGGREGATIONS_WITH_PARAMETER, ValueType
from neve.promql.series import STALE, MemorySource
from tests.promql.examples import make_engine

GAP_MS = 15_000
ARGUMENTS = {
    ValueType.MATRIX: ("x[2m]", "x[2m:20s]", "x[1m] offset 30s"),
    ValueType.VECTOR: ("x", "x > 1", "sum by (le) (x)"),
    ValueType.SCALAR: ("0.5", "scalar(x)", "NaN"),
    ValueType.STRING: ('"le"', '"new"', '"(.*)"'),
}
OPERATORS = ("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", "<", ">=", "</", ">/", "and", "or", "unless")


def make_histogram(dice: random.Random) -> Histogram:
    """Return a histogram of any layout."""
    hint = dice.choice(list(ResetHint))
    if dice.random() < 0.3:
        bounds = dice.choice([(1.0, 2.0), (1.0,), (2.0, 3.0)])
        return Histogram(CUSTOM_SCHEMA, 3.0, 3.0, positive=make_buckets(0, [1.0, 2.0]), bounds=bounds, hint=hint)
    counts = [dice.choice([0.0, 1.0, 3.0]) for _ in range(dice.randint(0, 4))]
    total = dice.choice([1.0, math.nan])
    threshold = dice.choice([0.0, 0.5, 1e-128])
    positive, negative = make_buckets(dice.randint(-2, 2), counts), make_buckets(0, counts[:1])
    return Histogram(
        dice.choice([0, 1, 3]), 9.0, total, threshold, dice.choice([0.0, 2.0]), positive, negative, hint=hint
    )


def make_mixed(seed: int) -> Engine:
    """Return an engine over a few series of mixed samples."""
    dice, source = random.Random(seed), MemorySource()
    for number in range(6):
        labels = {"__name__": "x", "le": dice.choice(["1", "+Inf", "bad", ""]), "job": "j", "instance": str(number)}
        samples = []
        for index in range(40):
            special = dice.choice([dice.uniform(-5, 5), math.nan, math.inf, -math.inf, 0.0, 1e308, STALE])
            value: float | Histogram = make_histogram(dice) if dice.random() < 0.4 else special
            if dice.random() < 0.8:
                samples.append((index * GAP_MS, value, dice.choice([0, max(index * GAP_MS - 1000, 1)])))
        source.add(make_labels(labels), samples)
    return Engine(source, Options(uses_start_times=seed % 2 == 0, max_samples=1_000_000))


def evaluate(engine: Engine, text: str) -> Result | None:
    """Return the result of a range query, or `None` for an error that a user can act on."""
    try:
        engine.query(text, 300_000)
        return engine.query_range(text, 0, 600_000, 30_000)
    except QueryError:
        return None


def list_calls(name: str) -> list[str]:
    """Return calls of a function with all kinds of arguments."""
    signature = SIGNATURES[name]
    calls = [[ARGUMENTS[kind][variant] for kind in signature.arguments] for variant in range(3)]
    if name == "histogram_quantiles":
        calls = [call[:3] for call in calls]  # two equal quantiles would have the same labels
    if name == "info":
        calls = [[call[0], '{job=~".+"}'] for call in calls]
    return [f"{name}({', '.join(call)})" for call in calls]


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_functions(name: str) -> None:
    """A function gives a result or an error with a message, never a crash."""
    found = [evaluate(make_mixed(seed), text) for seed in range(3) for text in list_calls(name)]
    assert any(one is not None for one in found)


@pytest.mark.parametrize("name", sorted(AGGREGATIONS))
def test_aggregations(name: str) -> None:
    """An aggregation gives a result or an error with a message, never a crash."""
    parameter = '"value", ' if name == "count_values" else "0.5, " if name in AGGREGATIONS_WITH_PARAMETER else ""
    texts = [
        f"{name}({parameter}x)",
        f"{name} by (job, le) ({parameter}x)",
        f"{name} without (instance) ({parameter}-x)",
    ]
    found = [evaluate(make_mixed(seed), text) for seed in range(3) for text in texts]
    assert any(one is not None for one in found)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator: str) -> None:
    """An operator gives a result or an error with a message, never a crash."""
    texts = [f"x {operator} x", f"x {operator} on (job) group_left () avg by (job) (x)"]
    texts += [] if operator in {"and", "or", "unless"} else [f"x {operator} 2", f"2 {operator} x"]
    found = [evaluate(make_mixed(seed), text) for seed in range(3) for text in texts]
    assert any(one is not None for one in found)


@pytest.mark.parametrize("name", ["abs", "sum", "-", ""])
def test_deep_expressions(name: str) -> None:
    """Expressions up to the greatest depth are evaluated without the interpreter's recursion limit."""
    depth = MAX_DEPTH - 1
    assert make_engine({"x": [-2.0]}).query(f"{name}(" * (depth // 2) + "x" + ")" * (depth // 2), 0).series
