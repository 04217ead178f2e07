"""Random sets of policies, of all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

FACTS: tuple[dict[str, Any], ...] = (
    {"type": "error"},
    {"type": "latency", "latency": {"threshold_ms": 400}},
    {"type": "latency", "latency": {"threshold_ms": 150, "upper_threshold_ms": 700}},
    {"type": "numeric_attribute", "numeric_attribute": {"key": "size", "min_value": 3, "max_value": 5}},
    {"type": "boolean_attribute", "boolean_attribute": {"key": "flag", "value": True}},
    {"type": "string_attribute", "string_attribute": {"key": "user", "values": ["u1", "u2"]}},
    {"type": "status_code", "status_code": {"status_codes": ["ERROR"]}},
    {"type": "span_count", "span_count": {"min_spans": 3, "max_spans": 6}},
    {"type": "ottl_condition", "ottl_condition": {"error_mode": "ignore", "span": ['attributes["user"] == "u4"']}},
)
# True for most traces: parts of policies that ask for more.
WIDE: tuple[dict[str, Any], ...] = (
    {
        "type": "string_attribute",
        "string_attribute": {
            "key": "user",
            "values": ["^u[0-3]$"],
            "enabled_regex_matching": True,
            "invert_match": True,
        },
    },
    {"type": "service_name", "service_name": {"values": ["cart"]}},
    {"type": "trace_flags"},
)
CHANCES: tuple[dict[str, Any], ...] = (
    {"type": "probabilistic", "probabilistic": {"sampling_percentage": 20}},
    {"type": "probabilistic", "probabilistic": {"sampling_percentage": 35, "hash_salt": "salt"}},
)
LIMITS: tuple[dict[str, Any], ...] = (
    {"type": "rate_limiting", "rate_limiting": {"spans_per_second": 1}},
    {"type": "bytes_limiting", "bytes_limiting": {"bytes_per_second": 150}},
    {"type": "dynamic", "dynamic": {"fields": ["service.name"], "goal_sample_rate": 3, "adjustment_interval": "30s"}},
)


def policy_set(chance: random.Random, *, limited: bool) -> list[dict[str, Any]]:
    """Some policies with distinct names."""
    leaves = chance.sample(FACTS, 2)
    if limited:
        leaves += [chance.choice(LIMITS), _composite(chance)]
    found = [*leaves, _and(chance), _drop(chance), {"type": "not", "not": {"not_sub_policy": _named(WIDE[-1], "n")}}]
    chance.shuffle(found)
    return [_named(policy, f"p{place}") for place, policy in enumerate(found)]


def _and(chance: random.Random) -> dict[str, Any]:
    parts = [_named(chance.choice(WIDE), "a"), _named(chance.choice(CHANCES), "b")]
    return {"type": "and", "and": {"and_sub_policy": parts}}


def _drop(chance: random.Random) -> dict[str, Any]:
    parts = [_named(one, f"d{place}") for place, one in enumerate((*chance.sample(FACTS, 2), chance.choice(WIDE)))]
    return {"type": "drop", "drop": {"drop_sub_policy": parts}}


def _composite(chance: random.Random) -> dict[str, Any]:
    parts = [_named(chance.choice(FACTS), "c0"), _named({"type": "always_sample"}, "c1")]
    shares = [{"policy": "c0", "percent": 60}, {"policy": "c1", "percent": 40}]
    return {
        "type": "composite",
        "composite": {
            "max_total_spans_per_second": 2,
            "policy_order": ["c0", "c1"],
            "composite_sub_policy": parts,
            "rate_allocation": shares,
        },
    }


def _named(policy: dict[str, Any], name: str) -> dict[str, Any]:
    return {"name": name, **policy}
