"""Trino's logs: events and answers recorded from a Trino 476 server, with plans and most statistics left out."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from neve.autopilot.analyzer import QueryLogAnalyzer, analyze
from neve.autopilot.config import KafkaEventsConfig, TrinoConfig
from neve.autopilot.logs.records import LoggedQuery
from neve.autopilot.logs.trino_log import TrinoEvents, TrinoKafka, TrinoRuntime, fill_parameters
from neve.autopilot.workload.privacy import format_filter
from neve.autopilot.workload.tables import Tables
from neve.errors import InputError
from tests.autopilot.analyze.schemas import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.parts.kafka import Kafka

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
EVENTS = DATA / "trino_476_events.jsonl"


def test_recorded_events_become_a_workload() -> None:
    """Finished queries on the lake's catalog count with their bytes; all others are left out with a reason."""
    found = analyze([TrinoEvents(str(EVENTS), "lake")], Tables(), SINCE)
    said = [format_filter(use.filter, allow_literals=True) for query in found.queries for use in query.uses]
    month = "datetime.datetime(1993, {}, 1, 0, 0, tzinfo=datetime.timezone.utc)".format
    assert said == [
        "orderdate >= datetime.date(1993, 1, 1) AND custkey = 7",
        f"attributes['http.route'] = '/r1' AND placed >= {month(6)}",
        f"date_trunc(placed) >= {month(3)} AND date_trunc(placed) < {month(4)} AND comment LIKE 'furiously'%",
        "custkey = 8",
        "custkey = 7 AND orderdate >= datetime.date(1992, 1, 1) AND orderdate <= datetime.date(1992, 6, 1)",
    ]
    assert [use.bytes_read for query in found.queries for use in query.uses] == [84513, 60278, 202629, 160148, 34283]
    assert {use.table for query in found.queries for use in query.uses} == {"shop.orders"}
    assert dict(found.sources[0].left_out) == {
        "failed": 3,
        "only metadata, or tables of other catalogs": 4,
        "a canary of the autopilot": 2,
        "not a query": 3,
        "reads no table": 2,
    }
    assert found.sources[0].unparsed == 0


def test_folders_hold_packed_files_too(tmp_path: Path) -> None:
    """A folder is read file by file, gzip among them; a line that is no event is counted."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(EVENTS.read_bytes() + b"{broken\n[1]\n"))
    found = analyze([TrinoEvents(str(tmp_path), "lake")], Tables(), SINCE)
    assert len(found.queries) == 5
    assert dict(found.sources[0].unreadable) == {"not JSON": 1, "not a JSON object": 1}


def test_an_event_that_is_told_twice_counts_once(tmp_path: Path) -> None:
    """Listeners send again when they are not sure."""
    (tmp_path / "twice.jsonl").write_bytes(EVENTS.read_bytes() * 2)
    assert analyze([TrinoEvents(str(tmp_path), "lake")], Tables(), SINCE).counted == 5


def test_older_queries_do_not_count() -> None:
    """Only what was asked since the moment is read."""
    assert not list(TrinoEvents(str(EVENTS)).queries(datetime(2200, 1, 1, tzinfo=UTC)))


def test_a_log_that_is_not_there_is_said() -> None:
    """A wrong path is the user's to mend."""
    with pytest.raises(InputError, match="does not exist"):
        list(TrinoEvents("/nowhere").queries(SINCE))


def test_values_of_prepared_statements_come_to_their_places() -> None:
    """Marks in texts are no marks, commas in brackets part nothing, and what does not fit stays as it was."""
    text = "EXECUTE p USING ARRAY[1, 2], 'a, ''b'"
    assert fill_parameters(text, "SELECT '?' FROM t WHERE a = ? AND b = ?") == (
        "SELECT '?' FROM t WHERE a = ARRAY[1, 2] AND b = 'a, ''b'"
    )
    assert fill_parameters("EXECUTE p USING 1", "SELECT ?, ?") == "SELECT ?, ?"
    assert fill_parameters("EXECUTE p USING 1") == "EXECUTE p USING 1"


class _Replay(BaseHTTPRequestHandler):
    """Gives the recorded pages of an answer one after the other."""

    pages: list[dict[str, Any]]
    server: ThreadingHTTPServer

    def do_POST(self) -> None:
        """The statement."""
        self.rfile.read(int(self.headers["content-length"]))
        self._send(0)

    def do_GET(self) -> None:
        """The page that the one before named."""
        self._send(int(self.path.rpartition("/")[2]))

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def _send(self, number: int) -> None:
        page = dict(self.pages[number])
        if "nextUri" in page:
            page["nextUri"] = f"http://127.0.0.1:{self.server.server_port}/v1/statement/{number + 1}"
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def coordinator() -> Iterator[int]:
    """A port that answers as the coordinator did."""
    handler = type("Replay", (_Replay,), {"pages": json.loads((DATA / "trino_476_runtime_queries.json").read_text())})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_the_coordinator_is_the_fallback() -> None:
    """`system.runtime.queries` gives texts and times, no bytes; a recorded answer is replayed on the wire."""
    with coordinator() as port:
        config = TrinoConfig(host="127.0.0.1", port=port, catalog="lake")
        records = list(TrinoRuntime(config).queries(SINCE))
        found = analyze([TrinoRuntime(config)], Tables(), SINCE)
    assert all(isinstance(record, LoggedQuery) and record.bytes_read is None for record in records)
    assert len(records) == 8
    assert [query.seconds for query in found.queries][:1] == [0.7]
    assert dict(found.sources[0].left_out)["a canary of the autopilot"] >= 2


def test_the_class_of_the_service_reads_trino() -> None:
    """Extract, aggregate and recommend, with the port from the environment."""
    seen: list[Any] = []

    def recommend(tables: Any, queries: Any, metadata: Any) -> list[str]:
        seen.append((tables, queries, metadata))
        return ["sort by custkey"]

    with coordinator() as port:
        environment = {"TRINO_HOST": "127.0.0.1", "TRINO_PORT": str(port), "TRINO_CATALOG": "lake"}
        analyzer = QueryLogAnalyzer(lookback_days=40_000, recommend=recommend, environment=environment)
        patterns = analyzer.extract_trino_query_patterns()
        tables = analyzer.aggregate_patterns(patterns)
        assert analyzer.generate_recommendations(tables, current_metadata={}) == ["sort by custkey"]
    assert tables["orders"].share("custkey", "eq") > 0
    assert seen == [(tables, patterns, {})]


def test_a_coordinator_that_is_away_is_said() -> None:
    """Nothing is analysed as if there had been no queries."""
    with coordinator() as port:
        pass
    with pytest.raises(InputError, match=r"can't read system\.runtime\.queries"):
        list(TrinoRuntime(TrinoConfig(host="127.0.0.1", port=port)).queries(SINCE))


@pytest.mark.parts
def test_a_topic_is_read_to_its_end(kafka: Kafka) -> None:
    """Events of a topic count as those of a file, each time that they are read."""
    from confluent_kafka import Producer

    topic = "trino-query-completed"
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for line in EVENTS.read_bytes().splitlines():
        event = json.loads(line)
        producer.produce(topic, json.dumps({"eventMetadata": {}, "eventPayload": event}))
    producer.produce(topic, b"no json")
    producer.flush(30)
    source = TrinoKafka(KafkaEventsConfig(bootstrap_servers=kafka.bootstrap, topic=topic), "lake")
    for _ in range(2):
        found = analyze([source], Tables(), SINCE)
        assert (found.counted, dict(found.sources[0].unreadable)) == (5, {"not JSON": 1})
