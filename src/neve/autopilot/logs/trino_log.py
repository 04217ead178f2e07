"""Trino query logs: event files, a Kafka topic of events, or the coordinator's `system.runtime.queries`.

The coordinator keeps queries for minutes to hours and counts no bytes. Prepared statements get their parameters back.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from neve.autopilot.logs.records import LoggedQuery, TableRead, UnreadableRecord, list_log_files, read_documents
from neve.errors import EnvironmentFault, InputError
from neve.predicate.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer, Message

    from neve.autopilot.config import KafkaEventsConfig, TrinoConfig
    from neve.autopilot.logs.records import LogRecord


DIALECT = "trino"
COMMAND = "EXECUTE"
OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}


def fill_parameters(text: str, prepared: str = "") -> str:
    """Return a statement as it ran: `EXECUTE name USING 1` and `EXECUTE IMMEDIATE 'text' USING 1` with their values.

    Other statements, and those that can't be parsed, are returned unchanged.

    >>> fill_parameters("EXECUTE IMMEDIATE 'SELECT ?' USING 7")
    'SELECT 7'
    >>> fill_parameters("EXECUTE daily USING DATE '2026-01-02', 3", "SELECT a FROM t WHERE d = ? AND n = ?")
    "SELECT a FROM t WHERE d = DATE '2026-01-02' AND n = 3"
    """
    if text.lstrip()[:7].upper() != COMMAND:
        return text
    rest = text.lstrip()[len(COMMAND) :]  # sqlglot parses the rest of a command as one token
    try:
        words = sqlglot.tokenize(rest, dialect=DIALECT)
        template = _find_template(words) or prepared
        return _fill_template(template, _parameter_values(rest, words)) if template else text
    except SqlglotError:
        return text


def _find_template(words: list[Token]) -> str:
    is_immediate = len(words) > 1 and words[0].text.upper() == "IMMEDIATE" and words[1].token_type == TokenType.STRING
    return words[1].text if is_immediate else ""


def _parameter_values(text: str, words: list[Token]) -> list[str]:
    start = next((place for place, word in enumerate(words) if word.token_type == TokenType.USING), None)
    if start is None:
        return []
    depth, cuts = 0, [words[start].end]
    for word in words[start + 1 :]:
        depth += (word.token_type in OPENING) - (word.token_type in CLOSING)
        if depth == 0 and word.token_type == TokenType.COMMA:
            cuts.append(word.start)
    return [text[low + 1 : high].strip() for low, high in pairwise([*cuts, len(text)])]


def _fill_template(template: str, values: list[str]) -> str:
    marks = [word for word in sqlglot.tokenize(template, dialect=DIALECT) if word.token_type == TokenType.PLACEHOLDER]
    if len(marks) != len(values):
        return template
    parts, at = [], 0
    for mark, value in zip(marks, values, strict=True):
        parts += [template[at : mark.start], value]
        at = mark.end + 1
    return "".join([*parts, template[at:]])


ENGINE = "trino"
QUERY_TYPES = {"", "SELECT", "INSERT", "DELETE", "UPDATE", "MERGE"}


@dataclass(frozen=True)
class TrinoEvents:
    """Files or folders of events, one JSON object per line."""

    place: str
    catalog: str = ""

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"trino events {self.place}"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the completed queries since a time; events of other kinds are skipped."""
        for file in list_log_files(self.place, since):
            for number, document in read_documents(file):
                if isinstance(document, UnreadableRecord):
                    yield document
                    continue
                record = parse_event(document, self.catalog, f"{file.name}:{number}")
                if isinstance(record, UnreadableRecord) or (record is not None and record.at >= since):
                    yield record


def parse_event(event: dict[str, Any], catalog: str, where: str) -> LogRecord | None:
    """Return the query of an event; `None` for an event that is not the end of a query."""
    event = _unwrap_payload(event)
    metadata, inputs = event.get("metadata"), event.get("ioMetadata")
    if not isinstance(metadata, dict) or not isinstance(inputs, dict):
        return None  # a created query, or a split
    try:
        return _parse_completed(event, metadata, inputs, catalog)
    except (KeyError, TypeError, ValueError, AttributeError):
        return UnreadableRecord("invalid event of a completed query", where)


def _parse_completed(
    event: dict[str, Any], metadata: dict[str, Any], inputs: dict[str, Any], catalog: str
) -> LoggedQuery:
    context, statistics = event.get("context") or {}, event.get("statistics") or {}
    kind = str(context.get("queryType") or "")
    return LoggedQuery(
        query_id=str(metadata["queryId"]),
        engine=ENGINE,
        at=parse_event_time(event["createTime"]),
        text=fill_parameters(str(metadata["query"]), str(metadata.get("preparedQuery") or "")),
        dialect=ENGINE,
        catalog=str(context.get("catalog") or ""),
        schema=str(context.get("schema") or ""),
        only_catalog=catalog,
        finished=metadata.get("queryState") == "FINISHED",
        seconds=_duration_seconds(event, statistics),
        bytes_read=statistics.get("physicalInputBytes"),
        reads=tuple(_sum_reads(inputs.get("inputs") or [])),
        left_out="" if kind in QUERY_TYPES else "not a query",
    )


def parse_event_time(value: Any) -> datetime:
    """Parse a time of an event: text, or seconds since 1970 in older listeners."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    found = parse_time(str(value))
    if found is None:
        raise ValueError(value)
    return found


def _unwrap_payload(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event without the payload wrapper of the Kafka listener."""
    inner = event.get("eventPayload")
    return inner if isinstance(inner, dict) else event


def _duration_seconds(event: dict[str, Any], statistics: dict[str, Any]) -> float | None:
    if "endTime" in event:
        return (parse_event_time(event["endTime"]) - parse_event_time(event["createTime"])).total_seconds()
    wall = statistics.get("wallTime")
    return float(wall) if isinstance(wall, int | float) else None


def _sum_reads(inputs: list[dict[str, Any]]) -> Iterator[TableRead]:
    """Yield the sum of reads for each table; a table that is read in several places has several inputs."""
    sums: dict[tuple[str, ...], TableRead] = {}
    for one in inputs:
        table = (str(one["catalogName"]), str(one["schema"]), str(one["table"]))
        known = sums.get(table, TableRead(table, None, None))
        named = [column["name"] if isinstance(column, dict) else column for column in one.get("columns") or []]
        sums[table] = TableRead(
            table,
            _add_optional(known.bytes, one.get("physicalInputBytes")),
            _add_optional(known.rows, one.get("physicalInputRows")),
            tuple(dict.fromkeys((*known.columns, *map(str, named)))),
        )
    yield from sums.values()


def _add_optional(before: int | None, more: Any) -> int | None:
    return before if more is None else (before or 0) + int(more)


WAIT_SECONDS = 10.0  # for a response of the brokers
POLL_SECONDS = 0.2
MAX_MESSAGES = 500


@dataclass(frozen=True)
class TrinoKafka:
    """A Kafka topic; no offset is committed, so that each analysis reads the same days again."""

    config: KafkaEventsConfig
    catalog: str = ""

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"trino events of topic {self.config.topic}"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the completed queries since a time, up to the end of the topic when reading starts."""
        consumer = _connect_kafka(self.config)
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        try:
            for message in _read_messages(consumer, self.config.topic, since):
                record = self._record(message)
                if isinstance(record, UnreadableRecord) or (record is not None and record.at >= since):
                    yield record
        except KafkaException as error:
            raise InputError(f"can't read topic {self.config.topic}: {error}", hint="check the brokers") from error
        finally:
            consumer.close()

    def _record(self, message: Message) -> LogRecord | None:
        where = f"{message.topic()}/{message.partition()}@{message.offset()}"
        try:
            document = json.loads(message.value() or b"")
        except (ValueError, RecursionError):
            return UnreadableRecord("not JSON", where)
        if not isinstance(document, dict):
            return UnreadableRecord("not a JSON object", where)
        return parse_event(document, self.catalog, where)


def _read_messages(consumer: Consumer, topic: str, since: datetime) -> Iterator[Message]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    known = consumer.list_topics(topic, timeout=WAIT_SECONDS).topics[topic]
    if known.error is not None:
        raise InputError(f"can't read topic {topic}: {known.error}", hint="check autopilot.logs.trino.kafka.topic")
    wanted = [TopicPartition(topic, number, int(since.timestamp() * 1000)) for number in known.partitions]
    starts = consumer.offsets_for_times(wanted, timeout=WAIT_SECONDS)
    ends = {one.partition: consumer.get_watermark_offsets(one, timeout=WAIT_SECONDS)[1] for one in starts}
    left = {one.partition for one in starts if 0 <= one.offset < ends[one.partition]}
    consumer.assign([one for one in starts if one.partition in left])
    last_message = time.monotonic()
    while left:
        messages = consumer.consume(MAX_MESSAGES, POLL_SECONDS)
        last_message = time.monotonic() if messages else last_message
        if time.monotonic() - last_message > WAIT_SECONDS:
            raise InputError(f"no message of topic {topic} for {WAIT_SECONDS:g} seconds before its end")
        for message in messages:
            if message.error() is not None:
                raise InputError(f"can't read topic {topic}: {message.error()}")
            place, offset = int(message.partition() or 0), int(message.offset() or 0)
            if place in left and offset < ends[place]:
                yield message
            if offset >= ends[place] - 1:
                left.discard(place)


def _connect_kafka(config: KafkaEventsConfig) -> Consumer:
    try:
        from confluent_kafka import Consumer  # noqa: PLC0415 - an extra
    except ImportError:
        raise EnvironmentFault(
            "reading events from Kafka needs the package confluent-kafka, which is not installed",
            hint="pip install 'neve[kafka]'",
        ) from None
    settings: dict[str, Any] = {
        "bootstrap.servers": config.bootstrap_servers,
        "group.id": f"neve-autopilot-{uuid4().hex}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        **config.options,
    }
    return Consumer(settings)


FETCH_ROWS = 1_000  # rows per fetch
STATEMENT = """/* neve:autopilot */
SELECT query_id, state, query, created, date_diff('millisecond', created, "end") / 1000.0
FROM system.runtime.queries WHERE created >= from_unixtime(?)"""


@dataclass(frozen=True)
class TrinoRuntime:
    """`system.runtime.queries` of a coordinator."""

    config: TrinoConfig

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"trino {self.config.host}:{self.config.port}"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the queries since a time; the table doesn't have the default schema of unqualified names."""
        connection = _connect_trino(self.config)
        from trino.exceptions import Error, TrinoConnectionError, TrinoQueryError  # noqa: PLC0415 - an extra

        try:
            cursor = connection.cursor()
            cursor.execute(STATEMENT, (since.timestamp(),))
            while rows := cursor.fetchmany(FETCH_ROWS):
                yield from (self._record(row) for row in rows)
        except (Error, TrinoConnectionError, TrinoQueryError, OSError) as error:
            raise InputError(
                f"can't read system.runtime.queries of {self.name}: {type(error).__name__}",
                hint="check autopilot.logs.trino.host, port, user and password",
            ) from error

    def _record(self, row: list[Any]) -> LoggedQuery:
        query_id, state, text, created, seconds = row
        return LoggedQuery(
            query_id=str(query_id),
            engine=ENGINE,
            at=created.astimezone(UTC),
            text=fill_parameters(str(text)),
            dialect=ENGINE,
            catalog=self.config.catalog,
            only_catalog=self.config.catalog,
            finished=state == "FINISHED",
            seconds=None if seconds is None else float(seconds),
        )


def _connect_trino(config: TrinoConfig) -> Any:
    try:
        from trino.auth import BasicAuthentication  # noqa: PLC0415 - an extra
        from trino.dbapi import connect  # noqa: PLC0415
    except ImportError:
        raise EnvironmentFault(
            "reading Trino's queries needs the package trino, which is not installed", hint="pip install 'neve[trino]'"
        ) from None
    password = config.password.get_secret_value()
    return connect(  # type: ignore[no-untyped-call]
        host=config.host,
        port=config.port,
        user=config.user,
        source="neve-autopilot",
        http_scheme="https" if config.tls else "http",
        auth=BasicAuthentication(config.user, password) if password else None,
        request_timeout=60,
    )
