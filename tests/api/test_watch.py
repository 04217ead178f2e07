"""Those who watch a process that tends the lake, from its start to its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from neve.api.maintenance_process import ENGINE_GONE, run_parts
from neve.app.serve.supervisor import PartRunner, Supervisor
from neve.errors import ConfigError, EnvironmentFault, LakeError
from tests.app.serve.little import QUICK, Deaf, Failing, Steady, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.app.serve.part import Part

ON_ANY_PORT = QUICK.model_copy(update={"port": 0})


def get(url: str) -> tuple[int, bytes]:
    """Status and body."""
    try:
        with urlopen(url, timeout=600) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


@dataclass
class Visitor:
    """Looks at a household when it is ready, and tells the process to stop then."""

    look: Callable[[str, Supervisor], None]
    household: Supervisor | None = None

    def run(self, *parts: Part) -> int:
        """The exit code of a process with these parts."""

        def build() -> Supervisor:
            self.household = Supervisor(parts, ON_ANY_PORT)
            return self.household

        async def both() -> int:
            visits: list[asyncio.Task[None]] = []
            code = await run_parts(
                ON_ANY_PORT, build, lambda place: visits.append(asyncio.create_task(self._visit(place)))
            )
            await asyncio.gather(*visits)
            return code

        return asyncio.run(both())

    async def _visit(self, place: str) -> None:
        assert self.household is not None
        try:
            await asyncio.to_thread(self.look, place, self.household)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_household_that_is_well() -> None:
    """Alive, healthy, ready and counted; it ends with code 0."""

    def look(place: str, household: Supervisor) -> None:
        wait_until(lambda: household.is_running)
        assert get(f"{place}/livez") == (200, b'{"status":"alive"}')
        assert get(f"{place}/readyz") == (200, b'{"status":"ready"}')
        status, body = get(f"{place}/healthz")
        told: dict[str, Any] = json.loads(body)
        assert (status, told["status"]) == (200, "healthy")
        assert [(part["process"], part["name"], part["state"]) for part in told["parts"]] == [
            ("tend", "one", "running"),
            ("tend", "two", "running"),
        ]
        families = text_string_to_metric_families(get(f"{place}/metrics")[1].decode())
        assert "process_resident_memory_bytes" in {family.name for family in families}

    assert Visitor(look).run(Steady("one"), Steady("two")) == 0


def test_a_part_that_fails_is_seen() -> None:
    """Unhealthy and not ready, with the reason; alive all the same."""

    def look(place: str, household: Supervisor) -> None:
        wait_until(lambda: [status.state for status in household.statuses()] == ["running", "failed"])
        status, body = get(f"{place}/healthz")
        assert (status, json.loads(body)["problems"]) == (503, ["failing (failed): tail.policies is missing"])
        status, body = get(f"{place}/readyz")
        assert (status, json.loads(body)["reason"]) == (503, "failing (failed): tail.policies is missing")
        assert get(f"{place}/livez")[0] == 200

    hopeless = Failing(ConfigError("tail.policies is missing"), times=10_000)
    assert Visitor(look).run(Steady(), hopeless) == 0


def test_a_part_that_is_ill_is_seen_until_it_is_well() -> None:
    """It is unhealthy by what it says, and ready all the same."""
    well = threading.Event()

    class Ill(Steady):
        def run(self, stop: Any, say: Any) -> None:
            say({"error": "the store is away"})
            well.wait()
            say({"batch": 7})
            stop.wait()

    def look(place: str, household: Supervisor) -> None:
        wait_until(lambda: household.is_running)
        status, body = get(f"{place}/healthz")
        assert (status, json.loads(body)["problems"]) == (503, ["ill (running, degraded): the store is away"])
        assert get(f"{place}/readyz")[0] == 200
        well.set()
        wait_until(lambda: get(f"{place}/healthz")[0] == 200)

    assert Visitor(look).run(Ill("ill")) == 0


def test_how_often_parts_were_started_again_is_counted() -> None:
    """Each of them, also those that never were."""

    def look(place: str, household: Supervisor) -> None:
        wait_until(lambda: household.is_running)
        families = text_string_to_metric_families(get(f"{place}/metrics")[1].decode())
        restarts = {
            sample.labels["part"]: sample.value
            for family in families
            for sample in family.samples
            if sample.name == "neve_serve_part_restarts_total"
        }
        assert restarts == {"steady": 0, "failing": 2}

    assert Visitor(look).run(Steady(), Failing(LakeError("the catalog is away"), times=2)) == 0


def test_a_part_that_gets_ready_is_not_ready() -> None:
    """It is no illness to take one's time."""

    class Slow(Steady):
        def run(self, stop: Any, say: Any) -> None:
            stop.wait()
            say({})

    def look(place: str, household: Supervisor) -> None:
        wait_until(lambda: household.statuses()[0].state == "started")
        assert get(f"{place}/healthz")[0] == 200
        assert json.loads(get(f"{place}/readyz")[1])["reason"] == "slow (started)"

    assert Visitor(look).run(Slow("slow")) == 0


def test_draining_is_seen_and_a_part_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it drains it answers, and is not ready; the exit code says that not all ended."""
    deaf, seen = Deaf(), threading.Event()

    def wait_in_vain(_keeper: PartRunner, within_seconds: float = 0.0) -> bool:
        seen.wait(within_seconds)
        return False

    monkeypatch.setattr(PartRunner, "has_ended", wait_in_vain)

    def look(place: str, household: Supervisor) -> None:
        wait_until(lambda: household.is_running)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: household.statuses()[0].state == "draining")
        assert json.loads(get(f"{place}/readyz")[1])["reason"] == "deaf (draining)"
        seen.set()

    assert Visitor(look).run(deaf) == 1
    deaf.wakes.set()


def test_a_process_without_its_engine_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, with a code of its own, after its other parts have ended."""
    monkeypatch.setattr("neve.api.maintenance_process.LOOK_SECONDS", 0.05)
    steady = Steady()
    gone = iter([False, False, True])
    places: list[str] = []
    ended = run_parts(ON_ANY_PORT, lambda: Supervisor([steady], ON_ANY_PORT), places.append, lambda: next(gone))
    assert (asyncio.run(ended), steady.finished, len(places)) == (ENGINE_GONE, True, 1)


def test_parts_that_can_not_be_made_end_the_process() -> None:
    """Bad configuration is said at the start."""

    def build() -> Supervisor:
        raise ConfigError("policies_folder is not there")

    with pytest.raises(ConfigError):
        asyncio.run(run_parts(ON_ANY_PORT, build, lambda _place: None))


def test_who_is_told_to_stop_while_parts_are_made_does_not_wait_for_them() -> None:
    """None is started, and nobody is told that it is ready."""
    steady, made = Steady(), threading.Event()

    def build() -> Supervisor:
        os.kill(os.getpid(), signal.SIGTERM)
        assert made.wait(600)
        return Supervisor([steady], ON_ANY_PORT)

    assert asyncio.run(run_parts(ON_ANY_PORT, build, lambda _place: pytest.fail("it was ready"))) == 0
    made.set()
    assert not steady.finished


MAKING = """
import sys, time
from neve.app.serve import parts
def build_parts(*_):
    print("making", flush=True)
    time.sleep(600)
parts.build_parts = build_parts
from neve.api.serve_process import run_worker
from neve.app.settings import Settings
from neve.app.wiring import build_lake
settings = Settings.model_validate({"state": {"path": sys.argv[1]}, "serve": {"port": 0}})
sys.exit(run_worker(settings, build_lake(settings), ["compact"], "one", print))
"""


@pytest.mark.slow
def test_a_process_ends_while_its_parts_are_made(tmp_path: Path) -> None:
    """At once and well, as those of Spark take long."""
    command = [sys.executable, "-c", MAKING, str(tmp_path / "state.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "making\n"
            process.terminate()
            assert process.wait(600) == 0
        finally:
            process.kill()


def test_a_port_that_is_taken_is_said() -> None:
    """With its setting, before any part is made."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = QUICK.model_copy(update={"port": other.getsockname()[1]})
        with pytest.raises(EnvironmentFault, match=r"serve\.port"):
            asyncio.run(run_parts(taken, lambda: pytest.fail("it was built"), lambda _place: None))
