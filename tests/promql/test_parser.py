"""Parser of PromQL: trees, errors with line and column, and printing."""

import math
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidExpression
from neve.lexical.matchers import Matcher, MatchKind
from neve.promql.language.checks import MAX_DEPTH
from neve.promql.language.parser import parse
from neve.promql.language.printer import format_expression
from neve.promql.language.syntax import (
    AGGREGATIONS_WITH_PARAMETER,
    Aggregate,
    Binary,
    Call,
    Cardinality,
    DurationOperation,
    Node,
    Number,
    Paren,
    RangeSelector,
    Subquery,
    Timing,
    Unary,
    VectorMatching,
    VectorSelector,
)


def selector(name: str) -> VectorSelector:
    """Return a selector of a name."""
    return VectorSelector(name, ())


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-1", Number(-1.0)),
        ("1e3", Number(1000.0)),
        ("0x1F", Number(31.0)),
        ("5m", Number(300.0, True)),
        ("x", selector("x")),
        ("sum", selector("sum")),
        ("offset offset 5m", VectorSelector("offset", (), Timing(Number(300.0, True)))),
        ("-x ^ 2", Unary("-", Binary("^", selector("x"), Number(2.0)))),
        ("a + b * c", Binary("+", selector("a"), Binary("*", selector("b"), selector("c")))),
        ("a - b - c", Binary("-", Binary("-", selector("a"), selector("b")), selector("c"))),
        ("a ^ b ^ c", Binary("^", selector("a"), Binary("^", selector("b"), selector("c")))),
        ("a or b and c", Binary("or", selector("a"), Binary("and", selector("b"), selector("c")))),
        ("SUM BY (a) (x)", Aggregate("sum", selector("x"), labels=("a",))),
        ("sum(x) without (a, b,)", Aggregate("sum", selector("x"), labels=("a", "b"), is_without=True)),
        ("x @ start()", parse("x @ start ( )")),
        ("x[5m:1m]", Subquery(selector("x"), Number(300.0, True), Number(60.0, True))),
        ("x[5m] # a comment", RangeSelector(selector("x"), Number(300.0, True))),
        ("x[2 * 1m]", RangeSelector(selector("x"), DurationOperation("*", Number(2.0), Number(60.0, True)))),
        ("x offset -2^2", Binary("^", VectorSelector("x", (), Timing(Number(-2.0))), Number(2.0))),
        (
            "a * on (x) group_left (y) b",
            Binary(
                "*", selector("a"), selector("b"), False, VectorMatching(Cardinality.MANY_TO_ONE, ("x",), True, ("y",))
            ),
        ),
        ("a + fill(0) b", Binary("+", selector("a"), selector("b"), False, VectorMatching(fill_left=0, fill_right=0))),
    ],
)
def test_trees(text: str, tree: Node) -> None:
    """Precedence, keywords as names, modifiers and matching are those of Prometheus."""
    assert parse(text) == tree


def test_quoted_names() -> None:
    """A quoted name in braces is the metric, and quoted labels may have dots."""
    node = parse('{"http.duration", "service.name"=~"a.*"}')
    assert isinstance(node, VectorSelector)
    assert node.matchers == (
        Matcher("__name__", MatchKind.EQUAL, "http.duration"),
        Matcher("service.name", MatchKind.REGEX, "a.*"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: parse error: no expression found in input"),
        ("1 +", "1:4: parse error: unexpected end of input"),
        ("a\n+ + )", "2:5: parse error: unexpected right parenthesis ')'"),
        ("sum(x", "1:6: parse error: unclosed left parenthesis"),
        ("x{a=}", '1:5: parse error: unexpected "}" in label matching, expected string'),
        ('x{a="b', "1:5: parse error: unterminated quoted string"),
        ("x[5m", "1:5: parse error: unclosed left bracket"),
        ("x[0s]", "1:3: parse error: duration must be greater than 0"),
        ("5mm", '1:1: parse error: bad number or duration syntax: "5mm"'),
        ("rate(x)", '1:6: parse error: expected type range vector in call to function "rate", got instant vector'),
        ("nope(x)", '1:1: parse error: unknown function with name "nope"'),
        ("abs()", '1:1: parse error: expected 1 argument(s) in call to "abs", got 0'),
        ("abs(x,)", "1:6: parse error: trailing commas not allowed in function call args"),
        ("1 == 1", "1:3: parse error: comparisons between scalars must use BOOL modifier"),
        ("a + bool b", "1:3: parse error: bool modifier can only be used on comparison operators"),
        ("1 and x", '1:1: parse error: set operator "and" not allowed in binary scalar expression'),
        ("a and on(x) group_left b", '1:1: parse error: no grouping allowed for "and" operation'),
        ('{a=""}', "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ('x{__name__="y"}', '1:1: parse error: metric name must not be set twice: "x" or "y"'),
        ("topk(x)", "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, got 1"),
        ("sum(x[5m])", "1:5: parse error: expected type instant vector in aggregation expression, got range vector"),
        ("x offset 1m offset 2m", "1:1: parse error: offset may not be set multiple times"),
        ("(x)[5m]", "1:4: parse error: ranges only allowed for vector selectors"),
        ('x{a=~"("}', "1:3: parse error: error parsing regexp"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """Errors begin with line and column, and have Prometheus' words."""
    with pytest.raises(InvalidExpression) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "x", "x" + " + x" * 5000, "x" * 200_000])
def test_hostile_size(text: str) -> None:
    """Deep and long expressions are rejected, without a traceback of the interpreter."""
    with pytest.raises(InvalidExpression):
        parse(text)


def test_depth() -> None:
    """Expressions up to the limit are accepted."""
    assert isinstance(parse("x" + " + x" * (MAX_DEPTH - 2)), Binary)


NAMES = st.text(string.ascii_letters + "_:", min_size=1, max_size=8).filter(
    lambda name: name.lower() not in {"inf", "nan", "bool", "on", "ignoring", "group_left", "group_right", "atan2"}
)
LABELS = st.one_of(st.text(string.ascii_letters + "_", min_size=1, max_size=6), st.text(min_size=1, max_size=6))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
DURATIONS = st.one_of(
    st.integers(1, 10**9).map(lambda milliseconds: Number(milliseconds / 1000, True)),
    st.integers(1, 1000).map(lambda seconds: Number(float(seconds))),
)
MATCHERS = st.builds(
    Matcher, LABELS.filter(lambda one: one.isascii() and one != "__name__"), st.just(MatchKind.EQUAL), TEXTS
)
TIMINGS = st.builds(Timing, st.none() | DURATIONS, st.none() | st.integers(-(10**12), 10**12))
SELECTORS = st.builds(VectorSelector, NAMES, st.lists(MATCHERS, max_size=3).map(tuple), TIMINGS)
RANGES = st.builds(RangeSelector, SELECTORS, DURATIONS)


def extend(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Return larger expressions. Operands are in parentheses, so that precedence does not matter."""
    wrapped = inner.map(Paren)
    grouping = st.lists(LABELS.filter(str.isascii), max_size=2, unique=True).map(tuple)
    return st.one_of(
        st.builds(Aggregate, st.sampled_from(["sum", "max", "count"]), inner, st.none(), grouping, st.booleans()),
        st.builds(lambda one, k: Aggregate("topk", one, Number(k)), inner, st.integers(1, 9).map(float)),
        st.builds(lambda one: Call("abs", (one,)), inner),
        st.builds(lambda one: Call("rate", (one,)), RANGES),
        st.builds(Subquery, wrapped, DURATIONS, st.none() | DURATIONS, TIMINGS),
        st.builds(Binary, st.sampled_from(["+", "/", "^", "and", "unless", "=="]), wrapped, wrapped),
        st.builds(Unary, st.just("-"), wrapped),
    ).filter(lambda node: not isinstance(node, Subquery))


@pytest.mark.slow
@given(st.recursive(SELECTORS, extend, max_leaves=6))
def test_print_and_parse(node: Node) -> None:
    """The text of a tree is parsed to an equal tree."""
    assert parse(format_expression(node)) == node


@given(st.floats(allow_nan=False))
def test_numbers(value: float) -> None:
    """Numbers survive printing, to the last bit."""
    node = parse(format_expression(Number(value)))
    assert isinstance(node, Number)
    assert math.copysign(1, node.value) * abs(node.value) == value


def parse_or_explain(text: str) -> str:
    """Return the message of the error, or "" if a text is an expression."""
    try:
        parse(text)
    except InvalidExpression as error:
        return str(error)
    return ""


@pytest.mark.slow
@given(st.one_of(st.text(max_size=30), st.text(alphabet="x(){}[]\"'=~!<>+-*/%^,:@ 15mns#by", max_size=25)))
def test_any_text(text: str) -> None:
    """Any text is parsed, or rejected with line and column."""
    message = parse_or_explain(text)
    assert not message or re.match(r"\d+:\d+: parse error: ", message)


def test_parameters_are_aggregations() -> None:
    """Each aggregation with a parameter needs two arguments."""
    for name in AGGREGATIONS_WITH_PARAMETER:
        with pytest.raises(InvalidExpression, match="expected 2, got 1"):
            parse(f"{name}(x)")
