"""The same for real traces, which stand beside a developer's clone and not in it."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache

from tests.conftest import SHARED_DATA
from tests.tail.oracle import recording
from tests.tail.oracle.cases import HERE, Case, read_cases

TRACES = SHARED_DATA / "tail" / "spans.otlp.jsonl.gz"
POLICIES = HERE / "real.yaml"
DECISIONS = HERE / "real_decisions.json"
TRACE_ID = re.compile(rb'"traceId": "([0-9a-f]{32})"')


@cache
def cases() -> list[Case]:
    """Return the cases for real traces."""
    return read_cases(POLICIES)


@cache
def lines() -> list[bytes]:
    """Return the messages as OTLP JSON; the spans of a trace are spread over several of them."""
    return gzip.decompress(TRACES.read_bytes()).splitlines()


def digest() -> str:
    """Return what tells these traces from others."""
    return hashlib.sha256(b"\n".join(lines())).hexdigest()


@cache
def trace_ids() -> list[str]:
    """Return the ids of the traces in hex, by first appearance."""
    return list(dict.fromkeys(found.decode() for line in lines() for found in TRACE_ID.findall(line)))


def recorded() -> dict[str, set[str]]:
    """Return for each case which traces the collector sampled."""
    return {
        name: {each for each, verdict in judged.verdicts.items() if verdict.decision == "sampled"}
        for name, judged in decisions().judged.items()
    }


@cache
def decisions() -> recording.Recording:
    """Return all that the collector said of the real traces."""
    return recording.read(DECISIONS, trace_ids())
