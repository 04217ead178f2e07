"""Conditions of erasures: what is searched for, and what records of it may contain."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.erase.condition import Condition, TextTest, parse_condition
from neve.erase.file_rewrite import open_evaluator
from neve.errors import ConfigError

SCHEMA = pa.schema(
    [
        ("organization_id", pa.string()),
        ("message", pa.string()),
        ("payload", pa.binary()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("tags", pa.list_(pa.string())),
    ]
)


@pytest.mark.parametrize(
    ("where", "texts", "is_plain"),
    [
        ("attributes['user'] = 'ada-4711'", ("ada-4711",), True),
        ("message LIKE '%ada-4711%_x'", ("ada-4711",), True),
        ("contains(message, 'ada-4711')", ("ada-4711",), True),
        ("name IN ('ada-4711', 'bob-4712')", ("ada-4711", "bob-4712"), True),
        ("name = 'ada-4711' AND service = 'cart'", ("ada-4711", "cart"), False),
        ("(name = 'ada-4711' AND severity > 3)", ("ada-4711",), True),
        ("name = 'ada-4711' OR mail = 'ada@x.org'", ("ada-4711", "ada@x.org"), True),
    ],
)
def test_the_texts_that_a_condition_requires(where: str, texts: tuple[str, ...], is_plain: bool) -> None:
    """Only those that every matching record contains."""
    test = parse_condition(where).text_test
    assert test is not None
    assert (test.leaves, test.is_plain) == (texts, is_plain)


@pytest.mark.parametrize(
    "where",
    [
        "severity > 3",
        "name = 'ada-4711' OR severity > 3",
        "NOT name = 'ada-4711'",
        "name = 'a'",
        "name IN ('ada-4711', 'b')",
    ],
)
def test_conditions_that_require_no_text(where: str) -> None:
    """A record without the text may match, or the text is too short to identify one."""
    assert parse_condition(where).text_test is None


@pytest.mark.parametrize(
    ("where", "texts"),
    [("", ()), ("", ("abc",)), ("SELECT 1", ()), ("name IN (SELECT name FROM x)", ()), ("name = ", ()), ("1 = 1", ())],
)
def test_a_wrong_condition_is_refused(where: str, texts: tuple[str, ...]) -> None:
    """Statements, subqueries, conditions on nothing, and short texts."""
    with pytest.raises(ConfigError):
        parse_condition(where, texts)


def test_the_shape_has_no_values() -> None:
    """Neither texts nor numbers."""
    shape = parse_condition("attributes['user'] = 'ada' AND x > 4711 OR y IN ('b', 3)", ["secret"]).shape
    assert shape == "attributes[?] = ? AND x > ? OR y IN (?, ?) or 1 texts"


@given(
    st.text(min_size=4).filter(lambda text: "\0" not in text),
    st.sampled_from(["message", "payload", "attributes", "tags"]),
)
def test_a_text_is_found_in_every_kind_of_column(text: str, column: str) -> None:
    """Whatever characters it has, and not in rows without it."""
    values = {
        "message": f"<{text}>",
        "payload": b"\xff" + text.encode() + b"\x00",
        "attributes": [("k", f"<{text}>")],
        "tags": ["a", text],
    }
    rows = pa.Table.from_pylist([{column: values[column]}, {"message": "zz"}], schema=SCHEMA)
    sql = Condition("", (text,)).to_sql(SCHEMA, is_bound=False)
    assert sql is not None
    evaluator = open_evaluator(SCHEMA)
    assert evaluator.count(rows, sql) == 1
    assert evaluator.drop(rows, sql).num_rows == 1


def test_all_texts_of_a_conjunction_are_needed() -> None:
    """One of them is not enough."""
    test = TextTest(("ada-4711", TextTest(("cart", "shop"))), needs_all=True)
    assert [test.holds(one) for one in ("ada-4711 cart", "shop ada-4711", "ada-4711", "cart")] == [
        True,
        True,
        False,
        False,
    ]
