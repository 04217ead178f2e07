"""What users set about queries."""

from typing import Literal

from pydantic import Field

from neve.errors import ConfigError
from neve.model.network import Hosts, check_hosts, is_loopback
from neve.model.section import Section

MEMORY = r"^\d+(MB|GB)$"


class LimitRule(Section):
    """What the queries of an organization, or of one key of it, may take; empty: as for everybody."""

    organization: str = Field("", description="whose queries; empty: everybody's")
    key: str = Field("", description="the id of the one key that it is about; empty: all of them")
    concurrency: int | None = Field(None, ge=1, description="queries of one key that run at a time")
    places: int | None = Field(None, ge=1, description="queries of the organization that run at a time")
    memory: str | None = Field(None, pattern=MEMORY, description="memory that one query may use")
    seconds: float | None = Field(None, gt=0, description="seconds that a query may take")
    cpu_seconds: float | None = Field(None, gt=0, description="seconds of the processor that a query may use")
    scan_bytes: int | None = Field(None, ge=1, description="bytes of files that a query may read, after pruning")
    daily_bytes: int | None = Field(
        None, ge=1, description="bytes of files that the organization, or the key, may read in a day"
    )
    rows: int | None = Field(None, ge=1, description="rows that a result may have")


class QueryConfig(Section):
    """How interactive queries run, and what they may take."""

    host: str = Field("127.0.0.1", min_length=1, description="address that a server listens on")
    port: int = Field(8480, ge=0, le=65_535, description="port of the query API; 0 takes a free one")
    auth: Literal["open", "keys"] = Field(
        "open", description="open answers everybody for `organization`, on loopback only; keys asks for an API key"
    )
    allowed_hosts: Hosts = Field(
        (), description="host names that requests may name where `auth` is keys; empty: any. Loopback is always allowed"
    )
    open_admin: bool = Field(
        False, description="whether everybody on this machine may change what tends the lake where `auth` is open"
    )
    threads: int = Field(0, ge=0, le=1024, description="threads of DuckDB; 0 for all cores")
    memory_limit: str = Field("2GB", pattern=MEMORY, description="memory that one query may use in DuckDB")
    warm_workers: int = Field(
        2, ge=0, le=64, description="processes that a server keeps ready for queries; each runs one at a time"
    )
    spill_bytes: int = Field(
        10_000_000_000,
        ge=0,
        description="bytes of disk for what does not fit into memory, of all queries together; 0: none",
    )
    max_rows: int = Field(1000, ge=1, description="rows that a terminal table shows at most; files get all rows")
    concurrency: int = Field(8, ge=1, description="queries that a server runs at a time; others wait")
    queue_seconds: float = Field(10, ge=0, description="how long a query waits for its turn before it is refused")
    key_concurrency: int = Field(4, ge=1, description="queries of one key that a server runs at a time")
    organization_concurrency: int = Field(
        6, ge=1, description="queries of one organization that a server runs at a time"
    )
    timeout_seconds: float = Field(300, gt=0, description="seconds that a query of a server may take")
    cpu_seconds: float = Field(
        0, ge=0, description="seconds of the processor that a query of a server may use; 0: its time on all threads"
    )
    scan_bytes: int = Field(0, ge=0, description="bytes of files that a query of a server may read; 0: any number")
    daily_bytes: int = Field(
        0, ge=0, description="bytes of files that the queries of an organization may read in a day (UTC); 0: any number"
    )
    result_rows: int = Field(0, ge=0, description="rows that a result of a server may have; 0: any number")
    spark_result_rows: int = Field(
        10_000_000, ge=1, description="rows that a result of Spark may have; they lie on disk before they are sent"
    )
    limits: tuple[LimitRule, ...] = Field((), description="other limits for some organizations and keys")
    spark_bytes: int = Field(
        50_000_000_000, ge=0, description="a query that reads more bytes of files is answered by Spark; 0: never"
    )
    cache_bytes: int = Field(256_000_000, ge=0, description="results that a server keeps; 0: none")
    cache_seconds: float = Field(3600, ge=0, description="how long a result is kept")
    log: bool = Field(True, description="whether a server writes its queries into the table `queries`")
    log_seconds: float = Field(10, gt=0, description="how long entries of the log are gathered before they are written")


def check_query(config: QueryConfig) -> None:
    """Raise `ConfigError` where settings of a server do not fit together."""
    if config.auth == "open" and not is_loopback(config.host):
        raise ConfigError(
            f"query.auth is 'open' and query.host is {config.host!r}, expected a loopback address or auth 'keys'",
            hint="set query.auth to keys, and make a key with `neve keys create --scope read`",
        )
    check_hosts("query", config.auth, config.allowed_hosts)
