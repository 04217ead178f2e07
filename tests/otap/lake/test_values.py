"""Values between OTAP's columns and the wire."""

from __future__ import annotations

from collections import Counter
from typing import Any

import cbor2
import pyarrow as pa
import pytest

from neve.errors import InputError
from neve.otap.tables import schema
from neve.otap.values import COLUMNS, INEXACT, UNREADABLE, UNSET, from_wire, pack_map, to_wire, unpack_map, unpack_slice
from neve.otlp.value_columns import VALUE_TYPE, decode_values
from neve.otlp.values import MAX_LEVELS, UnreadableValue
from tests.otap.stars import value_columns

KINDS = schema("log_attrs")


def columns_of(*rows: dict[str, Any]) -> dict[str, pa.Array]:
    """Rows of OTAP's value columns."""
    return {name: pa.array([row.get(name) for row in rows], KINDS.field(name).type) for name in COLUMNS}


def texts_of(*rows: dict[str, Any]) -> tuple[list[tuple[str | None, str]], Counter[str]]:
    """The lake's text and type of each value, and what was lost."""
    losses: Counter[str] = Counter()
    texts = decode_values(to_wire(columns_of(*rows), losses))
    kinds = [texts.names[code] for code in texts.codes.tolist()]
    return list(zip(texts.text.to_pylist(), kinds, strict=True)), losses


def test_each_type_has_the_text_that_otlp_gives_it() -> None:
    """Text and type are those of the same value that came by OTLP: numbers, bytes, maps and lists alike."""
    values = [None, "", "é", 7, -0.5, 1e300, True, b"\0\xff", {"a": [1, None, 2.5]}, ["x", {"y": b"z"}]]
    texts, losses = texts_of(*map(value_columns, values))
    assert texts[:9] == [
        (None, "empty"),
        ("", "string"),
        ("é", "string"),
        ("7", "int"),
        ("-0.5", "double"),
        ("1e+300", "double"),
        ("true", "bool"),
        ("AP8=", "bytes"),
        ('{"a":[1,null,2.5]}', "map"),
    ]
    assert texts[9][0] == '["x",{"y":"eg=="}]'
    assert texts[9][1].startswith("exact:")
    assert not +losses


def test_only_the_column_that_the_type_names_counts() -> None:
    """What stands in other columns is ignored, and a value whose column is null is empty."""
    texts, _losses = texts_of({"type": 2, "int": 3, "str": "no"}, {"type": 1, "int": 3}, {"type": 0, "str": "no"})
    assert texts == [("3", "int"), (None, "empty"), (None, "empty")]


def test_maps_that_are_no_cbor_become_bytes() -> None:
    """Nothing is dropped: the bytes are kept as bytes, and counted."""
    bad = [
        {"type": 5, "ser": b"\xff"},
        {"type": 6, "ser": cbor2.dumps({"a": 1})},
        {"type": 5, "ser": cbor2.dumps({1: 2})},
    ]
    texts, losses = texts_of(*bad)
    assert [kind for _text, kind in texts] == ["bytes"] * 3
    assert losses[UNREADABLE] == 3


def test_a_type_that_nobody_knows_is_refused() -> None:
    """The specification says so."""
    with pytest.raises(InputError, match="type 8, expected 0 to 7"):
        to_wire(columns_of({"type": 8}), Counter())


def test_what_a_value_loses_is_counted() -> None:
    """A value that was never sent becomes an empty one; a map can't hold a key twice."""
    twice = b"\n\x03\n\x01a\n\x03\n\x01a"
    wire = pa.array([None, {"kvlist_value": twice}, {"string_value": "x"}], VALUE_TYPE)
    losses: Counter[str] = Counter()
    columns = from_wire(wire, losses)
    assert columns["type"].to_pylist() == [0, 5, 1]
    assert (losses[UNSET], losses[INEXACT]) == (1, 1)
    assert pack_map(twice) == (cbor2.dumps({"a": None}), False)


def test_cbor_that_is_nested_too_deep_is_not_read() -> None:
    """As deep as OTLP may be, and no deeper."""
    deep: Any = 1
    for _level in range(MAX_LEVELS + 1):
        deep = [deep]
    with pytest.raises(UnreadableValue, match="levels deep"):
        unpack_slice(cbor2.dumps(deep))
    with pytest.raises(UnreadableValue, match="expected a map"):
        unpack_map(cbor2.dumps([]))
