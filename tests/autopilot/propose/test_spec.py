"""Specs: a layout survives the way into YAML and back, and a file that people broke says where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.autopilot.layout import SPEC_HEADER, TableSpec, format_spec, parse_spec, replace_layout, spec_has_layout
from neve.errors import ConfigError
from tests.autopilot.propose.examples import AFTER, BEFORE, TABLE, layouts, names

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout

GOOD = format_spec(TableSpec(TABLE, AFTER))
specs = st.builds(
    TableSpec,
    names,
    layouts,
    st.dictionaries(names, st.text(max_size=5)).map(lambda found: tuple(sorted(found.items()))),
)


@given(specs)
@settings(max_examples=60)
def test_a_spec_comes_back_from_its_file(spec: TableSpec) -> None:
    """Every name, whatever is in it, and the same file each time, also over UTF-8."""
    text = format_spec(spec)
    assert parse_spec(text.encode().decode()) == spec
    assert format_spec(parse_spec(text)) == text


@given(layouts, layouts)
@settings(max_examples=60)
def test_files_are_equal_where_layouts_are(one: Layout, other: Layout) -> None:
    """Two layouts that differ are told apart by their files."""
    assert (format_spec(TableSpec(TABLE, one)) == format_spec(TableSpec(TABLE, other))) == (one == other)


def test_the_file_is_for_people() -> None:
    """A header, one thing a line, in an order that does not change."""
    assert GOOD == SPEC_HEADER + (
        "version: 1\n"
        "table: telemetry.spans\n"
        "partition:\n"
        "- {column: organization_id, transform: identity}\n"
        "- {column: time, transform: day}\n"
        "sort: []\n"
        "zorder: [service_name, time]\n"
        "promoted: []\n"
        "bloom_filters: [trace_id]\n"
        "target_file_bytes: null\n"
        "properties: {}\n"
    )


def test_a_broken_file_says_where() -> None:
    """Unknown keys, words that YAML takes for something else, both orders, keys that stand twice, no YAML at all."""
    for text, said in (
        (GOOD + "speed: 9\n", "speed"),
        (GOOD.replace("[service_name", "[on"), "zorder.0"),
        (GOOD.replace("sort: []", "sort: [a]"), "sort or zorder, not both"),
        (GOOD + "sort: []\n", "duplicate key 'sort'"),
        (GOOD.replace("target_file_bytes: null", "target_file_bytes: 0"), "target_file_bytes"),
        (GOOD.replace("version: 1", "version: 2"), "version"),
        (GOOD.replace("table: telemetry.spans\n", ""), "table"),
        (GOOD.replace("sort: []", "sort: ["), r"line \d+"),
        (GOOD.replace("sort: []", "sort: &a [x]\nmore: *a"), "alias"),
        ("", "is not a table's spec"),
        ("[" * 1200, "is not YAML"),
        (" " * 1_000_001, "characters"),
    ):
        with pytest.raises(ConfigError, match=said):
            parse_spec(text, "spans.yaml")


def test_a_file_that_cannot_be_read_has_no_layout() -> None:
    """Neither has none at all, nor one of another table."""
    assert spec_has_layout(GOOD, TABLE, AFTER)
    assert not spec_has_layout(GOOD, TABLE, BEFORE)
    assert not spec_has_layout(GOOD, "telemetry.logs", AFTER)
    assert not spec_has_layout(None, TABLE, AFTER)
    assert not spec_has_layout("{", TABLE, AFTER)


def test_another_layout_keeps_the_properties() -> None:
    """What people wrote beside the layout stays."""
    text = format_spec(TableSpec(TABLE, BEFORE, (("a", "1"),)))
    assert yaml.safe_load(replace_layout(text, TABLE, AFTER))["properties"] == {"a": "1"}
    assert parse_spec(replace_layout(None, TABLE, AFTER)) == TableSpec(TABLE, AFTER)
