"""Every attack through Prometheus' HTTP API, while a canary of another organization is in every table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from neve.api.prometheus.routes import prometheus_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.promql.attacks import PromqlDoor, add_metrics, fixed_attacks, generated_attacks, query, request
from tests.property_profiles import sample
from tests.query.attacks import CANARY, OWN, canary_lake, check_answer, check_door
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with canaries, in metrics of all types too."""
    made = canary_lake(tmp_path_factory.mktemp("canary"))
    add_metrics(made)
    return made


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """The service with workers."""
    config = QueryConfig(threads=1, cache_bytes=0, spark_bytes=0, memory_limit="500MB", cpu_seconds=60)
    made = QueryService(lake, config, ports=Ports(engine=WorkerPool(lake, config)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(service: QueryService) -> Iterator[PromqlDoor]:
    """The door of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=prometheus_routes(service, guard)) as client:
        yield PromqlDoor(client)


def test_the_canary_is_there(service: QueryService) -> None:
    """Its owner reads it by name, by label and in lists, so the attacks have something to steal."""
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=prometheus_routes(service, guard)) as client:
        owner = PromqlDoor(client)
        for text in ("{__name__=~'.+'}", f"shared_total{{who={CANARY!r}}}"):
            assert CANARY in owner.ask(query(text))
        found = json.loads(owner.ask(request("/label/who/values", start=0, end=10**10)))
        assert found["data"] == [CANARY]


@pytest.mark.sampled
def test_no_attack_reads_a_foreign_row(door: PromqlDoor) -> None:
    """Names, values, patterns and parameters of any kind show the asker's own series only."""
    attacks = fixed_attacks()
    assert len(attacks) >= 200
    asked = sample(attacks)
    assert check_door(door, asked) >= len(asked) // 5
    assert OWN in door.ask(query("shared_total"))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(attack=generated_attacks())
def test_no_generated_attack_reads_a_foreign_row(door: PromqlDoor, attack: str) -> None:
    """Neither do names, values and expressions that are drawn at random."""
    check_answer(door.ask(attack))
