"""What users set about query logs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from neve.model.section import Section


class KafkaEventsConfig(Section):
    """A topic that Trino's Kafka event listener writes."""

    bootstrap_servers: str = Field("", description="brokers with their ports, with commas; empty: no topic")
    topic: str = Field("trino-query-completed", min_length=1, description="topic of completed queries")
    options: dict[str, str] = Field({}, description="further settings of librdkafka: security.protocol and the like")


class TrinoConfig(Section):
    """Trino: events where they are kept, otherwise what the coordinator still remembers."""

    events: tuple[str, ...] = Field((), description="files and folders of event-listener JSON, plain, .gz or .zst")
    kafka: KafkaEventsConfig = Field(KafkaEventsConfig(), description="topic of events")
    host: str = Field("", description="coordinator, for system.runtime.queries; empty: it is not asked")
    port: int = Field(8080, ge=1, le=65_535, description="its port")
    user: str = Field("neve", min_length=1, description="user that asks")
    password: SecretStr = Field(SecretStr(""), description="password; empty for none")
    tls: bool = Field(False, description="whether the coordinator is reached over TLS; a password needs it")
    catalog: str = Field("iceberg", description="catalog whose tables are the lake's; empty: every catalog's")


class ClickHouseConfig(Section):
    """ClickHouse: `system.query_log`."""

    host: str = Field("", description="server; empty: none")
    port: int = Field(9000, ge=1, le=65_535, description="its port: 9000 for native, 8123 for http")
    interface: Literal["native", "http"] = Field("native", description="protocol of the port")
    user: str = Field("default", min_length=1, description="user that asks")
    password: SecretStr = Field(SecretStr(""), description="password; empty for none")
    tls: bool = Field(False, description="whether the server is reached over TLS")
    cluster: str = Field("", description="cluster whose servers are asked all; empty: the one server")


class LogsConfig(Section):
    """Query logs that are analysed."""

    lookback_days: float = Field(7, gt=0, le=366, description="how far back queries count")
    trino: TrinoConfig = Field(TrinoConfig(), description="Trino")
    clickhouse: ClickHouseConfig = Field(ClickHouseConfig(), description="ClickHouse")
    spark: tuple[str, ...] = Field((), description="files and folders of Spark event logs")
    scan_reports: tuple[str, ...] = Field((), description="files and folders of Iceberg scan reports, JSON lines")
    neve: bool = Field(True, description="whether Neve's own table of queries counts")
    max_queries: int = Field(
        100_000, ge=1, description="queries that are kept for estimates; of more a random part is kept, all are counted"
    )
    allow_literals: bool = Field(
        False, description="whether values of queries may stand in reports, pull requests and JSON"
    )
