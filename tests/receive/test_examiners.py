"""Large bodies are examined by other processes, which may die."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from neve.lake.child_process import Child, ChildFailed
from neve.model.signals import Signal
from neve.otlp.decode_result import Intake
from neve.otlp.json import to_json
from neve.otlp.protobuf import read_messages
from neve.raw.frame import Encoding, Packing
from neve.receive import check, receiver
from neve.receive import examiners as module
from neve.receive.check import Checked
from neve.receive.config import ReceiverConfig
from neve.receive.examine import Examined, Rules, examine
from neve.receive.examiners import ExaminerProcesses, Examiners
from neve.receive.receiver import Export
from neve.receive.refusal import Refusal, Verdict
from tests.receive.doubles import field, span, traces_of
from tests.receive.test_receiver import a_room
from tests.telemetry import NOW, logs, traces

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

pytestmark = pytest.mark.slow

INTAKE = Intake("acme", NOW)
LARGE = traces(400)  # over 16 kB


def run(work: Callable[[Examiners], Coroutine[Any, Any, None]], **config: Any) -> None:
    """Do something with examiners."""

    async def inside() -> None:
        settings = ReceiverConfig(**{"large_bytes": 16 * 1024, "check_processes": 1, **config})
        examiners = Examiners(settings)
        try:
            await work(examiners)
        finally:
            examiners.close()

    asyncio.run(inside())


def test_a_child_finds_what_this_process_would() -> None:
    """Counts, refused records, refusals and transcoded messages, for both encodings."""
    bad = traces_of(*[span()] * 300, span(trace_id=b""))
    text = to_json(Signal.TRACES, LARGE).encode()
    too_many = logs(1) + field(1, b"\x12\x00" * 20_000)

    async def work(examiners: Examiners) -> None:
        found = await examiners.examine(Signal.TRACES, bad, Encoding.PROTOBUF, INTAKE)
        assert found == examiners.examine_here(Signal.TRACES, bad, INTAKE)
        assert (found.checked.records, dict(found.checked.rejected)) == (301, {"invalid_trace_id": 1})
        found = await examiners.examine(Signal.TRACES, text, Encoding.JSON, INTAKE)
        assert (found.message, found.checked.records) == (LARGE, 400)
        unknown = text.replace(b'"kind":2', b'"kind":"BROKER"', 2)
        found = await examiners.examine(Signal.TRACES, unknown, Encoding.JSON, INTAKE)
        assert (found.message, found.checked.records, dict(found.checked.rejected)) == (None, 400, {"unknown_enum": 2})
        assert found.checked.details["unknown_enum"].startswith("kind is 'BROKER'")
        with pytest.raises(Refusal, match=r"more than 10000 groups .*receiver\.max_groups") as caught:
            await examiners.examine(Signal.LOGS, too_many, Encoding.PROTOBUF, INTAKE)
        assert (caught.value.verdict, caught.value.reason) == (Verdict.TOO_LARGE, "too_many_groups")
        with pytest.raises(Refusal) as caught:
            await examiners.examine(Signal.TRACES, LARGE[:-1], Encoding.PROTOBUF, INTAKE)
        assert caught.value.verdict is Verdict.MALFORMED

    run(work, max_groups=10_000)


def test_only_large_bodies_go_to_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """And all large ones do, so that this process is free for others."""
    asked: list[int] = []

    def here(_signal: Signal, body: bytes, *_rest: object, **_options: object) -> None:
        asked.append(len(body))
        pytest.fail("it was examined here")

    monkeypatch.setattr(module, "examine", here)

    async def work(examiners: Examiners) -> None:
        found = await examiners.examine(Signal.TRACES, LARGE, Encoding.PROTOBUF, INTAKE)
        assert (found.checked.records, asked) == (400, [])
        with pytest.raises(BaseException, match="it was examined here"):
            await examiners.examine(Signal.TRACES, traces(3), Encoding.PROTOBUF, INTAKE)
        assert asked == [len(traces(3))]

    run(work)


def test_a_body_of_many_entries_is_large_below_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long to examine is examined elsewhere; ordinary exports of the same size are not."""
    asked: list[int] = []
    monkeypatch.setattr(ExaminerProcesses, "examine", lambda _self, _signal, body, *_rest: _found(asked, body))
    dense = field(1, field(2, b"\x12\x00" * 400_000))
    ordinary = traces(3500)
    assert module.INLINE_BYTES < len(ordinary) < len(dense) < 1024 * 1024

    async def work(examiners: Examiners) -> None:
        for body in (dense, ordinary, b"\x0a\x00" * 1000):
            await examiners.examine(Signal.TRACES, body, Encoding.PROTOBUF, INTAKE)
        assert asked == [len(dense)]

    run(work, large_bytes=1024 * 1024)


@pytest.mark.parametrize("size", [module.COUNTED_BYTES // 2, 190 * 1024])
def test_malformed_records_are_searched_in_a_child(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The search parses a message many times: here each message is parsed once."""
    parsed: list[int] = []

    def note(wire: Any, column: Any) -> Any:
        parsed.append(len(column))
        return read_messages(wire, column)

    monkeypatch.setattr(check, "read_messages", note)
    good, malformed = field(2, field(15, bytes(46))), field(2, b"\x0f")
    records = [malformed if number % 100 == 50 else good for number in range(size // len(good))]
    bad = records.count(malformed)
    body = field(1, field(2, b"".join(records)))

    async def work(examiners: Examiners) -> None:
        found = await examiners.examine(Signal.TRACES, body, Encoding.PROTOBUF, INTAKE)
        assert (found.checked.records, found.checked.rejected["malformed_record"]) == (len(records), bad)
        assert len(parsed) <= 1

    run(work, large_bytes=1024 * 1024)


def test_a_packed_body_with_malformed_records_is_examined_once_here(tmp_path: Path) -> None:
    """In the thread that unpacked it, and then in a child: never on the event loop."""
    threads: list[str] = []
    body = gzip.compress(field(1, field(2, b"\x12\x01\x0f" + b"\x12\x00" * 10)))
    here = Examiners.examine_here

    async def work() -> None:
        async with a_room(tmp_path) as room:
            with room.receiver.budget.hold() as hold:
                hold.grow(len(body))
                await room.receiver.accept(Export(Signal.TRACES, "acme", body, packing=Packing.GZIP), hold)

    def note(examiners: Examiners, *given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return here(examiners, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Examiners, "examine_here", note)
        patch.setattr(receiver, "INLINE_PACKED", 0)
        asyncio.run(work())
    assert len(threads) == 1
    assert threads[0] != threading.main_thread().name


async def _found(asked: list[int], body: bytes) -> Examined:
    asked.append(len(body))
    return Examined(Checked(0, Counter()))


def test_a_body_whose_child_was_killed_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a new one: the machine may have had other reasons."""
    ask, killed = Child.ask, list[int]()

    def kill_once(child: Child, header: Any, body: bytes, seconds: float) -> Any:
        if body and not killed:
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)
        return ask(child, header, body, seconds)

    monkeypatch.setattr(Child, "ask", kill_once)

    async def work(examiners: Examiners) -> None:
        found = await examiners.examine(Signal.TRACES, LARGE, Encoding.PROTOBUF, INTAKE)
        assert (found.checked.records, len(killed)) == (400, 1)

    run(work)


def test_a_body_that_ends_children_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One refused request; the next one is served."""
    ask = Child.ask

    def kill(child: Child, header: Any, body: bytes, seconds: float) -> Any:
        if body == LARGE:
            os.kill(child.pid, signal.SIGSEGV)
        return ask(child, header, body, seconds)

    monkeypatch.setattr(Child, "ask", kill)

    async def work(examiners: Examiners) -> None:
        with pytest.raises(Refusal, match="could not be checked: its process was ended by SIGSEGV") as caught:
            await examiners.examine(Signal.TRACES, LARGE, Encoding.PROTOBUF, INTAKE)
        assert (caught.value.verdict, caught.value.reason) == (Verdict.TOO_LARGE, "check_failed")
        found = await examiners.examine(Signal.TRACES, traces(500), Encoding.PROTOBUF, INTAKE)
        assert found.checked.records == 500

    run(work)


def test_a_body_over_its_limits_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take as much again."""
    tries: list[int] = []

    def over(_child: Child, header: Any, body: bytes, _seconds: float) -> Any:
        if "ready" in header:
            return {}, b""
        tries.append(len(body))
        raise ChildFailed("it took more than 5 bytes of memory", by_limit=True)

    monkeypatch.setattr(Child, "ask", over)

    async def work(examiners: Examiners) -> None:
        with pytest.raises(Refusal, match="more than 5 bytes"):
            await examiners.examine(Signal.TRACES, LARGE, Encoding.PROTOBUF, INTAKE)
        assert len(tries) == 1

    run(work)


def test_an_organization_never_has_all_children() -> None:
    """Where there are several: others find one free."""

    async def work() -> None:
        children = ExaminerProcesses(ReceiverConfig(check_processes=3))
        begun: list[str] = []
        go = asyncio.Event()

        async def occupy(organization: str) -> None:
            async with children._turns.take(organization):
                begun.append(organization)
                await go.wait()

        hostile = [asyncio.ensure_future(occupy("hostile")) for _ in range(5)]
        for _ in range(20):
            await asyncio.sleep(0)
        honest = asyncio.ensure_future(occupy("honest"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert begun == ["hostile", "hostile", "honest"]
        go.set()
        await asyncio.gather(*hostile, honest)
        assert not children._turns._lines
        children.close()

    asyncio.run(work())


def test_small_json_is_read_in_turns_of_organizations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread reads it; who sends much waits for itself, not the others for it."""
    order: list[str] = []

    def note(_signal: Signal, _body: bytes, _encoding: Encoding, intake: Intake, _rules: Rules) -> Examined:
        order.append(intake.organization_id)
        return Examined(Checked(0, Counter()))

    monkeypatch.setattr(module, "examine", note)

    async def work(examiners: Examiners) -> None:
        senders = ["hostile"] * 5 + ["honest", "other"]
        intakes = [Intake(organization, NOW) for organization in senders]
        await asyncio.gather(*(examiners.examine(Signal.LOGS, b"{}", Encoding.JSON, intake) for intake in intakes))
        assert order == ["hostile", "honest", "other", *["hostile"] * 4]
        assert not examiners._turns._lines

    run(work)


def test_hostile_json_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of empty objects would take gigabytes and a minute."""
    monkeypatch.setattr("neve.receive.examine.to_protobuf", lambda *_arguments: pytest.fail("it was parsed"))
    rules = Rules.of(ReceiverConfig())
    for text in (
        b'{"resourceLogs":[' + b"{}," * 100_000 + b"{}]}",
        b'{"resourceLogs":[{"scopeLogs":[' + b"{}," * 100_000 + b"{}]}]}",
    ):
        with pytest.raises(Refusal, match="more than 100000 groups") as caught:
            examine(Signal.LOGS, text, Encoding.JSON, INTAKE, rules)
        assert caught.value.verdict is Verdict.TOO_LARGE
