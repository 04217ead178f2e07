"""A collector's YAML runs unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neve.errors import ConfigError
from neve.tail.policy.config.loader import build_default_policies, read_policies, read_policy_file
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Holds, Latency, Probabilistic
from tests.tail.policy.rows import Span, ask
from tests.tail.policy.written import composite, policy, read

COLLECTOR = Path(__file__).parent / "collector.yaml"


def test_a_whole_collector() -> None:
    """Its processors are found, its variables elsewhere are left alone, and the tail sampler is read as it stands."""
    found = read_policy_file(COLLECTOR)
    assert [node.name for node in found.policies] == [
        "no-internals",
        "errors",
        "slow",
        "checkout",
        "server-errors",
        "budget",
    ]
    assert (found.decision_wait_seconds, found.after_root_seconds) == (90.0, 5.0)
    assert [remark.split()[0] for remark in found.remarks] == [
        *("num_traces", "expected_new_traces_per_sec", "decision_cache", "drop_pending_traces_on_shutdown"),
    ]
    assert len(found.facts) == 7
    assert found == read_policy_file(str(COLLECTOR), Semantics.DOCUMENTED, processor="tail_sampling/shop")


def test_places_of_policies() -> None:
    """A whole configuration, the processor with its name, and its body alone say the same."""
    body = {"policies": [policy("trace_flags")]}
    documents: list[dict[str, Any]] = [
        body,
        {"tail_sampling": body},
        {"processors": {"tail_sampling/x": body, "batch": None}},
    ]
    assert len({read_policies(document) for document in documents}) == 1


def test_one_of_several_tail_samplers() -> None:
    """Where there are several, one must be named."""
    document = {
        "tail_sampling": {"policies": [policy("trace_flags")]},
        "tail_sampling/b": {"policies": [policy("error")]},
    }
    assert read_policies(document, processor="tail_sampling/b").policies[0].kind == "error"
    with pytest.raises(ConfigError, match="several tail samplers: tail_sampling, tail_sampling/b"):
        read_policies(document)
    with pytest.raises(ConfigError, match="there is no 'tail_sampling/c'; there are tail_sampling, tail_sampling/b"):
        read_policies(document, processor="tail_sampling/c")


def test_options() -> None:
    """Those that decide are kept, those that bound memory are accepted with a reason why they mean nothing."""
    found = read(
        policy("error"),
        sample_on_first_match=True,
        sampling_strategy="span-ingest",
        block_on_overflow=True,
        num_shards=4,
        maximum_trace_size_bytes=5,
        tail_storage="file_storage",
        decision_wait="0s",
    )
    assert found.first_match
    assert (found.decision_wait_seconds, found.after_root_seconds) == (0.0, None)
    assert [remark.split()[0] for remark in found.remarks] == [
        *("block_on_overflow", "tail_storage", "maximum_trace_size_bytes", "num_shards", "sampling_strategy"),
    ]
    assert all("has no effect here: " in remark for remark in found.remarks)


def test_what_the_collector_takes_is_taken_with_a_remark() -> None:
    """A policy that was left unfinished runs as it does there, and is pointed at, in the order of the file."""
    found = read(
        policy("latency"),
        policy("and", {}, "and"),
        policy("probabilistic", {}, "none"),
        policy("error", name="other") | {"latency": {"threshold_ms": 5}},
        policy("string_attribute", {}, "nothing"),
        policy("ottl_condition", {"error_mode": "propagate", "span": ["true"]}, "ottl"),
        composite(policy_order=["z"]) | {"name": "c"},
    )
    assert [remark.split(":")[0].split(" ")[0] for remark in found.remarks] == [
        "policies[0].latency",
        "policies[1].and.and_sub_policy",
        "policies[2].probabilistic",
        "policies[3].latency",
        "policies[4].string_attribute",
        "policies[5].ottl_condition.error_mode",
        "policies[6].composite.policy_order",
    ]


def test_the_default_set() -> None:
    """Errors, slow traces, then a percentage."""
    found = build_default_policies(slow_ms=250, percentage=5)
    errors, slow, rest = found.policies
    assert isinstance(errors, Holds)
    assert ask(errors.fact, Span(status=2), Span(status=1)) == [True, False]
    assert slow == Latency("slow", "latency", 250)
    assert rest == Probabilistic("rest", "probabilistic", 5.0, "default-hash-seed")


def test_the_fingerprint_is_of_what_decides() -> None:
    """Neither the order of keys nor a default that is written down changes it; what decides does."""
    one = read(policy("latency", {"threshold_ms": 5}), num_traces=7, decision_wait="1s")
    same = read({"latency": {"upper_threshold_ms": 0, "threshold_ms": 5}, "type": "latency", "name": "p"})
    others = [
        read(policy("latency", {"threshold_ms": 6})),
        read(policy("latency", {"threshold_ms": 5}, "q")),
        read(policy("latency", {"threshold_ms": 5}), sample_on_first_match=True),
        read(policy("latency", {"threshold_ms": 5}), semantics=Semantics.OTELCOL),
    ]
    assert one.fingerprint == same.fingerprint
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert len(one.fingerprint) == 64
