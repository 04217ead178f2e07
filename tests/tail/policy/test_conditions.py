"""What policies ask of spans, in SQL, is what the collector asks."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.tail.policy import conditions
from tests.tail.policy import plain
from tests.tail.policy.rows import Rows, Span, Value, ask, database
from tests.tail.policy.strategies import KEYS, bare, states, whole, words

patterns = st.sampled_from(("a", "^a", "b$", "^$", ".*", "5", r"\d", "true", "x*", "(?i)ABC"))
bounds = st.one_of(st.none(), whole)
fast = settings(max_examples=50, deadline=None)


@pytest.mark.slow
@given(bare, st.sampled_from(KEYS), bounds, bounds)
@fast
def test_numbers_by_chance(spans: list[Span], key: str, least: int | None, most: int | None) -> None:
    """Whatever the bounds and the types of values, SQL says what a plain reading says."""
    asked = conditions.numeric_attribute(key, least, most)
    assert Rows(spans).ask(asked) == [plain.numeric(span, key, least, most) for span in spans]


@pytest.mark.slow
@given(bare, st.sampled_from(KEYS), st.booleans())
@fast
def test_booleans_by_chance(spans: list[Span], key: str, value: bool) -> None:
    """Whatever the types of values, SQL says what a plain reading says."""
    asked = conditions.boolean_attribute(key, value)
    assert Rows(spans).ask(asked) == [plain.boolean(span, key, value) for span in spans]


@pytest.mark.slow
@given(bare, st.sampled_from(KEYS), st.lists(words, max_size=3))
@fast
def test_texts_by_chance(spans: list[Span], key: str, values: list[str]) -> None:
    """Quotes, backslashes, NUL and empty texts are found as they are, in spans and resources."""
    asked = conditions.string_attribute(key, values, regex=False)
    assert Rows(spans).ask(asked) == [plain.string(span, key, values, regex=False) for span in spans]


@pytest.mark.slow
@given(bare, st.sampled_from(KEYS), st.lists(patterns, min_size=1, max_size=3))
@fast
def test_patterns_by_chance(spans: list[Span], key: str, values: list[str]) -> None:
    """Patterns match somewhere in a text; one that matches an empty text does so for resources alone."""
    asked = conditions.string_attribute(key, values, regex=True)
    assert Rows(spans).ask(asked) == [plain.string(span, key, values, regex=True) for span in spans]


@given(
    st.lists(states, min_size=1, max_size=20),
    st.sampled_from(("a", "b", "d", "x@y", "A", "")),
    st.lists(words, max_size=3),
)
@fast
def test_trace_states_by_chance(texts: list[str], key: str, values: list[str]) -> None:
    """A state that can't be read says nothing of any key."""
    spans = [Span(state=text) for text in texts]
    wanted = [value for value in values if value]
    expected = [(plain.state(text) or {}).get(key, "") in wanted for text in texts]
    assert Rows(spans).ask(conditions.trace_state_value(key, values)) == expected


@pytest.mark.parametrize(
    ("value", "least", "most", "expected"),
    [
        (50, 50, 100, True),
        (100, 50, 100, True),
        (49, 50, 100, False),
        (-(2**63), None, -1, True),
        (2**63 - 1, 1, None, True),
        (60.0, 50, 100, False),
        ("60", 50, 100, False),
        ("word", -5, 5, True),
        (None, -5, 5, True),
        (None, 1, 5, False),
    ],
)
def test_numbers(value: Value, least: int | None, most: int | None, expected: bool) -> None:
    """Bounds count as within; what is not a whole number reads as 0, if only the key is there."""
    asked = conditions.numeric_attribute("n", least, most)
    assert ask(asked, Span({"n": value}), Span(resource={"n": value}), Span({"m": value})) == [
        expected,
        expected,
        False,
    ]


def test_exact_texts_pass_over_empty_ones() -> None:
    """An empty text among the values matches nothing, not even an empty text."""
    asked = conditions.string_attribute("k", ["", "a"], regex=False)
    assert ask(asked, Span({"k": ""}), Span({"k": "a"}), Span(resource={"k": ""}), Span(resource={"k": "a"})) == [
        *(False, True),
        *(False, True),
    ]


def test_nothing_to_match_reads_no_column() -> None:
    """Without a value there is nothing to ask."""
    assert conditions.string_attribute("k", [""], regex=False).columns == frozenset()


@pytest.mark.parametrize(
    ("codes", "expected"), [(["OK"], [False, True, False]), (["ERROR", "UNSET"], [True, False, True])]
)
def test_status_codes(codes: list[str], expected: list[bool]) -> None:
    """A span has one status."""
    asked = conditions.status_code(codes)
    assert ask(asked, Span(status=0), Span(status=1), Span(status=2)) == expected
    assert asked.columns == {"status_code"}


def test_trace_flags() -> None:
    """Only the lowest bit tells that a span was sampled."""
    spans = [Span(flags=flags) for flags in (0, 1, 256, 257, 2)]
    assert ask(conditions.trace_flags(), *spans) == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("k=v", True),
        (" k=v\t,z=1", True),
        (",,k=v,", True),
        ("k=v,k=v", False),
        ("k=v,Z=1", False),
        ("k =v", False),
        ("k=v=w", False),
        ("k=v,z", False),
        ("x@k=v", False),
        ("k=v," + ",".join(f"m{number}=1" for number in range(31)), True),
        ("k=v," + ",".join(f"m{number}=1" for number in range(32)), False),
        ("k=v,z=" + "1" * 256, True),
        ("k=v,z=" + "1" * 257, False),
        ("k=v," + "z" * 256 + "=1", True),
        ("k=v," + "z" * 257 + "=1", False),
    ],
)
def test_trace_states(state: str, expected: bool) -> None:
    """One bad member, a key twice or more than 32 members, and nothing is said."""
    assert ask(conditions.trace_state_value("k", ["v"]), Span(state=state)) == [expected]


def test_services_read_one_small_column() -> None:
    """Neve's own type for services leaves all maps alone."""
    spans = [Span(resource={"service.name": name}) for name in ("cart", "cart-2", "")]
    exact, pattern = (conditions.service_name(["cart", ""], regex=regex) for regex in (False, True))
    assert exact.columns == {"service_name"}
    assert ask(exact, *spans, Span()) == [True, False, False, False]
    assert ask(conditions.service_name(["^cart"], regex=True), *spans, Span()) == [True, True, False, False]
    assert ask(pattern, Span()) == [False]


def test_a_table_without_a_map_of_resources_knows_the_service() -> None:
    """The collector's `service.name` is found in the column of services where there is no map."""
    database().execute("CREATE OR REPLACE TEMP TABLE lean (service_name VARCHAR, attributes MAP(VARCHAR, VARCHAR))")
    database().execute("INSERT INTO lean VALUES ('cart', NULL), ('shop', NULL), (NULL, NULL)")
    asked = conditions.string_attribute("service.name", ["cart"], regex=False)
    nothing = "NULL::MAP(VARCHAR, VARCHAR)"
    found = database().execute(
        f"SELECT {asked} FROM (SELECT *, {nothing} AS attribute_types, {nothing} AS resource_attributes, "
        f"{nothing} AS resource_attribute_types FROM lean)"
    )
    assert [answer for (answer,) in found.fetchall()] == [True, False, False]


@pytest.mark.parametrize(
    ("value", "number", "truth", "text"),
    [("5", True, False, True), ("true", False, True, False), ("-5", False, False, False), ("x5", False, False, False)],
)
def test_without_types_a_text_is_read_by_its_form(value: str, number: bool, truth: bool, text: bool) -> None:
    """A text is a number or a boolean where it reads as one, and a text in any case."""
    span = Span({"k": value})
    assert ask(conditions.numeric_attribute("k", 1, 9), span, typed=False) == [number]
    assert ask(conditions.boolean_attribute("k", True), span, typed=False) == [truth]
    assert ask(conditions.string_attribute("k", ["5"], regex=False), span, typed=False) == [text]


def test_the_key_of_a_dynamic_rate() -> None:
    """Fields of the span, then of its resource; those of the root only on the root."""
    key = conditions.make_key(["service.name", "http.route", "root.name"])
    root = Span({"http.route": "/a"}, {"service.name": "cart", "http.route": "/r"}, name="GET")
    child = Span({}, {"service.name": "cart", "http.route": "/r"}, name="SELECT", parent=b"12345678")
    assert ask(key, root, child, Span()) == ["cart\x1f/a\x1fGET", "cart\x1f/r\x1f", "\x1f\x1f"]
    assert key.columns == {"service_name", "attributes", "resource_attributes", "parent_span_id", "name"}


def test_every_condition_can_be_parsed_elsewhere() -> None:
    """SQL of conditions is plain enough for sqlglot."""
    made = [
        conditions.numeric_attribute("n", 1, None),
        conditions.boolean_attribute("b", False),
        conditions.string_attribute("service.name", [".*", "it's"], regex=True),
        conditions.trace_state_value("k", ["v"]),
        conditions.trace_flags(),
    ]
    for asked in made:
        found = sqlglot.parse_one(str(asked), read="duckdb")
        columns = {column.name for column in found.find_all(sqlglot.exp.Column)} - {"m"}
        assert columns == asked.columns
