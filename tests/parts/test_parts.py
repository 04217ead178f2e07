"""Each real part answers one real operation, so that a test that fails elsewhere can't blame its part."""

import http.client
import json
import subprocess
import time
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg2
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog.rest import RestCatalog as RestClient
from redis import Redis as RedisClient

from tests.parts import collector as collector_part
from tests.parts import rest_catalog as rest_catalog_part
from tests.parts.kafka import Kafka
from tests.parts.postgres import Postgres
from tests.parts.process import HOST, free_port
from tests.parts.redis import Redis
from tests.parts.rest_catalog import RestCatalog
from tests.parts.s3 import S3

pytestmark = pytest.mark.parts

NUMBERS = count(1)
ROWS = pa.table({"id": [1, 2, 3]})
S3_FILES = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
LOG_MESSAGE = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "one record"}}]}]}]}
DEADLINE_SECONDS = 600.0


def test_postgres_answers_a_select(postgres: Postgres) -> None:
    """A SQL statement comes back with its value."""
    with closing(psycopg2.connect(postgres.uri)) as connection, connection.cursor() as cursor:
        cursor.execute("select 40 + 2")
        assert cursor.fetchone() == (42,)


def test_redis_answers_a_ping(redis: Redis) -> None:
    """A ping is answered."""
    with RedisClient.from_url(redis.uri) as client:
        assert client.ping()


def test_moto_gives_back_an_object(s3: S3) -> None:
    """What was put is what is got."""
    assert _put_and_get(s3, "moto", b"some bytes") == b"some bytes"


def test_versitygw_keeps_an_object_as_a_file(versitygw: S3) -> None:
    """What was put is what is got, and it is a file in the gateway's folder."""
    assert _put_and_get(versitygw, "versity", b"some bytes") == b"some bytes"
    assert versitygw.folder is not None
    assert (versitygw.folder / "versity" / "a" / "b").read_bytes() == b"some bytes"


def test_rest_catalog_serves_its_config(rest_catalog: RestCatalog) -> None:
    """The server says what it can do, at the path that Iceberg clients ask first."""
    answer = _request(rest_catalog.port, "GET", "/v1/config")
    assert "GET v1/config" in json.loads(answer)["endpoints"]


def test_rest_catalog_keeps_a_table(rest_catalog: RestCatalog) -> None:
    """A namespace and a table that one client makes are seen by another."""
    maker, reader = (RestClient("rest", uri=rest_catalog.uri) for _ in range(2))
    namespace = _name("space")
    maker.create_namespace(namespace)
    maker.create_table((namespace, "rows"), ROWS.schema)
    assert reader.list_tables(namespace) == [(namespace, "rows")]


def test_rest_catalog_keeps_tables_on_s3(s3: S3) -> None:
    """A catalog started with the server's S3 settings writes metadata to it."""
    if reason := rest_catalog_part.missing():
        pytest.skip(reason)
    bucket = _name("warehouse")
    _files(s3).create_dir(bucket)
    with rest_catalog_part.rest_catalog(f"s3://{bucket}/lake", {**S3_FILES, **s3.properties}) as catalog:
        client = RestClient("rest", uri=catalog.uri, **s3.properties)
        client.create_namespace("space")
        table = client.create_table("space.rows", ROWS.schema)
        table.append(ROWS)
        assert table.scan().to_arrow().equals(ROWS)
        assert table.metadata_location.startswith(f"s3://{bucket}/lake/")


def test_kafka_delivers_a_message(kafka: Kafka) -> None:
    """A message that was produced is consumed, with its key."""
    topic = _name("topic")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, key=b"key", value=b"value")
    assert producer.flush(DEADLINE_SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(DEADLINE_SECONDS)
    finally:
        consumer.close()
    assert message is not None
    assert (message.error(), message.key(), message.value()) == (None, b"key", b"value")


def test_kafka_commits_a_transaction(kafka: Kafka) -> None:
    """A transactional producer can commit, which needs the broker's internal topics to make do with one node."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": _name("transaction")})
    producer.init_transactions(DEADLINE_SECONDS)
    producer.begin_transaction()
    producer.produce(_name("topic"), value=b"value")
    producer.commit_transaction(DEADLINE_SECONDS)


@pytest.mark.usefixtures("collector_binary")
def test_collector_writes_what_it_receives(tmp_path: Path) -> None:
    """A log record that is sent as OTLP/HTTP JSON is in the collector's file."""
    port, target = free_port(), tmp_path / "logs.json"
    with collector_part.collector(_file_pipeline("logs", f"http: {{endpoint: '{HOST}:{port}'}}", target), port):
        _request(port, "POST", "/v1/logs", json.dumps(LOG_MESSAGE))
        assert "one record" in _awaited_text(target)


@pytest.mark.usefixtures("collector_binary")
def test_telemetrygen_sends_traces(telemetrygen_binary: Path, tmp_path: Path) -> None:
    """A trace that telemetrygen makes is in the collector's file."""
    port, target = free_port(), tmp_path / "traces.json"
    send = ("traces", "--traces=1", "--otlp-insecure", f"--otlp-endpoint={HOST}:{port}", "--service=made-by-test")
    with collector_part.collector(_file_pipeline("traces", f"grpc: {{endpoint: '{HOST}:{port}'}}", target), port):
        subprocess.run([str(telemetrygen_binary), *send], check=True, capture_output=True, timeout=DEADLINE_SECONDS)
        assert "made-by-test" in _awaited_text(target)


def _name(kind: str) -> str:
    """Return a name that no other test of the session has used, since a part lives as long as the session."""
    return f"{kind}-{next(NUMBERS)}"


def _files(s3: S3) -> S3FileSystem:
    """Return a client of a running server, as pyiceberg makes it."""
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    return S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **keys)


def _put_and_get(s3: S3, bucket: str, content: bytes) -> bytes:
    """Put an object into a new bucket and return what a get brings."""
    files = _files(s3)
    files.create_dir(bucket)
    with files.open_output_stream(f"{bucket}/a/b") as target:
        target.write(content)
    with files.open_input_stream(f"{bucket}/a/b") as source:
        return bytes(source.read())


def _request(port: int, method: str, path: str, body: str | None = None) -> bytes:
    """Send one HTTP request and return the body of its answer, which must be a success."""
    connection = http.client.HTTPConnection(HOST, port, timeout=DEADLINE_SECONDS)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == http.client.OK
        return answer.read()
    finally:
        connection.close()


def _file_pipeline(signal: str, protocol: str, target: Path) -> str:
    """Return a collector configuration that writes what one OTLP protocol receives into a file."""
    return f"""
receivers: {{otlp: {{protocols: {{{protocol}}}}}}}
exporters: {{file: {{path: {target}}}}}
service: {{pipelines: {{{signal}: {{receivers: [otlp], exporters: [file]}}}}}}
"""


def _awaited_text(path: Path) -> str:
    """Return a file's text as soon as there is some, or nothing at the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.05)
    return ""
