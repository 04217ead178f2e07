"""Settings of queries: the server, the engines, the limits, the cache and the query log."""

from typing import Literal

from pydantic import Field

from neve.model.settings import Hosts, Section, check_hosts, check_open_host
from neve.tls.config import TlsConfig

MEMORY = r"^\d+(MB|GB)$"


class LimitRule(Section):
    """Query limits of an organization or of one of its keys. Empty values use the general limits."""

    organization: str = Field("", description="organization; empty: all")
    key: str = Field("", description="id of one key; empty: all keys")
    concurrency: int | None = Field(None, ge=1, description="concurrent queries of one key")
    places: int | None = Field(None, ge=1, description="concurrent queries of the organization")
    memory: str | None = Field(None, pattern=MEMORY, description="memory of one query")
    seconds: float | None = Field(None, gt=0, description="timeout of a query in seconds")
    cpu_seconds: float | None = Field(None, gt=0, description="CPU seconds of a query")
    scan_bytes: int | None = Field(None, ge=1, description="maximum file bytes that a query reads, after pruning")
    daily_bytes: int | None = Field(
        None, ge=1, description="maximum file bytes that the organization or key reads per day"
    )
    rows: int | None = Field(None, ge=1, description="maximum number of result rows")


class QueryConfig(Section):
    """Interactive queries and their limits."""

    host: str = Field("127.0.0.1", min_length=1, description="listen address of the query API")
    port: int = Field(8480, ge=0, le=65_535, description="port of the query API; 0: any free port")
    auth: Literal["open", "keys"] = Field(
        "open",
        description="open: no authentication, for `organization`, on loopback or with client certificates only; keys: "
        "API keys are required",
    )
    tls: TlsConfig = Field(TlsConfig(), description="TLS of the query API and the page")
    allowed_hosts: Hosts = Field(
        (), description="host names that requests may use if `auth` is keys; empty: any. Loopback is always allowed"
    )
    origin: str = Field(
        "",
        pattern=r"^(https?://[^/\s]+)?$",
        description="address of the web page behind a proxy, such as https://neve.example.com; empty: http, or https "
        "with `tls`, and the host of the request",
    )
    session_hours: float = Field(
        12, gt=0, le=720, description="hours without a request after which a browser must sign in again"
    )
    open_admin: bool = Field(
        False, description="allow everyone on this machine to control maintenance if `auth` is open"
    )
    threads: int = Field(0, ge=0, le=1024, description="DuckDB threads; 0: all cores")
    memory_limit: str = Field("2GB", pattern=MEMORY, description="memory of one query in DuckDB")
    warm_workers: int = Field(
        2, ge=0, le=64, description="warm worker processes of a server; each runs one query at a time"
    )
    spill_bytes: int = Field(
        10_000_000_000,
        ge=0,
        description="disk space for spilling, over all queries; a query with less memory gets less in proportion; "
        "0: none",
    )
    max_rows: int = Field(
        1000, ge=1, description="maximum number of rows printed to a terminal; files contain all rows"
    )
    time_zone: str = Field(
        "",
        description="time zone of times in a terminal, such as Europe/Berlin; local: that of this machine; empty: UTC",
    )
    promql: bool = Field(True, description="serve the HTTP API of Prometheus (PromQL) under `/prometheus/api/v1`")
    logql: bool = Field(True, description="serve the HTTP API of Loki (LogQL, live tail) under `/loki/api/v1`")
    traceql: bool = Field(True, description="serve the HTTP API of Tempo (TraceQL) under `/tempo/api`")
    jaeger: bool = Field(True, description="serve the HTTP API of Jaeger under `/jaeger/api`")
    concurrency: int = Field(8, ge=1, description="concurrent queries of a server; others wait")
    queue_seconds: float = Field(10, ge=0, description="seconds that a query waits in the queue before it is rejected")
    key_concurrency: int = Field(4, ge=1, description="concurrent queries of one key")
    organization_concurrency: int = Field(6, ge=1, description="concurrent queries of one organization")
    timeout_seconds: float = Field(300, gt=0, description="timeout of a query in a server, in seconds")
    cpu_seconds: float = Field(
        0, ge=0, description="CPU seconds of a query in a server; 0: its timeout times its threads"
    )
    scan_bytes: int = Field(0, ge=0, description="maximum file bytes that a query in a server reads; 0: unlimited")
    daily_bytes: int = Field(
        0, ge=0, description="maximum file bytes that the queries of an organization read per day (UTC); 0: unlimited"
    )
    result_rows: int = Field(0, ge=0, description="maximum number of result rows in a server; 0: unlimited")
    spark_result_rows: int = Field(
        10_000_000,
        ge=1,
        description="maximum number of result rows from Spark; they are stored on disk before they are sent",
    )
    limits: tuple[LimitRule, ...] = Field((), description="other limits for some organizations and keys")
    spark_bytes: int = Field(
        50_000_000_000, ge=0, description="queries that read more file bytes run on Spark; 0: never"
    )
    cache_bytes: int = Field(256_000_000, ge=0, description="results that a server caches; 0: none")
    cache_seconds: float = Field(3600, ge=0, description="seconds to cache a result")
    log: bool = Field(True, description="write the queries of a server to the table `queries`")
    log_seconds: float = Field(
        10, gt=0, description="seconds to buffer entries of the query log before they are written"
    )


def check_query(config: QueryConfig) -> None:
    """Raise `ConfigError` if settings of a server contradict each other."""
    if config.auth == "open" and not config.tls.verifies_clients:
        check_open_host("query", config.host, "make a key with `neve keys create --scope read`")
    check_hosts("query", config.auth, config.allowed_hosts)
