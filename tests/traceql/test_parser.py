"""Parser of TraceQL: trees, precedence, errors with their place, limits."""

import pytest

from neve.errors import InvalidExpression
from neve.traceql.language.fields import Attribute, Binary, Static, Type, Unary
from neve.traceql.language.parser import parse
from neve.traceql.language.rewrites import simplify
from neve.traceql.language.syntax import (
    Filter,
    MetricsFilter,
    MetricsMath,
    MetricsPipeline,
    MetricsScalarMath,
    Pipeline,
    Ranking,
    SpansetOperation,
)


def condition(text: str) -> object:
    """Return the condition of a filter."""
    root = parse(f"{{ {text} }}").root
    assert isinstance(root, Pipeline)
    [element] = root.elements
    assert isinstance(element, Filter)
    return element.condition


def test_and_or_have_one_level() -> None:
    """`&&` and `||` are read from left to right, and comparisons bind tighter."""
    found = condition(".a || .b && .c = 1")
    assert isinstance(found, Binary)
    assert found.operator == "&&"
    assert isinstance(found.left, Binary)
    assert found.left.operator == "||"
    assert found.right == Binary("=", Attribute("", "c"), Static(Type.INT, 1))


def test_structure_binds_tighter_than_and() -> None:
    """`{a} && {b} > {c}` is `{a} && ({b} > {c})`."""
    root = parse("{ .a } && { .b } > { .c }").root
    assert isinstance(root, Pipeline)
    [found] = root.elements
    assert isinstance(found, SpansetOperation)
    assert found.operator == "&&"
    assert isinstance(found.right, SpansetOperation)
    assert found.right.operator == ">"


def test_powers_and_signs() -> None:
    """Powers bind to the right, and a sign is weaker than a product."""
    assert str(condition("2 ^ 3 ^ 2 = .a")) == "(2 ^ (3 ^ 2)) = .a"
    found = condition("-.a * 2 = 1")
    assert isinstance(found, Binary)
    assert isinstance(found.left, Unary)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".a-b", Attribute("", "a-b")),
        ('span."a b".c', Attribute("span", "a b.c")),
        ('."say \\"x\\""', Attribute("", 'say "x"')),
        ("resource.service.name", Attribute("resource", "service.name")),
        ("instrumentation.x", Attribute("instrumentation", "x")),
        ("span:name", Attribute("intrinsic", "name")),
        ("trace:rootService", Attribute("intrinsic", "rootServiceName")),
        (".duration", Attribute("intrinsic", "duration")),
        ("span.duration", Attribute("span", "duration")),
        ("event:timeSinceStart", Attribute("intrinsic", "event:timeSinceStart")),
    ],
)
def test_names(text: str, expected: Attribute) -> None:
    """A name has its scope, ends at operators, and may be quoted in parts."""
    found = condition(f"{text} != .y")
    assert isinstance(found, Binary)
    assert found.left == expected


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("1s", 10**9), ("1h30m", 5_400 * 10**9), ("1.5ms", 1_500_000), ("2us", 2000), ("7ns", 7), ("1d", 86_400 * 10**9)],
)
def test_durations(text: str, nanoseconds: int) -> None:
    """Durations have the units of Prometheus and of Go."""
    assert condition(f"duration > {text}") == Binary(
        ">", Attribute("intrinsic", "duration"), Static(Type.DURATION, nanoseconds)
    )


def test_metrics() -> None:
    """Comparisons and rankings after metrics are stages, and numbers are folded."""
    found = parse("{ } | rate() by (name) > 1 | topk(3) <= 10s with(sample=true)")
    assert isinstance(found.root, MetricsPipeline)
    assert found.root.stages == (MetricsFilter(">", 1.0), Ranking("topk", 3), MetricsFilter("<=", 10.0))
    assert found.hints == (("sample", Static(Type.BOOL, value=True)),)
    root = parse("2 * 3 * ({} | rate()) / ({} | count_over_time())").root
    assert isinstance(root, MetricsMath)
    assert isinstance(root.left, MetricsScalarMath)
    assert root.left.number == 6.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: parse error: unexpected the end of the query, expected spansets such as { }"),
        ("{ .a = }", "1:8: parse error: unexpected '}', expected a value, an attribute or an intrinsic"),
        ("{ .a\n  == 4 }", "2:4: parse error: unexpected '=', expected a value"),
        ("{ span. }", "1:8: parse error: expected the name of an attribute after 'span.'"),
        ("{ a = 1 }", "1:3: parse error: unexpected 'a', expected a value, an attribute or an intrinsic; an attribute"),
        ("{ trace:kind = 1 }", "1:3: parse error: unknown intrinsic 'trace:kind', expected one of trace:duration"),
        ('{ .a = "x }', "1:8: parse error: "),
        ("{ } | count()", "1:1: parse error: "),
        ("{ } + { }", "1:5: parse error: '+' can't join spansets and spansets"),
        ("{ } | rate() + 5", "1:14: parse error: '+' can't join metrics without parentheses and a number"),
        ("{ } | topk(3)", "1:7: parse error: topk() and bottomk() need metrics before them"),
        ("coalesce() | { }", "1:1: parse error: a query can't begin with coalesce()"),
        ("{ nil }", "1:3: parse error: nil may only be compared"),
        ("{ -nil = 1 }", "1:4: parse error: nil may only be compared"),
        ("{ name = 1 }", "name = 1: a string and an int never compare"),
        ('{ .a =~ "[" }', '.a =~ "[": error parsing regexp'),
        ("{ .a =~ .b }", ".a =~ .b: the right side is .b, expected a quoted regular expression"),
        ("{ 1 }", "{ 1 }: the condition is an int, expected a boolean"),
        ("{ } | avg(name) > 1", "avg(name): name is a string, expected a number"),
        ("{ } | rate() | topk(0)", "topk(0): expected a number above 0"),
        ("{ } | quantile_over_time(duration, 1.5)", "the quantile 1.5 is not between 0 and 1"),
        ("{ } | compare({ .a }) > 1", "compare() can't be followed"),
        ("{ parent.a = 1 }", "parent.a: attributes of the parent are not supported"),
        ("{ } | rate() by (.a,.b,.c,.d,.e,.f)", "rate() by 6 attributes, expected at most 5"),
        ("{ .a = 9223372036854775808 }", "1:8: parse error: the integer 9223372036854775808 is too large"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """An error has its place, what was found and what was expected."""
    with pytest.raises(InvalidExpression) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "{ " + "(" * 10_000 + ".a" + ")" * 10_000 + " }",
        "{ " + "!" * 10_000 + ".a }",
        "(" * 10_000 + "{ }" + ")" * 10_000,
        "-" * 10_000 + "1 > count()",
        "{ " + " && ".join([".a"] * 5000) + " }",
        " >> ".join(["{ }"] * 5000),
        "{ .a = " + '"' + "x" * 60_000 + '" }',
    ],
)
def test_limits(text: str) -> None:
    """Depth, operators and length are limited, so that no query exhausts the stack."""
    with pytest.raises(InvalidExpression, match=r"nested deeper|more than 250 operators|expected at most 50,000"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "is_root"),
    [
        ("nestedSetParent < 0", True),
        ("nestedSetParent = -1", True),
        ("nestedSetParent <= -1", True),
        ("nestedSetParent <= 0", False),
        ("nestedSetParent < -1", False),
        ("nestedSetParent != -1", False),
        ("nestedSetLeft < 0", False),
    ],
)
def test_filters_for_roots(text: str, is_root: bool) -> None:
    """Comparisons that only roots fulfil look at the id of the parent, inside of other conditions too."""
    expected = 'span:parentID = ""' if is_root else text
    assert str(simplify(parse(f"{{ .a && {text} }} | rate()").root)) == str(
        parse(f"{{ .a && {expected} }} | rate()").root
    )
