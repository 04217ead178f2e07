"""All that is wrong with a policy file is said at once: where, what was found, what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import ConfigError
from neve.tail.policy.config.loader import read_policies, read_policy_file
from neve.tail.policy.config.value_types import parse_nanoseconds
from neve.tail.policy.tree import Holds, Probabilistic

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING_WRONG = """
tail_sampling:
  decision_wait: soon
  decision_waits: 5s
  num_shards: 1000
  decision_cache: {sampled_cache_size: many}
  policies:
    - {name: a, type: latency, latency: {threshold_ms: fast, treshold: 5}}
    - {name: a, type: nonsense}
    - {name: "", type: always_sample}
    - not a policy
    - name: nested
      type: and
      and:
        and_sub_policy:
          - {name: x, type: latency, latency: {threshold_ms: 1.5}}
          - {name: y, type: composite}
        more: 1
    - {name: codes, type: status_code, status_code: {status_codes: [error]}}
    - {name: regex, type: string_attribute, string_attribute: {key: k, values: ["(a"], enabled_regex_matching: true}}
    - {name: words, type: string_attribute, string_attribute: {key: k, values: [200, true]}}
    - {name: bounds, type: numeric_attribute, numeric_attribute: {key: k}}
    - {name: ottl, type: ottl_condition, ottl_condition: {span: ["Foo(name)", "name == "], spanevent: ["kind == 1"]}}
    - {name: rate, type: dynamic, dynamic: {goal_sample_rate: 0.5}}
    - {name: share, type: composite, composite: {rate_allocation: [{policy: 5}], composite_sub_policy: [{type: error}]}}
    - {name: half, type: "always_sample", other: 1}
    - {type: error}
    - {name: 5, type: error}
"""

COMPLAINTS = [
    ("tail_sampling.decision_cache.sampled_cache_size", "got 'many', expected a whole number"),
    ("tail_sampling.decision_wait", "got 'soon', expected a duration such as 30s, 1m30s or 250ms"),
    ("tail_sampling", "unknown key 'decision_waits', did you mean 'decision_wait'?"),
    ("tail_sampling.num_shards", "got 1000, expected less than or equal to 256"),
    ("tail_sampling.policies[0].latency.threshold_ms", "got 'fast', expected a whole number"),
    ("tail_sampling.policies[0].latency", "unknown key 'treshold', did you mean 'threshold_ms'?"),
    ("tail_sampling.policies[1].name", "'a' is already the name of tail_sampling.policies[0]"),
    ("tail_sampling.policies[1].type", "unknown type 'nonsense', expected one of always_sample, latency"),
    ("tail_sampling.policies[2].name", "missing or empty, expected a name"),
    ("tail_sampling.policies[3]", "got 'not a policy', expected a policy: keys and values"),
    ("tail_sampling.policies[4].and.and_sub_policy[0].latency.threshold_ms", "got 1.5, expected a whole number"),
    ("tail_sampling.policies[4].and.and_sub_policy[1].type", "'composite' is not allowed here"),
    ("tail_sampling.policies[4].and", "unknown key 'more'"),
    ("tail_sampling.policies[5].status_code.status_codes[0]", "got 'error', expected 'OK', 'ERROR' or 'UNSET'"),
    ("tail_sampling.policies[6].string_attribute", "got '(a', expected a regular expression of RE2: missing ): (a"),
    ("tail_sampling.policies[7].string_attribute.values[0]", "got 200, expected text; put it in quotes"),
    ("tail_sampling.policies[7].string_attribute.values[1]", "got true, expected text; put it in quotes"),
    ("tail_sampling.policies[8].numeric_attribute", "min_value and max_value are both missing or 0"),
    (
        "tail_sampling.policies[9].ottl_condition.span[0]",
        "OTTL function Foo in policy 'ottl' is not supported; supported: ",
    ),
    ("tail_sampling.policies[9].ottl_condition.span[1]", "OTTL condition of policy 'ottl': it ends too early"),
    ("tail_sampling.policies[9].ottl_condition.spanevent[0]", "OTTL path kind in policy 'ottl' is not supported"),
    ("tail_sampling.policies[10].dynamic.goal_sample_rate", "got 0.5, expected greater than or equal to 1"),
    ("tail_sampling.policies[10].dynamic.fields", "missing, and it has no default"),
    ("tail_sampling.policies[11].composite.composite_sub_policy[0].name", "missing or empty, expected a name"),
    ("tail_sampling.policies[11].composite.rate_allocation[0].policy", "got 5, expected text"),
    ("tail_sampling.policies[12]", "unknown key 'other'"),
    ("tail_sampling.policies[13].name", "missing or empty, expected a name"),
    ("tail_sampling.policies[14].name", "got 5, expected text; put it in quotes"),
]


def test_all_errors_of_a_file_at_once(tmp_path: Path) -> None:
    """Each line names the file, the path in it, the value and what was expected."""
    file = tmp_path / "policies.yaml"
    file.write_text(EVERYTHING_WRONG)
    with pytest.raises(ConfigError) as refused:
        read_policy_file(file)
    lines = refused.value.message.splitlines()
    missing = [
        (path, what)
        for path, what in COMPLAINTS
        if not any(line.startswith(f"{file}: {path}: {what}") for line in lines)
    ]
    assert missing == []
    assert len(lines) == len(COMPLAINTS), refused.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is not YAML"),
        ("policies: []\npolicies: []", r"is not YAML \(line 2\): duplicate key 'policies'"),
        ("- 1", "has list at the top, expected the collector's tail_sampling"),
        ("", "has NoneType at the top"),
        ("processors: {batch: {}}", "no tail_sampling among the processors batch"),
        ("tail_sampling: {}", "tail_sampling.policies: missing, expected a list of policies"),
        (
            "tail_sampling: {policies: {a: 1}}",
            "tail_sampling.policies: got keys and values, expected a list of policies",
        ),
        ("tail_sampling: 5", "tail_sampling: got 5, expected keys and values"),
    ],
)
def test_files_that_are_none(text: str, words: str, tmp_path: Path) -> None:
    """What is not a policy file at all is refused as such."""
    file = tmp_path / "policies.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_policy_file(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A path that leads nowhere is named."""
    with pytest.raises(ConfigError, match=r"can't read .*nowhere[.]yaml"):
        read_policy_file(tmp_path / "nowhere.yaml")


def test_yaml_is_read_as_the_collector_reads_it(tmp_path: Path) -> None:
    """`on` and `no` are words, and so is a time; `1e1` and `1_0` are numbers; anchors and merges work."""
    file = tmp_path / "policies.yaml"
    file.write_text(
        """
        base: &base {type: string_attribute}
        tail_sampling:
          policies:
            - <<: *base
              name: words
              string_attribute: {key: k, values: [on, no, 12:30:00, 2024-01-01]}
            - {name: share, type: probabilistic, probabilistic: {sampling_percentage: 1e1}}
            - {name: count, type: span_count, span_count: {min_spans: 1_0}}
        """
    )
    words, share, count = read_policy_file(file).policies
    assert isinstance(words, Holds)
    assert "IN ('12:30:00', '2024-01-01', 'no', 'on')" in words.fact.sql
    assert isinstance(share, Probabilistic)
    assert share.percentage == 10
    assert getattr(count, "least", None) == 10


def shares(value: Any, environment: dict[str, str]) -> float:
    """The percentage that a value is read as."""
    section = {"sampling_percentage": value}
    document = {"policies": [{"name": "p", "type": "probabilistic", "probabilistic": section}]}
    (found,) = read_policies(document, environment=environment).policies
    assert isinstance(found, Probabilistic)
    return found.percentage


def test_variables_of_the_environment() -> None:
    """A value that is a variable has the type that its text reads as; a default stands in for one that is not set."""
    assert shares("${env:SHARE}", {"SHARE": "2.5"}) == 2.5
    assert shares("${SHARE:-7}", {}) == 7
    with pytest.raises(ConfigError, match=r"sampling_percentage: the variable SHARE of \${env:SHARE} is not set"):
        shares("${env:SHARE}", {})
    with pytest.raises(ConfigError, match=r"got \${file:x}, expected a variable of the environment"):
        shares("${file:x}", {})


def test_dollars() -> None:
    """A dollar of a pattern stays one; two are one."""
    section = {"values": ["^a$", "b$$", "${X}-c"], "enabled_regex_matching": True}
    document = {"policies": [{"name": "p", "type": "service_name", "service_name": section}]}
    (found,) = read_policies(document, environment={"X": "x"}).policies
    assert isinstance(found, Holds)
    assert all(pattern in found.fact.sql for pattern in ("'^a$'", "'b$'", "'x-c'"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("30s", 30 * 10**9), ("1m30s", 90 * 10**9), ("1.5h", 5400 * 10**9)),
        *(("250ms", 250_000_000), ("-2us", -2000), ("0", 0), (".5s", 5 * 10**8)),
    ],
)
def test_durations(text: str, expected: int) -> None:
    """Durations are Go's."""
    assert parse_nanoseconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", "1 s", "1d", "1s2", "300000000h", "--1s"])
def test_what_is_no_duration(text: str) -> None:
    """A number needs a unit."""
    with pytest.raises(ValueError, match="expected a duration"):
        parse_nanoseconds(text)
