"""Every attack through every door, while a canary of another organization is in every table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.errors import NeveError
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.request import Request
from neve.query.service import Ports, QueryService
from tests.api.querying import Client, serving
from tests.query.attacks import (
    CANARY,
    OWN,
    canary_lake,
    check_answer,
    check_door,
    fixed_attacks,
    generated_attacks,
    named_attacks,
    paths_of,
)
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from tests.query.attacks import Door


@dataclass(frozen=True)
class ServiceDoor:
    """The service itself, with its words uncut."""

    service: QueryService
    organization: str = ACME

    def ask(self, statement: str) -> str:
        """Rows or the error."""
        try:
            running = self.service.start(Request(statement, self.organization))
            return str(pa.Table.from_batches(running.batches(), running.schema).to_pylist())
        except NeveError as error:
            return str(error)


@dataclass(frozen=True)
class HttpDoor:
    """The query API."""

    client: Client

    def ask(self, statement: str) -> str:
        """The body of the answer."""
        body = json.dumps({"sql": statement}).encode("utf-8", "surrogatepass")
        return self.client.send("POST", "/api/v1/query", body, {"content-type": "application/json"}).body.decode()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Lake]:
    """A lake with canaries, asked from the folder that relative paths are relative to."""
    folder = tmp_path_factory.mktemp("canary")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield canary_lake(folder)


@pytest.fixture(scope="module", params=["in this process", "in workers over HTTP"])
def door(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Door]:
    """Each way to ask."""
    config = QueryConfig(threads=1, cache_bytes=0, spark_bytes=0, memory_limit="500MB", cpu_seconds=60)
    engine = WorkerPool(lake, config) if request.param != "in this process" else None
    service = QueryService(lake, config, ports=Ports(engine=engine))
    if engine is not None:
        with serving(service) as client:
            yield HttpDoor(client)
    else:
        yield ServiceDoor(service)
    service.close()


def test_the_suite_is_large_and_the_canary_is_there(lake: Lake) -> None:
    """An attack proves nothing against a lake that has nothing to steal."""
    statements = {*fixed_attacks(), *named_attacks(lake)}
    assert len(statements) >= 400
    service = QueryService(lake, QueryConfig(threads=1, spark_bytes=0))
    owner = ServiceDoor(service, OTHER)
    assert all(CANARY in owner.ask(f"SELECT * FROM {name}") for name in ("logs", "spans", "metrics", "queries"))
    service.close()


def test_no_attack_reads_a_foreign_row(door: Door, lake: Lake) -> None:
    """Whatever stands wherever; and statements that only look hostile are answered with the asker's own rows."""
    assert check_door(door, [*fixed_attacks(), *named_attacks(lake)]) >= 20
    assert OWN in door.ask("SELECT message FROM logs")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_no_generated_attack_reads_a_foreign_row(door: Door, lake: Lake, data: st.DataObject) -> None:
    """Names, quoting, Unicode, nesting and positions of tables, drawn at random."""
    check_answer(door.ask(data.draw(generated_attacks(paths_of(lake)))))
