"""What a definition keeps, and when it counts as another one."""

from __future__ import annotations

import re
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.rollup.config import RollupConfig, RollupRule
from neve.rollup.definition import Definition, keeps

CONFIG = RollupConfig(
    attributes=("a", "b"),
    resource_attributes=("service.name",),
    quantiles=(0.9, 0.25),
    rules=(RollupRule(metrics="http.*", attributes="none"), RollupRule(metrics="*", quantiles=(0.999,))),
)


@given(st.text("ab.*?", max_size=5), st.text("ab.\n", max_size=5))
def test_patterns_are_those_of_file_names(pattern: str, name: str) -> None:
    """A star is any text, a question mark any one character, and a dot is a dot."""
    rules = (RollupRule(metrics=pattern),) if pattern else ()
    fits = bool(pattern) and re.match(translate(pattern), name) is not None
    assert Definition.of(RollupConfig(rules=rules)).rule_of(name) == (0 if fits else len(rules))


def test_the_first_rule_that_fits_decides() -> None:
    """What it does not say is as for the rest; brackets mean themselves; a metric without a name has a rule, too."""
    definition = Definition.of(CONFIG)
    assert [definition.rule_of(name) for name in ("http.x", "http.", "http", None)] == [0, 0, 1, 1]
    first, second, rest = definition.rules
    assert (first.attributes, first.resource_attributes, first.quantiles) == ("none", ("service.name",), (0.9, 0.25))
    assert (second.attributes, second.quantiles) == (("a", "b"), (0.999,))
    assert (rest.metrics, rest.attributes) == ("*", ("a", "b"))
    assert Definition.of(RollupConfig(rules=(RollupRule(metrics="[ab]"),))).rule_of("a") == 1
    assert Definition.of(RollupConfig()).rule_of(None) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": "all"},
        {"attributes": "none"},
        {"attributes": ("a",)},
        {"attributes": ("ab",)},
        {"resource_attributes": "all"},
        {"quantiles": (0.9,)},
        {"relative_error": 0.02},
        {"lookback_seconds": 301},
        {"rules": CONFIG.rules[:1]},
        {"rules": CONFIG.rules[::-1]},
        {"rules": (RollupRule(metrics="http.?", attributes="none"), CONFIG.rules[1])},
    ],
)
def test_what_changes_rows_changes_the_fingerprint(change: dict[str, object]) -> None:
    """So that everything is computed anew."""
    other = CONFIG.model_copy(update=change)
    assert Definition.of(other).fingerprint != Definition.of(CONFIG).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": ("b", "a")},
        {"quantiles": (0.25, 0.9)},
        {"relative_error": 0.0099},  # the same scale
        {"grace_seconds": 5},
        {"partial": True},
        {"slice_points": 1000},
        {"lease_seconds": 5},
    ],
)
def test_what_does_not_leaves_it(change: dict[str, object]) -> None:
    """Another order, or how work is done."""
    other = CONFIG.model_copy(update=change)
    assert Definition.of(other).fingerprint == Definition.of(CONFIG).fingerprint


@given(st.lists(st.text(max_size=3)), st.text(max_size=3))
def test_a_list_keeps_its_names(kept: list[str], name: str) -> None:
    """And no other."""
    assert keeps(tuple(kept), name) == (name in kept)
    assert (keeps("all", name), keeps("none", name)) == (True, False)
