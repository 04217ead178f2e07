"""Parser of LogQL: trees, precedence, errors with their place, limits."""

import pytest

from neve.errors import InvalidExpression
from neve.logql.language.parser import parse, parse_selector
from neve.logql.language.syntax import (
    Combination,
    LabelFilter,
    LineFilter,
    LogQuery,
    NumberFilter,
    RangeAggregation,
    StringFilter,
)
from neve.promql.language.syntax import Aggregate, Binary, Number


def test_log_query() -> None:
    """A log query has matchers and stages in their order."""
    node = parse('{app="a", env!~"x.*"} |= "one" or "two" | json | status >= 500 # comment')
    assert isinstance(node, LogQuery)
    assert [str(one) for one in node.matchers] == ['app="a"', 'env!~"x.*"']
    assert node.stages[0] == LineFilter("|=", (("one", False), ("two", False)))
    assert node.stages[2] == LabelFilter(NumberFilter("status", ">=", 500.0))


def test_label_filters() -> None:
    """`and`, a comma and nothing bind tighter than `or`."""
    node = parse_selector('{app="a"} | a="1" or b="2", c="3" d="4"')
    [stage] = node.stages
    assert isinstance(stage, LabelFilter)
    assert isinstance(stage.condition, Combination)
    assert stage.condition.operator == "or"
    assert isinstance(stage.condition.left, StringFilter)
    assert isinstance(stage.condition.right, Combination)
    assert stage.condition.right.operator == "and"


@pytest.mark.parametrize(
    "text",
    [
        'rate({app="a"} |= "x" [5m] offset 1m)',
        'rate({app="a"}[5m] offset 1m |= "x")',
        'rate(({app="a"} |= "x")[5m] offset 1m)',
        '(rate(({app="a"} |= "x" [5m] offset 1m)))',
    ],
)
def test_ranges(text: str) -> None:
    """A range stands before or after the stages, in or out of parentheses."""
    node = parse(text)
    assert isinstance(node, RangeAggregation)
    assert (node.log_range.range_ns, node.log_range.offset_ns) == (300 * 10**9, 60 * 10**9)
    assert node.log_range.query.stages == (LineFilter("|=", (("x", False),)),)


def test_precedence() -> None:
    """Powers bind tightest and to the right, and numbers are folded."""
    assert parse("1 + 2 * 3") == Number(7.0)
    assert parse("2 ^ 3 ^ 2") == Number(512.0)
    assert parse("-1 ^ 2") == Number(1.0)
    assert parse("2 > 1") == Number(1.0)
    node = parse('sum by (a) (rate({x="y"}[1m])) / 2 > bool 1')
    assert isinstance(node, Binary)
    assert (node.operator, node.is_bool) == (">", True)
    assert isinstance(node.left, Binary)
    assert isinstance(node.left.left, Aggregate)


def test_names() -> None:
    """Words of functions are names where no parenthesis follows, in any case."""
    node = parse_selector('{rate="a"} | sum="b" | duration > 5s | keep count, bytes')
    assert node.matchers[0].name == "rate"
    assert isinstance(parse('RATE({a="b"}[1m])'), RangeAggregation)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, col 1: syntax error: unexpected $end"),
        ('{app="a"', "col 9: syntax error: unexpected $end, expecting ,"),
        ('{app="a"} | ', "col 13: syntax error: unexpected $end, expecting IDENTIFIER"),
        ('{app=~"("}', "error parsing regexp"),
        ('{app=~".*"}', "at least one regexp or equality matcher"),
        ('rate({app="a"})', "unexpected ), expecting RANGE"),
        ('rate({app="a"}[soon])', "not a valid duration"),
        ('sum_over_time({app="a"}[1m])', "invalid aggregation sum_over_time without unwrap"),
        ('topk({app="a"})', "expected a metric query"),
        ('topk(rate({app="a"}[1m]))', "parameter required for operation topk"),
        ("sum(1)", "expected a metric query"),
        ('{app="a"} + 1', "unexpected type for left leg"),
        ('{app="a"} | line_format "{{ nope }}"', "nope"),
        ('{app="a"} | label_format a=b, a=c', "multiple label name 'a'"),
        ('{app="a"} | label_format __error__=b', "cannot be formatted"),
        ('{app="a"} | pattern "x"', "at least one capture is required"),
        ('{app="a"} |> "<x>"', "named captures are not allowed"),
        ('{app="a"} | json x="a..b"', "cannot parse expression"),
        ('{app="a"} |= ip("nowhere")', "ip: invalid pattern"),
        ('{app="a"}\n| "x"', "line 2, col 3"),
        ("{app='a'}", "unexpected"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """Mistakes are reported with line and column."""
    with pytest.raises(InvalidExpression) as error:
        parse(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "1" + ")" * 5000,
        '{a="b"} | ' + "(" * 5000 + 'a="b"' + ")" * 5000,
        "rate(" + "(" * 5000 + '{a="b"}[1m]' + ")" * 5001,
        "1" + " ^ 1" * 5000,
        '{a="b"}' + ' |= "x"' * 200,
        '{a="b"} | ' + 'a="b" ' * 200,
        '{a="' + "x" * 100_001 + '"}',
    ],
)
def test_size_limits(text: str) -> None:
    """Depth, length and the number of stages are limited, and no query exhausts the stack."""
    with pytest.raises(InvalidExpression):
        parse(text)


def test_long_sum() -> None:
    """A long sum of vectors needs no depth, and long queries of many operands parse."""
    node = parse(" + ".join(["vector(1)"] * 500))
    assert isinstance(node, Binary)
