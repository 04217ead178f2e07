"""Every attack through Loki's HTTP API, while a canary of another organization is in every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from neve.api.loki.routes import loki_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.logql.attacks import LogqlDoor, add_logs, fixed_attacks, generated_attacks, request
from tests.logql.otlp_logs import END, START
from tests.property_profiles import sample
from tests.query.attacks import CANARY, OWN, canary_lake, check_answer, check_door
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake with canaries, in log lines too."""
    made = canary_lake(tmp_path_factory.mktemp("canary"))
    add_logs(made)
    return made


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """The service with workers."""
    config = QueryConfig(threads=1, cache_bytes=0, spark_bytes=0, memory_limit="500MB", cpu_seconds=60)
    made = QueryService(lake, config, ports=Ports(engine=WorkerPool(lake, config)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(service: QueryService) -> Iterator[LogqlDoor]:
    """The door of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=loki_routes(service, guard)) as client:
        yield LogqlDoor(client)


def ask_lines(selector: str) -> str:
    """Return the request for lines."""
    return request("/query_range", query=selector, start=START, end=END)


def test_the_canary_is_there(service: QueryService) -> None:
    """Its owner reads it in lines and in lists, so the attacks have something to steal."""
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=loki_routes(service, guard)) as client:
        owner = LogqlDoor(client)
        assert CANARY in owner.ask(ask_lines('{service_name=~".+"} | json'))
        assert CANARY in owner.ask(request("/label/k8s_pod_name/values", start=START, end=END))


@pytest.mark.sampled
def test_no_attack_reads_a_foreign_row(door: LogqlDoor) -> None:
    """Selectors, stages, templates and parameters of any kind show the asker's own lines only."""
    attacks = fixed_attacks()
    assert len(attacks) >= 200
    asked = sample(attacks)
    assert check_door(door, asked) >= len(asked) // 5
    assert OWN in door.ask(ask_lines('{service_name=~".+"}'))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(attack=generated_attacks())
def test_no_generated_attack_reads_a_foreign_row(door: LogqlDoor, attack: str) -> None:
    """Neither do queries that are drawn at random."""
    check_answer(door.ask(attack))
