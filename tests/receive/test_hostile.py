"""Bodies that would end a process that reads them without care."""

from __future__ import annotations

import subprocess
import sys

import pytest

from neve.model.signals import Signal
from neve.receive.check import check_message
from neve.receive.refusal import Refusal
from tests.otlp.test_many import ENDLESS, GOOD, INTAKE, traces
from tests.receive.doubles import field

MANY = b"\x13" * 1_000_000  # groups in groups, which nobody sends
BODIES = (MANY, traces(GOOD, resource=MANY), traces(MANY), traces(GOOD + field(9, MANY)), traces(GOOD, ENDLESS))


@pytest.mark.slow
def test_hostile_bodies_are_refused_and_the_process_lives() -> None:
    """In a process of its own, which a mistake would end. What the check steps over, ingestion refuses."""
    code = "from tests.receive.test_hostile import check_all; check_all()"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert run.stdout.splitlines() == ["malformed_message", "1 0", "1 1", "1 0", "2 1"]


def check_all() -> None:
    """Check every body, and print what came of it."""
    for body in BODIES:
        try:
            found = check_message(Signal.TRACES, body, INTAKE, 1_000_000)
        except Refusal as refusal:
            print(refusal.reason)  # noqa: T201
        else:
            print(found.records, sum(found.rejected.values()))  # noqa: T201
