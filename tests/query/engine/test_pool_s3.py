"""Workers of a lake in object storage: a secret for the planned objects, and for no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from neve.lake.config import CatalogConfig, LakeConfig, S3Config
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.limits import Limits
from neve.query.request import Request
from neve.query.service import Ports, QueryService
from neve.query.sql.duckdb_statement import DuckDBStatement
from tests.query.engine.unchecked import run_anything
from tests.query.lakes import ACME, OTHER, logs, put

if TYPE_CHECKING:
    from pathlib import Path

    from tests.parts.s3 import S3

pytestmark = pytest.mark.parts


@pytest.fixture
def lake(s3: S3, tmp_path: Path) -> Lake:
    """A lake in a bucket, with rows of two organizations."""
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    filesystem = pafs.S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **keys)
    filesystem.create_dir("queries")
    config = S3Config(endpoint=s3.endpoint, **keys)
    catalog = CatalogConfig(name="bucket", path=str(tmp_path / "catalog.db"))
    made = Lake(LakeConfig(warehouse="s3://queries/warehouse"), catalog, config)
    init_tables(made)
    put(made, ACME, Signal.LOGS, logs("one", "two"))
    put(made, OTHER, Signal.LOGS, logs("secret"))
    return made


def paths_of(lake: Lake, owner: str) -> tuple[str, ...]:
    """The objects of an organization's logs."""
    found = [task.file.file_path for task in lake.table("logs").scan().plan_files()]
    return tuple(path for path in found if f"={owner}/" in path)


def test_queries_are_answered_from_a_bucket(lake: Lake) -> None:
    """As from a folder."""
    config = QueryConfig(threads=1, warm_workers=0, cache_bytes=0)
    service = QueryService(lake, config, ports=Ports(engine=WorkerPool(lake, config)))
    for owner, count in ((ACME, 2), (OTHER, 1), (ACME, 2)):
        running = service.start(Request("SELECT count(*) AS n FROM logs", owner))
        assert pa.Table.from_batches(running.batches(), running.schema).to_pylist() == [{"n": count}]
    service.close()


def test_a_worker_has_a_key_to_the_planned_objects_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key for the statement before is gone; outside of the warehouse DuckDB refuses by itself."""
    run_anything(monkeypatch)
    pool = WorkerPool(lake, QueryConfig(threads=1, warm_workers=0))
    [mine], [theirs] = paths_of(lake, ACME), paths_of(lake, OTHER)
    for planned, other in ((mine, theirs), (theirs, mine)):
        for path, secrets in ((planned, ["lake"]), (other, [])):
            text = f"SELECT name FROM which_secret('{path}', 's3')"
            run = pool.run(lambda _root, text=text, planned=planned: DuckDBStatement(text, {}, (planned,)), Limits())  # type: ignore[misc]
            run.begin()
            assert [row["name"] for batch in run.batches() for row in batch.to_pylist()] == secrets
            run.close()
    run = pool.run(lambda _root: DuckDBStatement(f"SELECT name FROM which_secret('{mine}', 's3')"), Limits())
    run.begin()
    assert not list(run.batches())  # a statement without tables has a key to nothing
    run.close()
    pool.close()
