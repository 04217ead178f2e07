"""Policy files, the traces that they are asked about, and what the collector decided."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.tail.oracle import make, recording

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

HERE = Path(__file__).parent
POLICIES = HERE / "policies"
DECISIONS = HERE / "decisions.json"


@dataclass(frozen=True)
class Case:
    """A policy file; where errors make the collector's answer depend on the order, only traces of one span compare."""

    name: str
    yaml: str  # as a user writes it, with its `tail_sampling:`
    body: dict[str, Any]
    order_dependent: bool = False


def cases() -> list[Case]:
    """Return every case, by file and as they stand in it; those that the collector refuses too."""
    return [case for path in sorted(POLICIES.glob("*.yaml")) for case in read_cases(path)]


def read_cases(path: Path) -> list[Case]:
    """Return the cases of one file."""
    return [_case(name, case) for name, case in yaml.load(path.read_text(), yaml.CSafeLoader).items()]


def traces() -> list[bytes]:
    """Return the traces, each as one ExportTraceServiceRequest."""
    return [each.SerializeToString(deterministic=True) for each in make.messages()]


def digest() -> str:
    """Return what tells these traces from others."""
    return hashlib.sha256(make.frames()).hexdigest()


def trace_ids() -> list[str]:
    """Return the ids of the traces in hex, in their order."""
    return list(spans())


@cache
def spans() -> dict[str, list[Span]]:
    """Return the spans of each trace by its id in hex, in their order."""
    found: dict[str, list[Span]] = {}
    for message in make.messages():
        for group in message.resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    found.setdefault(span.trace_id.hex(), []).append(span)
    return found


def comparable(case: Case) -> set[str]:
    """Return the ids of the traces on which a case depends on nothing but their spans."""
    return {each for each, mine in spans().items() if len(mine) == 1 or not case.order_dependent}


def recorded() -> dict[str, set[str]]:
    """Return for each case that the collector accepts which traces it sampled."""
    return {
        name: {each for each, verdict in judged.verdicts.items() if verdict.decision == "sampled"}
        for name, judged in decisions().judged.items()
        if not judged.refusal
    }


def refused() -> dict[str, str]:
    """Return the cases that the collector refuses at start, with what it says."""
    return {name: judged.refusal for name, judged in decisions().judged.items() if judged.refusal}


@cache
def decisions() -> recording.Recording:
    """Return all that the collector said, deciding policies and drops included."""
    return recording.read(DECISIONS, trace_ids())


def _case(name: str, case: dict[str, Any]) -> Case:
    """Return a case as its file says."""
    section = {"tail_sampling": case["tail_sampling"]}
    text = yaml.safe_dump(section, sort_keys=False, allow_unicode=True, width=1000)
    return Case(name, text, case["tail_sampling"], case.get("order_dependent", False))
