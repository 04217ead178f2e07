"""Which Kafka topics hold what."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from neve.errors import ConfigError
from neve.lake.config import as_text
from neve.model.organization import PATTERN
from neve.model.section import Section
from neve.model.signals import Signal

KafkaEncoding = Literal["auto", "otlp_proto", "otlp_json"]
TOPIC = r"^[A-Za-z0-9._-]{1,249}$"


class TopicConfig(Section):
    """What the messages of a topic are."""

    topic: str = Field(pattern=TOPIC, description="name of the topic")
    signal: Signal = Field(description="logs, metrics or traces")
    encoding: KafkaEncoding = Field("auto", description="auto (told by the first byte), otlp_proto or otlp_json")
    organization: str = Field(
        "",
        pattern=f"^$|{PATTERN}",
        description="organization that the messages belong to; empty for the configured one",
    )


class KafkaConfig(Section):
    """How to read telemetry from Kafka."""

    bootstrap_servers: str = Field("localhost:9092", min_length=1, description="brokers, as host:port with commas")
    topics: tuple[TopicConfig, ...] = Field(
        (
            TopicConfig(topic="otlp_spans", signal=Signal.TRACES),
            TopicConfig(topic="otlp_logs", signal=Signal.LOGS),
            TopicConfig(topic="otlp_metrics", signal=Signal.METRICS),
        ),
        description="topics of OTLP messages; the defaults are those of the collector's Kafka exporter",
    )
    events: tuple[str, ...] = Field(
        ("ingest.logs", "ingest.metrics", "ingest.traces"),
        description="topics of events that announce files, for `neve ingest watch --kafka`",
    )
    batch_messages: int = Field(
        100_000, ge=1, description="how many messages go into one commit at most, of all topics together"
    )
    starting: Literal["earliest", "latest"] = Field(
        "earliest", description="where a stream begins that was never read before"
    )
    allow_loss: bool = Field(
        False,
        description="go on when the broker has deleted messages that were not read yet; otherwise the stream stops",
    )
    options: dict[str, str] = Field(
        {}, description="further options of Spark's Kafka source, such as kafka.security.protocol"
    )

    _plain_options = field_validator("options", mode="before")(as_text)


def parse_topic(text: str) -> TopicConfig:
    """A topic as the command line names it: NAME=SIGNAL.

    >>> parse_topic("otlp_spans=traces").signal.value
    'traces'
    """
    name, _, signal = text.partition("=")
    if signal not in {known.value for known in Signal} or not re.fullmatch(TOPIC.strip("^$"), name):
        raise ConfigError(f"topic is {text!r}, expected NAME=traces, NAME=logs or NAME=metrics")
    return TopicConfig(topic=name, signal=Signal(signal))
