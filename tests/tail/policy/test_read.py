"""Each type of policy becomes what the collector makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from neve.errors import ConfigError
from neve.tail.policy.config.policy_parser import NESTINGS
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import (
    All,
    Always,
    Composite,
    Drop,
    Dynamic,
    Holds,
    Latency,
    Node,
    Not,
    Probabilistic,
    RateLimit,
    SpanCount,
)
from tests.tail.policy.rows import Span, ask
from tests.tail.policy.written import composite, policy, read


def only(*policies: dict[str, Any], semantics: Semantics = Semantics.DOCUMENTED) -> Node:
    """The one policy of a document."""
    (found,) = read(*policies, semantics=semantics).policies
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (policy("always_sample"), Always("p", "always_sample")),
        (policy("latency", {"threshold_ms": 500}), Latency("p", "latency", 500)),
        (policy("latency", {"upper_threshold_ms": 9}), Latency("p", "latency", 0, 9)),
        (policy("span_count", {"min_spans": 2}), SpanCount("p", "span_count", 2)),
        (policy("span_count", {"min_spans": 2, "max_spans": 20}), SpanCount("p", "span_count", 2, 20)),
        (
            policy("probabilistic", {"sampling_percentage": 10}),
            Probabilistic("p", "probabilistic", 10.0, "default-hash-seed"),
        ),
        (
            policy("probabilistic", {"sampling_percentage": 0.1, "hash_salt": "x"}),
            Probabilistic("p", "probabilistic", 0.1, "x"),
        ),
        (policy("rate_limiting", {"spans_per_second": 35}), RateLimit("p", "rate_limiting", 35, 70, "spans")),
        (
            policy("bytes_limiting", {"bytes_per_second": 1024, "burst_capacity": 5000}),
            RateLimit("p", "bytes_limiting", 1024, 5000, "bytes"),
        ),
        (
            policy("dynamic", {"goal_sample_rate": 10, "fields": ["name"], "adjustment_interval": "1m"}),
            Dynamic("p", "dynamic", 0, 10.0, 0.5, 60),
        ),
    ],
)
def test_types_that_ask_no_span(written: dict[str, Any], expected: Node) -> None:
    """Each has the collector's fields and defaults."""
    assert only(written) == expected


@pytest.mark.parametrize(
    ("written", "matching", "other"),
    [
        (policy("numeric_attribute", {"key": "n", "min_value": 5}), Span({"n": 5}), Span({"n": 4})),
        (policy("numeric_attribute", {"key": "n", "min_value": -5, "max_value": -1}), Span({"n": -5}), Span({"n": 0})),
        (policy("boolean_attribute", {"key": "b"}), Span({"b": False}), Span({"b": True})),
        (policy("string_attribute", {"key": "s", "values": ["x"]}), Span(resource={"s": "x"}), Span({"s": "xy"})),
        (
            policy(
                "string_attribute", {"key": "s", "values": ["x"], "enabled_regex_matching": True, "cache_max_size": 9}
            ),
            Span({"s": "axa"}),
            Span({"s": "y"}),
        ),
        (policy("status_code", {"status_codes": ["OK", "ERROR"]}), Span(status=1), Span(status=0)),
        (policy("trace_state", {"key": "k", "values": ["v"]}), Span(state="k=v"), Span(state="k=w")),
        (policy("trace_flags"), Span(flags=1), Span(flags=256)),
        (policy("ottl_condition", {"span": ["kind == 2"], "error_mode": "IGNORE"}), Span(kind=2), Span(kind=3)),
        (policy("service_name", {"values": ["cart"]}), Span(resource={"service.name": "cart"}), Span()),
        (policy("error", {}), Span(status=2), Span(status=1)),
    ],
)
def test_types_that_ask_spans(written: dict[str, Any], matching: Span, other: Span) -> None:
    """Each becomes a fact, which holds for some spans and not for others."""
    found = only(written)
    assert isinstance(found, Holds)
    assert (found.kind, found.inverted) == (written["type"], False)
    assert ask(found.fact, matching, other) == [True, False]


def test_invert_match_asks_the_same_fact() -> None:
    """An inverted policy samples where nothing matches, which is asked of the whole trace."""
    section = {"key": "s", "values": ["x"]}
    read_both = read(
        policy("string_attribute", section), policy("string_attribute", section | {"invert_match": True}, "inverted")
    )
    plain, inverted = read_both.policies
    assert isinstance(plain, Holds)
    assert isinstance(inverted, Holds)
    assert (plain.fact, plain.inverted, inverted.inverted) == (inverted.fact, False, True)
    assert read_both.facts == (plain.fact,)


def test_facts_stand_in_order_of_first_use() -> None:
    """Policies that drop are asked first, so their facts come first; equal ones are one."""
    status = {"status_codes": ["ERROR"]}
    found = read(
        policy("status_code", status),
        policy("trace_flags", name="flags"),
        policy("error", name="same"),
        policy("drop", {"drop_sub_policy": [policy("status_code", {"status_codes": ["OK"]})]}, "drop"),
    )
    assert [fact.sql for fact in found.facts] == [
        "coalesce(status_code, 0) IN (1)",
        "coalesce(status_code, 0) IN (2)",
        "(coalesce(flags, 0) & 1) <> 0",
    ]
    assert [node.name for node in found.policies] == ["drop", "p", "flags", "same"]


def test_nesting() -> None:
    """Policies stand in others as the collector lets them."""
    leaf = policy("always_sample", name="a")
    negation = policy("not", {"not_sub_policy": leaf}, "n")
    assert only(policy("and", {"and_sub_policy": [leaf, negation]})) == All(
        "p", "and", (Always("a", "always_sample"), Not("n", "not", Always("a", "always_sample")))
    )
    assert only(policy("drop", {"drop_sub_policy": [leaf]})) == Drop("p", "drop", (Always("a", "always_sample"),))


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("and", "and"), ("and", "composite"), ("and", "drop"), ("not", "and"), ("composite", "not"), ("drop", "and")],
)
def test_what_the_collector_does_not_nest(outer: str, inner: str) -> None:
    """Others are refused, as by the collector."""
    part = policy(inner, {NESTINGS[inner].key: {}})
    key = NESTINGS[outer].key
    with pytest.raises(ConfigError, match=f"policies.0..{outer}.{key}.*type: '{inner}' is not allowed here"):
        read(policy(outer, {key: part if outer == "not" else [part]}))


def test_shares_of_a_composite() -> None:
    """A percentage where there is one, an equal share elsewhere."""
    found = only(composite(rate_allocation=[{"policy": "b", "percent": 25}, {"policy": "c", "percent": 0}]))
    assert isinstance(found, Composite)
    assert [(share.part.name, share.per_second) for share in found.shares] == [("a", 333), ("b", 250), ("c", 333)]


@pytest.mark.parametrize(("semantics", "expected"), [(Semantics.DOCUMENTED, "cba"), (Semantics.OTELCOL, "abc")])
def test_order_of_a_composite(semantics: Semantics, expected: str) -> None:
    """The collector documents an order of policies, but its code asks them as they stand."""
    found = only(composite(policy_order=["c", "b"]), semantics=semantics)
    assert isinstance(found, Composite)
    assert "".join(share.part.name for share in found.shares) == expected


@pytest.mark.parametrize(
    ("semantics", "section", "running"),
    [
        (Semantics.DOCUMENTED, {"threshold_ms": 1, "upper_threshold_ms": 9}, False),
        (Semantics.OTELCOL, {"threshold_ms": 1, "upper_threshold_ms": 9}, True),
        (Semantics.OTELCOL, {"threshold_ms": 1}, False),
    ],
)
def test_upper_bounds_of_latency(semantics: Semantics, section: dict[str, int], running: bool) -> None:
    """Only the collector's reading of an upper bound looks at a trace before it is whole."""
    found = only(policy("latency", section), semantics=semantics)
    assert isinstance(found, Latency)
    assert found.running is running


def test_keys_of_dynamic_rates_are_shared() -> None:
    """Policies with the same fields go by the same key."""
    sections = [{"goal_sample_rate": 2, "fields": fields} for fields in (["name"], ["service.name"], ["name"])]
    found = read(*(policy("dynamic", section, str(at)) for at, section in enumerate(sections)))
    assert [node.key for node in found.policies if isinstance(node, Dynamic)] == [0, 1, 0]
    assert len(found.keys) == 2
