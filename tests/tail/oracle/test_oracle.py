"""The recording is what the collector decides on these traces, and covers every policy that it has."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.parts import tailsampler
from tests.tail.oracle import arrivals, cases, make, real, record, recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TYPES = {
    "always_sample", "latency", "numeric_attribute", "probabilistic", "status_code", "string_attribute",
    "rate_limiting", "composite", "and", "not", "drop", "span_count", "trace_state", "boolean_attribute",
    "ottl_condition", "bytes_limiting", "trace_flags",
}  # fmt: skip


@pytest.mark.slow
def test_recording_is_of_these_traces_and_cases() -> None:
    """A change of the traces or the cases without a new recording is noticed without the collector."""
    assert cases.decisions().digest == cases.digest()
    assert cases.decisions().collector == tailsampler.VERSION
    assert sorted(cases.decisions().judged) == sorted(case.name for case in cases.cases())


@pytest.mark.slow
def test_every_policy_type_of_the_collector_is_asked() -> None:
    """No type is left out, and each is seen to sample some traces and not others."""
    accepted = cases.recorded()
    told: dict[str, set[str]] = {}
    for case in cases.cases():
        if case.name in accepted:
            outcomes = {each.decision for each in cases.decisions().judged[case.name].verdicts.values()}
            for kind in _types(case.body["policies"]):
                told.setdefault(kind, set()).update(outcomes)
    assert set(told) == TYPES
    assert all(outcomes >= {"sampled", "not_sampled"} for outcomes in told.values())


@pytest.mark.slow
def test_refusals_are_told_from_decisions() -> None:
    """What the collector refuses at start is named so, with a reason, and has no decisions."""
    assert set(cases.refused()) == {case.name for case in cases.cases() if case.name.startswith("refused-")}
    assert all(cases.refused().values())
    assert not set(cases.refused()) & set(cases.recorded())


def test_decisions_belong_to_their_traces() -> None:
    """Two policies that are easily computed say the same of every trace, so no id has slipped."""
    spans = cases.spans()
    assert cases.recorded()["span-count-min"] == {each for each, mine in spans.items() if len(mine) >= 10}
    errors = {each for each, mine in spans.items() if any(span.status.code == 2 for span in mine)}
    assert cases.recorded()["status-error"] == errors
    assert cases.decisions().judged["default-set"].verdicts.keys() == spans.keys()


@pytest.mark.slow
def test_only_single_spans_compare_where_errors_depend_on_the_order() -> None:
    """A case in which an error ends the evaluation compares only traces of one span."""
    by_name = {case.name: case for case in cases.cases()}
    single = {each for each, mine in cases.spans().items() if len(mine) == 1}
    assert cases.comparable(by_name["ottl-error-propagated"]) == single
    assert cases.comparable(by_name["latency-upper-100"]) == set(cases.trace_ids())


def test_recording_of_mixed_arrivals_is_of_these_messages_and_cases() -> None:
    """A change of the messages or cases without a new recording is noticed, and each case tells traces apart."""
    found = arrivals.decisions()
    assert (found.digest, found.collector) == (arrivals.digest(), tailsampler.VERSION)
    assert sorted(found.judged) == sorted(case.name for case in arrivals.cases())
    assert all(len({one.decision for one in judged.verdicts.values()}) > 1 for judged in found.judged.values())
    assert arrivals.count_repeats() > 150


def test_recording_survives_a_file(tmp_path: Path) -> None:
    """What is written is read again, refusals and deciding policies included."""
    path = tmp_path / "decisions.json"
    recording.write(path, cases.decisions(), cases.trace_ids())
    assert recording.read(path, cases.trace_ids()) == cases.decisions()
    assert path.read_text() == cases.DECISIONS.read_text()


def test_traces_are_sent_whole() -> None:
    """Each message holds one trace, so that the collector never sees a part of one."""
    ids = [{span.trace_id for group in each.resource_spans for scope in group.scope_spans for span in scope.spans}
           for each in make.messages()]  # fmt: skip
    assert all(len(each) == 1 for each in ids)
    assert len(set.union(*ids)) == len(ids) == len(cases.traces())


@pytest.mark.parts
def test_collector_says_what_is_recorded() -> None:
    """The built processor, asked again, decides every case as recorded."""
    _need_collector()
    assert record.ask() == cases.decisions().judged


@pytest.mark.parts
def test_collector_says_what_is_recorded_of_mixed_arrivals() -> None:
    """The same on traces whose spans arrive in any order and repeatedly."""
    _need_collector()
    assert record.ask_arrivals() == arrivals.decisions().judged


@pytest.mark.parts
@pytest.mark.usefixtures("shared_data")
def test_collector_says_what_is_recorded_of_real_traces() -> None:
    """The same on real traces, whose spans come in many messages."""
    _need_collector()
    assert record.ask_real(real.TRACES) == real.decisions().judged


@pytest.mark.slow
def test_recording_agrees_with_an_older_collector(shared_data: Path) -> None:
    """What a collector of another version decided on the real traces is what is recorded of them."""
    assert real.decisions().digest == real.digest()
    for name, older in (("latency-50", "latency_50"), ("probabilistic-10", "prob_10")):
        lines = gzip.decompress((shared_data / "tail" / f"{older}.decisions.jsonl.gz").read_bytes()).splitlines()
        decided = {each["Trace"]: each["Decision"] for each in map(json.loads, lines)}
        mine = {each: verdict.decision for each, verdict in real.decisions().judged[name].verdicts.items()}
        assert mine == decided


def _need_collector() -> None:
    """Skip by name where the processor is not built."""
    if reason := tailsampler.missing():
        pytest.skip(reason)


def _types(policies: list[dict[str, Any]]) -> Iterator[str]:
    """Return the types of policies and of those in them."""
    for policy in policies:
        yield policy["type"]
        for kind in ("and", "drop", "composite"):
            yield from _types(policy.get(kind, {}).get(f"{kind}_sub_policy", []))
        if "not" in policy:
            yield from _types([policy["not"]["not_sub_policy"]])
