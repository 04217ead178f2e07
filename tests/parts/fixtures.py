"""Pytest fixtures for the real parts: each runs once for the whole session, or is skipped by its name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts import alertmanager as alertmanager_part
from tests.parts import collector as collector_part
from tests.parts import kafka as kafka_part
from tests.parts import loki as loki_part
from tests.parts import postgres as postgres_part
from tests.parts import prometheus as prometheus_part
from tests.parts import redis as redis_part
from tests.parts import rest_catalog as rest_catalog_part
from tests.parts import s3 as s3_part
from tests.parts import spark_connect as spark_connect_part


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for longer runs."""
    parser.addoption(
        "--promql-queries", type=int, default=60, help="random queries that tests/promql/oracle sends to Prometheus"
    )
    parser.addoption("--logql-queries", type=int, default=60, help="random queries sent to Loki by tests/logql/oracle")


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_part.Postgres]:
    """Run a PostgreSQL server."""
    _need(postgres_part.missing())
    with postgres_part.postgres() as part:
        yield part


@pytest.fixture(scope="session")
def redis() -> Iterator[redis_part.Redis]:
    """Run a Redis server."""
    _need(redis_part.missing())
    with redis_part.redis() as part:
        yield part


@pytest.fixture(scope="session")
def s3() -> Iterator[s3_part.S3]:
    """Run an S3 server that keeps its objects in memory."""
    _need(s3_part.missing())
    with s3_part.s3() as part:
        yield part


@pytest.fixture(scope="session")
def versitygw() -> Iterator[s3_part.S3]:
    """Run an S3 server that keeps its objects as files."""
    _need(s3_part.missing_versitygw())
    with s3_part.versitygw() as part:
        yield part


@pytest.fixture(scope="session")
def rest_catalog() -> Iterator[rest_catalog_part.RestCatalog]:
    """Run an Iceberg REST catalog whose tables are in a local folder."""
    _need(rest_catalog_part.missing())
    with rest_catalog_part.rest_catalog() as part:
        yield part


@pytest.fixture(scope="session")
def kafka() -> Iterator[kafka_part.Kafka]:
    """Run a Kafka broker."""
    _need(kafka_part.missing())
    with kafka_part.kafka() as part:
        yield part


@pytest.fixture(scope="session")
def prometheus() -> Iterator[prometheus_part.Prometheus]:
    """Run a Prometheus server that receives OTLP."""
    _need(prometheus_part.missing())
    with prometheus_part.prometheus() as part:
        yield part


@pytest.fixture(scope="session")
def loki() -> Iterator[loki_part.Loki]:
    """Run a Loki server that receives OTLP."""
    _need(loki_part.missing())
    with loki_part.loki() as part:
        yield part


@pytest.fixture(scope="session")
def alertmanager_binary() -> Path:
    """Return Alertmanager's program; `tests.parts.alertmanager.alertmanager` runs it with a configuration."""
    _need(alertmanager_part.missing())
    return alertmanager_part.program()


@pytest.fixture(scope="session")
def collector_binary() -> Path:
    """Return the collector's program; `tests.parts.collector.collector` runs it with a configuration."""
    _need(collector_part.missing())
    return collector_part.program()


@pytest.fixture(scope="session")
def telemetrygen_binary() -> Path:
    """Return the program that makes telemetry."""
    _need(collector_part.missing_telemetrygen())
    return collector_part.telemetrygen()


def _need(reason: str | None) -> None:
    """Skip the test that asked, with the reason, when its part can't run here."""
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def spark_connect() -> Iterator[spark_connect_part.SparkConnect]:
    """Run a Spark Connect server."""
    _need(spark_connect_part.missing())
    with spark_connect_part.spark_connect() as part:
        yield part
