"""Every attack through Tempo's HTTP API, while a canary of another organization is in every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from neve.api.tempo.routes import tempo_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.query.attacks import CANARY, OWN, canary_lake, check_answer, check_door
from tests.query.lakes import ACME, OTHER
from tests.traceql.attacks import TRACES, TraceqlDoor, add_spans, fixed_attacks, generated_attacks, request
from tests.traceql.plain_traces import trace_id

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
def door(service: QueryService) -> Iterator[TraceqlDoor]:
    """The door of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=tempo_routes(service, guard)) as client:
        yield TraceqlDoor(client)


def test_the_canary_is_there(service: QueryService) -> None:
    """Its owner reads it in traces, in searches, in series and in lists, so the attacks have something to steal."""
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=tempo_routes(service, guard)) as client:
        owner = TraceqlDoor(client)
        for statement in (
            request(f"/traces/{trace_id(TRACES[OTHER]).hex()}"),
            request("/search", q="{ } | select(span.who, event.who)"),
            request("/metrics/query_range", q="{ } | rate() by (name)", step=60),
            request("/v2/search/tags"),
            request("/v2/search/tag/link.who/values"),
        ):
            assert CANARY in owner.ask(statement)


def test_no_attack_reads_a_foreign_row(door: TraceqlDoor) -> None:
    """Conditions, structures, lists, ids and parameters of any kind show the asker's own spans only."""
    attacks = fixed_attacks()
    assert len(attacks) >= 150
    assert check_door(door, attacks) >= 50
    assert OWN in door.ask(request("/search", q="{ }"))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(attack=generated_attacks())
def test_no_generated_attack_reads_a_foreign_row(door: TraceqlDoor, attack: str) -> None:
    """Neither do queries that are drawn at random."""
    check_answer(door.ask(attack))


@pytest.mark.parametrize(
    "query",
    [
        "{ " + "(" * 10_000 + "true" + ")" * 10_000 + " }",
        '{ .who =~ "(((a*)*)*)*b" }',
        '{ .who =~ "' + "(x+x+)+" * 500 + 'y" }',
        "{ } | by(" + " + ".join(["span.who"] * 249) + ")",
        " >> ".join(["{ }"] * 60),
        "{ } | rate() by (span.who, name, event.who, link.who, resource.who)",
        "{ " + " || ".join(f'.a{number} = "x"' for number in range(40)) + " }",
        "{ .who = " + "9" * 300 + " }",
    ],
)
def test_worst_expressions_end(door: TraceqlDoor, query: str) -> None:
    """Nesting, regular expressions, long chains and wide groups are answered or refused, and the door stays open."""
    check_answer(door.ask(request("/search", q=query)))
    check_answer(door.ask(request("/metrics/query_range", q=query, step=60)))
    assert OWN in door.ask(request("/search", q="{ }"))
