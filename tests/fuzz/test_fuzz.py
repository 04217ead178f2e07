"""A short run of every target with a fixed seed, inputs that once got through, and a check that findings are found."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import misbehaving
from tests.fuzz.child import seeded_inputs
from tests.fuzz.containers import file, open_file
from tests.fuzz.report import Kind, render, summarize
from tests.fuzz.supervisor import Plan, fuzz, repeat, waits_for_processor
from tests.fuzz.targets import TARGETS
from tests.fuzz.wire import mutate_message, read_fields, write_fields
from tests.otlp.damage import whole
from tests.property_profiles import sample

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

# As many inputs as about two seconds of a processor take.
INPUTS = {"receiver": 150, "decoders": 120, "files": 80, "segments": 40, "values": 1500, "query": 100}
# Inputs that raised something else than an error that their target documents.
ONCE_FOUND = {
    "a map whose key is bytes that are no text": ("values", b"\x01\xa1\x43\xd9\x01\x05\x01"),
    "an integer that no double holds": ("values", b"\x00\x81\xc2\x5a\x00\x00\x01\x00" + b"\xff" * 256),
    "a lone carriage return in a header": ("files", file("metrics.csv", b"ts\rmetric,value\n1\n2,3")),
    "a header that is not UTF-8": ("files", file("metrics.csv", b"a,\x97,c\n1,2,3")),
    "a row with too many columns that is not UTF-8": ("files", file("logs.csv", b"a,b\n1,2\n\xff,3,4\n")),
    "a JSON line that is nested deep": ("files", file("logs.jsonl", b'{"a":' + b"[" * 200 + b"]" * 200 + b"}")),
    "a line that DuckDB's error cuts inside of a letter": ("files", file("logs", b"\x8f" * 57)),
    "an integer of JSON that no double holds": ("files", file("logs.jsonl", b'{"a":[1' + b"0" * 400 + b"]}")),
    "an integer of JSON with 5,000 digits": ("files", file("logs.jsonl", b'{"a":[' + b"9" * 5000 + b"]}")),
    "a time after 2262": ("files", file("logs.jsonl", b'{"time":"9999-01-01T00:00:00Z"}')),
    "a fraction of the last second of 2262": ("files", file("logs.jsonl", b'{"time":"2262-04-11T23:47:16.9Z"}')),
    "attributes that have a key twice": ("files", file("logs.jsonl", b'{"attributes":{"a":1,"a":2}}')),
    "a severity with 5,000 digits": ("files", file("logs.jsonl", b'{"severity":"' + b"9" * 5000 + b'"}')),
    "a number of SQL with 5,000 digits": ("query", b"SELECT " + b"9" * 5000),
}


@pytest.mark.parametrize("name", list(ONCE_FOUND))
def test_what_was_once_found_stays_fixed(name: str) -> None:
    """Inputs of earlier runs end in an answer or in an error that their target documents."""
    target, data = ONCE_FOUND[name]
    with suppress(*TARGETS[target].allowed):
        TARGETS[target].run(data)


@pytest.mark.sampled
@pytest.mark.parametrize("name", list(TARGETS))
def test_a_short_run_finds_nothing(name: str, tmp_path: Path) -> None:
    """A fixed number of inputs of a fixed seed, in a process with limits of memory and processor time."""
    target = replace(TARGETS[name], bombs=tuple)
    told: list[str] = []
    inputs = len(sample(range(INPUTS[name])))
    outcome = fuzz(target, Plan(inputs=inputs, folder=tmp_path), told.append)
    assert told == []
    assert (outcome.inputs, outcome.findings, outcome.engine) == (inputs, [], "seeded")
    assert 0 < outcome.peak_mb < 2048


def test_the_same_seed_makes_the_same_inputs() -> None:
    """Another one makes others; so a finding is repeated by its seed alone."""
    for target in TARGETS.values():
        first = len(target.seeds())
        one, same = (list(seeded_inputs(target, 7, first, 20)) for _ in range(2))
        assert one == same
        assert one != list(seeded_inputs(target, 8, first, 20))


def test_messages_are_changed_inside() -> None:
    """Most changed messages are still messages, so that they reach what stands behind the reader."""
    seeded = random.Random("inside")
    for wire in whole().values():
        fields = read_fields(wire)
        assert fields is not None
        assert write_fields(fields) == wire
        changed = [mutate_message(seeded, wire) for _ in range(100)]
        assert sum(read_fields(one) is not None for one in changed) > 50
        assert len(set(changed)) > 50


def test_files_are_packed_as_they_are_named() -> None:
    """Else readers would only ever see that a file can't be unpacked."""
    name, packed = open_file(file("logs.jsonl.gz", b"{}"))
    assert (name, packed[:2]) == ("logs.jsonl.gz", b"\x1f\x8b")


@pytest.mark.parametrize(("data", "kind"), [(b"raise", Kind.CRASH), (b"take", Kind.MEMORY), (b"loop", Kind.HANG)])
def test_findings_are_found_kept_and_told(data: bytes, kind: Kind, tmp_path: Path) -> None:
    """An error, too much memory and too much work each cost their input, which is kept with how to repeat it."""
    path, told = tmp_path / "input", list[str]()
    path.write_bytes(data)
    plan = Plan(memory_mb=200, cpu_seconds=1, folder=tmp_path, module=misbehaving.__name__)
    outcome = repeat(misbehaving.TARGETS["misbehaving"], plan, path, told.append)
    [finding] = outcome.findings
    assert (finding.kind, finding.data) == (kind, data)
    assert f"--repeat {tmp_path}/misbehaving/found/{kind}-" in told[-1]
    summary = summarize([outcome], 1, 2.0)
    assert json.loads(render(summary).splitlines()[-1])["ours"]["inputs"] == 1
    assert sum(summary["ours"][name] for name in ("crashes", "hangs", "over_memory")) == 1


def test_findings_that_do_not_repeat_are_counted_apart(tmp_path: Path) -> None:
    """What only happens after other inputs in the same process is no finding about its input."""
    told = list[str]()
    plan = Plan(inputs=3, folder=tmp_path, module=misbehaving.__name__)
    outcome = fuzz(misbehaving.TARGETS["remembering"], plan, told.append)
    assert (outcome.findings, [finding.data for finding in outcome.unrepeated]) == ([], [b"b"])
    assert summarize([outcome], 1, 2.0)["ours"]["unrepeated"] == 1


def test_a_process_that_gets_no_processor_does_not_hang() -> None:
    """One that was stopped could go on, one that sleeps waits for nothing that will come."""
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while waits_for_processor(child.pid):
            time.sleep(0.01)
        child.send_signal(signal.SIGSTOP)
        while not waits_for_processor(child.pid):
            time.sleep(0.01)
        child.kill()
