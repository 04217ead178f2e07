"""Conditions: which can be read, which are refused, and by what words."""

from __future__ import annotations

import pytest
import sqlglot

from neve.tail.policy.ottl.syntax import OttlError
from neve.tail.policy.ottl.translate import combine_conditions, translate_condition
from tests.tail.policy.rows import Event, Span, ask


def holds(text: str, span: Span, *, typed: bool = True) -> bool:
    """Whether a condition holds for a span."""
    answer: bool = ask(combine_conditions([translate_condition(text, "span")], [], stop=False), span, typed=typed)[0]
    return answer


def holds_for_event(text: str, span: Span) -> bool:
    """Whether a condition holds for one of a span's events."""
    answer: bool = ask(combine_conditions([], [translate_condition(text, "spanevent")], stop=False), span)[0]
    return answer


SPAN = Span(
    {"n": 5, "d": 5.0, "s": "5", "t": True, "bytes": b"ab", "list": ["x", 2], "map": {"a": {"b": 1.5}}, "none": None},
    {"service.name": "cart"},
    name="GET /cart",
    kind=2,
    status=2,
    message="too slow",
    start=1_000_000_000,
    end=3_500_000_000,
    state="vendor=on",
    flags=257,
    scope="http",
    version="1.2",
    span_id=bytes(7) + b"\x0a",
    events=(Event("exception", {"type": "IOError", "n": 1}, 7), Event("log")),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        'name == "GET /cart"',
        'span.name == "GET /cart" and name != "other"',
        "kind == SPAN_KIND_SERVER and kind == 2",
        'kind.string == "Server" and kind.deprecated_string == "SPAN_KIND_SERVER"',
        "status.code == STATUS_CODE_ERROR",
        'status.message == "too slow"',
        'resource.attributes["service.name"] == "cart"',
        'instrumentation_scope.name == "http" and scope.version == "1.2"',
        'span_id.string == "000000000000000a" and span_id == SpanID(0x000000000000000a)',
        'parent_span_id == SpanID("0000000000000000") and IsRootSpan()',
        'trace_state["vendor"] == "on" and trace_state["other"] == ""',
        "flags == 257",
        "end_time_unix_nano - start_time_unix_nano > 2000000000",
        'end_time - start_time == Duration("2.5s")',
        "(end_time_unix_nano - start_time_unix_nano) / 1000000 == 2500",
        'attributes["n"] == 5 and attributes["n"] == 5.0 and attributes["d"] == 5',
        'attributes["s"] != 5 and attributes["n"] != "5"',
        'attributes["t"] == true and not attributes["t"] == false',
        'attributes["bytes"] == 0x6162',
        'attributes["missing"] == nil and attributes["none"] == nil and attributes["n"] != nil',
        'attributes["list"][0] == "x" and attributes["list"][1] == 2 and attributes["map"]["a"]["b"] == 1.5',
        'attributes["map"]["c"] == nil',
        'attributes["n"] > -1 and -attributes["n"] < 0',
        'IsMatch(name, "^GET") and IsMatch(attributes["n"], "^5$") and IsMatch(attributes["d"], "^5$")',
        'IsMatch(attributes["bytes"], "^6162$") and IsMatch(attributes["list"], "\\"x\\",2")',
        'IsMatch(target=name, pattern="cart$") == true',
        'IsString(attributes["s"]) and IsInt(attributes["n"]) and IsDouble(attributes["d"])',
        'IsBool(attributes["t"]) and not IsBool(attributes["s"])',
        'IsMap(attributes["map"]) and IsList(attributes["list"]) and not IsMap(attributes["s"])',
        'Len(name) == 9 and Len(attributes["list"]) == 2 and Len(attributes["map"]) == 1 and Len(attributes) == 8',
        "Len(events) == 2 and attributes != nil",
        'HasPrefix(name, "GET") and HasSuffix(name, "cart")',
        "false or true",
        "true or false and false",
        "not false and true",
        "not (true and false)",
    ],
)
def test_conditions_that_hold(condition: str) -> None:
    """Every path, function and operator, on a span for which it holds; and its opposite does not."""
    assert holds(condition, SPAN)
    assert not holds(f"not ({condition})", SPAN)


@pytest.mark.parametrize(
    "condition",
    [
        'attributes["list"][2] == "x"',
        'attributes["list"]["a"] != nil',
        'attributes["n"]["a"] != 1',
        'Len(attributes["n"]) != 3',
        'attributes["s"] + 1 != 0',
        "1 / 0 != 1",
        'HasPrefix(attributes["n"], "5")',
        'attributes["none"]["a"] == nil',
    ],
)
def test_what_fails_neither_holds_nor_does_its_opposite(condition: str) -> None:
    """An error on a span is not the same as false."""
    assert not holds(condition, SPAN)
    assert not holds(f"not ({condition})", SPAN)
    assert holds(f"name != nil or {condition}", SPAN)
    assert not holds(f"{condition} or name != nil", SPAN)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('name == "exception"', True),
        ('spanevent.attributes["type"] == "IOError" and time_unix_nano == 7', True),
        ('attributes["type"] == nil', True),
        ('name == "exception" and attributes["type"] == nil', False),
        ('name == "log" and span.name == "GET /cart" and resource.attributes["service.name"] == "cart"', True),
        ('span.trace_state["vendor"] == "on" and attributes["n"] == 1', True),
    ],
)
def test_conditions_of_events(condition: str, expected: bool) -> None:
    """One event must fulfil all of a condition; what surrounds it can be asked too."""
    assert holds_for_event(condition, SPAN) is expected
    assert not holds_for_event(condition, Span())


def test_a_failing_condition_is_passed_over_or_ends_the_asking() -> None:
    """With `propagate` the conditions after one that fails are not asked."""
    truths = [translate_condition(text, "span") for text in ('attributes["n"]["a"] == 1', "kind == 2")]
    event = translate_condition('name == "log"', "spanevent")
    assert ask(combine_conditions(truths, [], stop=False), SPAN) == [True]
    assert ask(combine_conditions(truths, [event], stop=True), SPAN) == [False]
    assert ask(combine_conditions(truths[1:], [event], stop=True), SPAN) == [True]
    assert ask(combine_conditions([truths[0]], [event], stop=False), SPAN) == [True]


def test_without_types_values_are_read_by_their_form() -> None:
    """What is compared with a number is read as a number, what is compared with a text as a text."""
    span = Span({"n": "200", "f": "1.5", "t": "true", "json": '{"a":[1]}'})
    condition = (
        'attributes["n"] >= 200 and attributes["n"] == "200" and attributes["f"] < 2 and attributes["t"] == true'
    )
    assert holds(condition, span, typed=False)
    assert holds('attributes["json"]["a"][0] == 1', span, typed=False)
    assert not holds('attributes["n"] >= 200 or attributes["t"] == true', span)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ('Concat([name], "") == "x"', "a list in brackets in policy 'p' is not supported"),
        ('ToLowerCase(name) == "x"', "OTTL function ToLowerCase in policy 'p' is not supported; supported: Duration"),
        ("http.status == 1", "OTTL path http.status in policy 'p' is not supported; supported: span.name"),
        (
            'scope.attributes["a"] == 1',
            "path scope.attributes[...] in policy 'p' is not supported; supported: scope.name",
        ),
        ("kind == SPAN_KIND_NONE", "OTTL name SPAN_KIND_NONE in policy 'p' is not supported"),
        (
            "attributes == resource.attributes",
            "comparison of all of attributes in policy 'p' is not supported; supported: ",
        ),
        ("IsMatch(name, name)", "pattern of IsMatch that is not a text in quotes in policy 'p' is not supported"),
        ("attributes[name] == 1", "a key that is not a literal"),
        ('IsMatch(name, "(")', "the pattern '(' is not a regular expression of RE2: missing ): ("),
        ("IsMatch(name)", "IsMatch was given 1 arguments, expected target, pattern"),
        ("SpanID(0x00) == span_id", "is no span id, expected 8 bytes"),
        ('Duration("soon") == end_time - start_time', "got 'soon', expected a duration"),
        ("attributes[5] == 1", "the key of attributes is 5, expected a text in quotes"),
        ('name + "x" == name', "only numbers, paths and functions are allowed"),
        ("name + 1 == 2", "name + int is not defined"),
        ("Len(name)", "Len returns int, expected a condition"),
        ('attributes["x"]', "expected a condition, such as a comparison, but got a value"),
        ('(name == "a") == true', "expected a value, but got a condition"),
        ('"\\d" == name', "unknown escape \\d in a text"),
        ("name == 'x'", "syntax error at character 9"),
        ("name ==", "it ends too early"),
        ("not not true", "syntax error at character 5"),
        ("name = 1", "syntax error at character 6"),
        ("name == 99999999999999999999", "too large"),
        ("0x1 == name", "an odd number of digits"),
        ("(" * 5000 + "true" + ")" * 5000, "it is nested too deeply"),
    ],
)
def test_what_is_refused(condition: str, words: str) -> None:
    """What can't be read or asked is named, with what can."""
    with pytest.raises(OttlError) as refused:
        translate_condition(condition, "span")
    assert words in refused.value.about("p", condition)


def test_no_root_among_events() -> None:
    """Functions of spans are refused where events are asked."""
    with pytest.raises(OttlError, match="IsRootSpan of an event"):
        translate_condition("IsRootSpan()", "spanevent")


@pytest.mark.parametrize(
    ("written", "text"),
    [(r"a\tb\\\"", 'a\tb\\"'), (r"\x41\u00e9\U0001F600\101", "A\u00e9\U0001f600A"), (r"\x00", "\0")],
)
def test_texts_in_quotes(written: str, text: str) -> None:
    """Escapes are Go's."""
    assert holds(f'name == "{written}"', Span(name=text))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((1.0, "1"), (-0.0, "-0"), (1e20, "1" + "0" * 20), (1e21, "1e+21")),
        *((1.5e-6, "0.0000015"), (1e-7, "1e-7"), (-2.5e16, "-25" + "0" * 15)),
    ],
)
def test_numbers_as_texts(number: float, text: str) -> None:
    """A floating-point number is matched as Go's JSON writes it."""
    pattern = text.replace("+", "[+]").replace(".", "[.]")
    assert holds(f'IsMatch(attributes["d"], "^{pattern}$")', Span({"d": number}))


def test_columns_are_those_that_are_read() -> None:
    """A condition names exactly the columns that its SQL reads."""
    text = 'attributes["a"] == 1 and IsRootSpan() or IsMatch(resource.attributes["b"], "x") and trace_state["k"] == "v"'
    of_event = translate_condition('name == "x" and span.kind == 1', "spanevent")
    asked = combine_conditions([translate_condition(text, "span")], [of_event], stop=False)
    parsed = sqlglot.parse_one(asked.text, read="duckdb")
    columns = {column.parts[0].name for column in parsed.find_all(sqlglot.exp.Column)} - {"m", "e", "n"}
    assert columns == asked.columns
