"""Every attack through Jaeger's HTTP API, while a canary of another organization is in every table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from neve.api.jaeger.routes import jaeger_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.jaeger.attacks import IDS, JaegerDoor, fixed_attacks, generated_attacks, request
from tests.query.attacks import CANARY, OWN, canary_lake, check_answer, check_door
from tests.query.lakes import ACME, OTHER
from tests.traceql.attacks import add_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with canaries, in spans of every kind too."""
    made = canary_lake(tmp_path_factory.mktemp("canary"))
    add_spans(made)
    return made


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """The service with workers."""
    config = QueryConfig(threads=1, cache_bytes=0, spark_bytes=0, memory_limit="500MB", cpu_seconds=60)
    made = QueryService(lake, config, ports=Ports(engine=WorkerPool(lake, config)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(service: QueryService) -> Iterator[JaegerDoor]:
    """The door of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=jaeger_routes(service, guard)) as client:
        yield JaegerDoor(client)


def test_the_canary_is_there(service: QueryService) -> None:
    """Its owner reads it in lists, searches and traces of both versions, so the attacks have something to steal."""
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=jaeger_routes(service, guard)) as client:
        owner = JaegerDoor(client)
        for statement in (
            request("/services"),
            request("/v3/services"),
            request("/operations", service=CANARY),
            request("/traces", service=CANARY),
            request(f"/traces/{IDS[0]}"),
            request(f"/v3/traces/{IDS[0]}"),
        ):
            assert CANARY in owner.ask(statement)


def test_no_attack_reads_a_foreign_row(door: JaegerDoor) -> None:
    """Services, tags, ids and parameters of any kind show the asker's own spans only."""
    attacks = fixed_attacks()
    assert len(attacks) >= 150
    assert check_door(door, attacks) >= 18
    assert OWN in door.ask(request("/services"))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(attack=generated_attacks())
def test_no_generated_attack_reads_a_foreign_row(door: JaegerDoor, attack: str) -> None:
    """Neither do requests that are drawn at random."""
    check_answer(door.ask(attack))


@pytest.mark.parametrize(
    "statement",
    [
        request("/traces", service=OWN, tags=json.dumps({f"a{one}": "x" * 1000 for one in range(20)})),
        request("/traces", service=OWN, tags="[" * 50_000),
        request("/traces", service=OWN, tag=["a:b"] * 5000),
        request("/traces", traceID=["1"] * 5000),
        request("/traces", service=OWN, limit="9" * 300, minDuration="9" * 5000 + "h"),
        request("/traces", service="x" * 50_000),
        request("/dependencies", endTs=2**62, lookback=2**62),
        request("/services", start=0, end=2**62),
    ],
)
def test_worst_requests_end(door: JaegerDoor, statement: str) -> None:
    """Long lists, deep documents and wide ranges are answered or refused, and the door stays open."""
    check_answer(door.ask(statement))
    assert OWN in door.ask(request("/services"))
