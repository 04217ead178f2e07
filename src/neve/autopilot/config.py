"""Settings of the autopilot: query logs, recommendations, staging, canary, merge and proposals.

`apply_environment` fills in settings from the environment variables of the service that the autopilot replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator

from neve.autopilot.propose.proposal import LayoutKind  # noqa: TC001 - pydantic reads the annotation
from neve.errors import ConfigError
from neve.lake.config import PricesConfig
from neve.model.settings import Section

if TYPE_CHECKING:
    from collections.abc import Mapping


class KafkaEventsConfig(Section):
    """A topic that Trino's Kafka event listener writes."""

    bootstrap_servers: str = Field("", description="brokers as host:port, separated by commas; empty: no topic is read")
    topic: str = Field("trino-query-completed", min_length=1, description="topic with completed queries")
    options: dict[str, str] = Field({}, description="additional librdkafka settings, such as security.protocol")


class TrinoConfig(Section):
    """Trino: stored events if there are any, otherwise the queries that the coordinator still lists."""

    events: tuple[str, ...] = Field((), description="files and folders with event-listener JSON, plain, .gz or .zst")
    kafka: KafkaEventsConfig = Field(KafkaEventsConfig(), description="topic with events")
    host: str = Field("", description="coordinator host, to read system.runtime.queries; empty: not read")
    port: int = Field(8080, ge=1, le=65_535, description="port of the coordinator")
    user: str = Field("neve", min_length=1, description="user name")
    password: SecretStr = Field(SecretStr(""), description="password; empty: none")
    tls: bool = Field(False, description="connect over TLS; required for a password")
    catalog: str = Field("iceberg", description="catalog that contains the lake's tables; empty: any catalog")


class ClickHouseConfig(Section):
    """ClickHouse: `system.query_log`."""

    host: str = Field("", description="server host; empty: not read")
    port: int = Field(9000, ge=1, le=65_535, description="port: 9000 for native, 8123 for http")
    interface: Literal["native", "http"] = Field("native", description="protocol of the port")
    user: str = Field("default", min_length=1, description="user name")
    password: SecretStr = Field(SecretStr(""), description="password; empty: none")
    tls: bool = Field(False, description="connect over TLS")
    cluster: str = Field("", description="cluster, to read the logs of all its servers; empty: only this server")


class LogsConfig(Section):
    """Query logs to analyze."""

    lookback_days: float = Field(7, gt=0, le=366, description="days of query history to analyze")
    trino: TrinoConfig = Field(TrinoConfig(), description="Trino")
    clickhouse: ClickHouseConfig = Field(ClickHouseConfig(), description="ClickHouse")
    spark: tuple[str, ...] = Field((), description="files and folders with Spark event logs")
    scan_reports: tuple[str, ...] = Field((), description="files and folders with Iceberg scan reports, JSON lines")
    neve: bool = Field(True, description="include Neve's own table `queries`")
    max_queries: int = Field(
        100_000,
        ge=1,
        description="maximum number of queries used for estimates; beyond it a random sample is used, and all "
        "are counted",
    )
    allow_literals: bool = Field(False, description="allow query values in reports, pull requests and JSON")


BranchKind = Literal["iceberg", "nessie", "lakefs"]


class NessieConfig(Section):
    """A Nessie server, whose branches isolate the whole catalog."""

    url: str = Field("", description="API address: https://host/api/v2")
    token: SecretStr = Field(SecretStr(""), description="bearer token; empty: none")


class LakeFSConfig(Section):
    """A lakeFS server, whose branches version the files of a repository."""

    endpoint: str = Field("", description="server address: https://host")
    access_key: str = Field("", description="access key id")
    secret_key: SecretStr = Field(SecretStr(""), description="secret access key")
    repository: str = Field("", description="repository that contains the warehouse files")


class CanaryConfig(Section):
    """Conditions for a staged layout to pass."""

    threshold_pct: float = Field(
        30, ge=0, le=100, description="minimum reduction of planned bytes in percent, by its lower bound"
    )
    confidence: float = Field(0.9, gt=0.5, lt=1, description="confidence of the bounds")
    tolerance: float = Field(
        1e-9, ge=0, lt=1e-3, description="maximum relative difference between aggregates of floating-point numbers"
    )
    most_rows: int = Field(
        100_000, ge=1, description="maximum number of result rows that are compared with a tolerance"
    )
    allow_literals: bool = Field(
        False,
        description="include the engine's message when a query could not be compared; it may contain query values",
    )


class StageConfig(Section):
    """Staging of a new layout on a branch, in steps, and its publication."""

    branches: BranchKind = Field("iceberg", description="branch implementation: Iceberg's own, Nessie's or lakeFS's")
    nessie: NessieConfig = Field(NessieConfig(), description="Nessie")
    lakefs: LakeFSConfig = Field(LakeFSConfig(), description="lakeFS")
    step_bytes: int = Field(
        64 * 1024**3, ge=1, description="bytes that one step rewrites and commits; rows are sorted within a step; 64 GB"
    )
    only_read: bool = Field(
        True, description="rewrite only files that logged queries read; compaction rewrites the others later"
    )
    lease_seconds: float = Field(120, gt=0, description="seconds until the lease of a killed run expires")
    merge_attempts: int = Field(20, ge=1, description="attempts of a merge when main changes concurrently")
    canary: CanaryConfig = Field(CanaryConfig(), description="conditions for a staged layout to pass")

    @model_validator(mode="after")
    def _is_reachable(self) -> Self:
        if self.branches == "nessie" and not self.nessie.url:
            raise ValueError("should have nessie.url, which branches = 'nessie' needs")
        if self.branches == "lakefs" and not (self.lakefs.endpoint and self.lakefs.repository):
            raise ValueError("should have lakefs.endpoint and lakefs.repository, which branches = 'lakefs' needs")
        return self


MB = 1024 * 1024


class RecommendConfig(Section):
    """Conditions for a recommendation."""

    filtered_share: float = Field(
        0.30,
        gt=0,
        le=1,
        description="minimum share of queries that filter by a column, for it to become a partition or sort column",
    )
    ordered_share: float = Field(
        0.20,
        gt=0,
        le=1,
        description="minimum share of queries with the column in ORDER BY (with a filter or a LIMIT), for it to "
        "become a sort column",
    )
    promoted_share: float = Field(
        1 / 3, gt=0, le=1, description="minimum share of queries that filter by a map key, for it to become a column"
    )
    min_reduction: float = Field(
        0.30,
        gt=0,
        lt=1,
        description="minimum reduction of scanned bytes as a share, by the lower bound of its interval",
    )
    min_table_bytes: int = Field(512 * MB, ge=0, description="smaller tables are not changed")
    min_queries: int = Field(20, ge=1, description="minimum number of logged queries of a table")
    sample_rows: int = Field(2_000_000, ge=1000, description="rows to sample from a table")
    ranking_rows: int = Field(20_000, ge=500, description="rows of the sample that are used to rank candidates")
    sample_files: int = Field(2000, ge=1, description="maximum number of data files to sample from")
    seed: int = Field(7, description="seed of the sample; the same seed and files give the same rows")
    confidence: float = Field(0.90, gt=0, lt=1, description="confidence of the estimated interval")
    resamples: int = Field(16, ge=4, description="bootstrap samples for the interval")
    finalists: int = Field(8, ge=1, description="candidates to estimate on the whole sample")
    candidates: int = Field(500, ge=1, description="maximum number of candidates to rank")
    identity_values: int = Field(
        1000, ge=1, description="maximum number of distinct values of an identity partition column"
    )
    keep_time_partition: bool = Field(
        True,
        description="keep the time partition of tables that are partitioned by organization_id; retention "
        "depends on it",
    )
    settle_days: float = Field(14, ge=0, description="days before a changed layout may change again")
    return_margin: float = Field(
        0.10, ge=0, description="factor by which the gain must be larger to return to an earlier layout"
    )
    rewrite_bytes_per_s: float = Field(
        6.0 * MB, gt=0, description="bytes that one core rewrites per second; measured with Spark on spans: 6 MB"
    )
    payback_days: float = Field(30, gt=0, description="days within which a rewrite must pay for itself")
    prices: PricesConfig = Field(PricesConfig(), description="prices of storage, requests and compute")


ForgeKind = Literal["local", "github", "gitlab"]
API_URLS = {"github": "https://api.github.com", "gitlab": "https://gitlab.com/api/v4"}
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class AutoMergeConfig(Section):
    """Bounds for merges without an approval. All of them apply."""

    enabled: bool = Field(False, description="merge proposals within all of these bounds without an approval")
    kinds: tuple[LayoutKind, ...] = Field(
        ("sort", "zorder", "bloom", "file_size"), description="kinds of change that need no approval"
    )
    largest_table_bytes: int = Field(100 * 1024**3, ge=0, description="largest table that needs no approval; 100 GB")
    least_reduction_pct: float = Field(
        40,
        ge=0,
        le=100,
        description="minimum reduction of scanned bytes in percent, by the lower bounds of the estimate and the canary",
    )
    most_dollars: float = Field(5, ge=0, description="maximum cost of the rewrite, in dollars")
    from_hour: int = Field(0, ge=0, le=23, description="first hour of the day (UTC) for automatic merges")
    to_hour: int = Field(
        24, ge=0, le=24, description="hour of the day (UTC) at which automatic merges end; may be after midnight"
    )


class ProposeConfig(Section):
    """Repository of the table specs, and how changes are proposed and approved."""

    forge: ForgeKind = Field("local", description="local: a git repository; github or gitlab: their API")
    repository: str = Field(
        "lake/specs",
        min_length=1,
        description="local: folder of the repository, created if missing; github: owner/name; gitlab: project path",
    )
    url: str = Field("", description="API address; empty: public GitHub or GitLab")
    token: SecretStr = Field(
        SecretStr(""), description="token with write access to the repository and its pull requests"
    )
    default_branch: str = Field(
        "",
        description="branch whose merges count as approval; empty: the default branch of the forge, main or "
        "master of a local repository",
    )
    folder: str = Field("tables", description="folder of the table specs in the repository")
    remote: str = Field("", description="local: remote to fetch from and push to; empty: nothing leaves the machine")
    patches: str = Field("", description="local: folder for patch files; empty: neve/ in the git directory")
    author_name: str = Field("Neve autopilot", min_length=1, description="author of the commits")
    author_email: str = Field("autopilot@neve.invalid", min_length=1, description="email address of the author")
    approvals: int = Field(
        1,
        ge=0,
        description="approving reviews that a pull request needs before Neve merges it; 0: only a merge counts "
        "as approval",
    )
    allow_literals: bool = Field(False, description="show query values in proposals")
    timeout_seconds: float = Field(30, gt=0, le=600, description="timeout of one request or git command in seconds")
    retry_seconds: float = Field(
        120, ge=0, le=7200, description="seconds to retry while a forge is unavailable or busy"
    )
    ca_file: str = Field("", description="PEM file with trusted certificates; empty: the system's")
    auto_merge: AutoMergeConfig = Field(AutoMergeConfig(), description="conditions for merges without an approval")

    @field_validator("url")
    @classmethod
    def _is_safe_address(cls, value: str) -> str:
        if not value:
            return value
        parts = urlsplit(value)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("should have no user, password or query; the token has a key of its own")
        # A token is never sent in the clear, except to a proxy on this machine.
        if parts.hostname and (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS)
        ):
            return value.rstrip("/")
        raise ValueError("should be https://host with the path of the API")

    @field_validator("folder")
    @classmethod
    def _is_inside(cls, value: str) -> str:
        parts = value.split("/")
        if value and (any(part in ("", ".", "..") for part in parts) or ".git" in map(str.lower, parts)):
            raise ValueError("should be a path within the repository, such as tables or lake/tables")
        return value

    @field_validator("author_name", "author_email", "default_branch", "remote")
    @classmethod
    def _is_one_line(cls, value: str) -> str:
        if not value.isprintable() or "<" in value or ">" in value or value.startswith("-"):
            raise ValueError("should be one line without < and >, and not begin with -")
        return value

    @model_validator(mode="after")
    def _check_forge(self) -> Self:
        if self.forge == "local":
            return self
        if not self.token.get_secret_value():
            raise ValueError(f"should have a token, which the forge {self.forge} needs")
        names = self.repository.split("/")
        if len(names) < 2 or not all(names) or (self.forge == "github" and len(names) != 2):
            raise ValueError(f"should have a repository such as owner/name, got {self.repository!r}")
        return self

    @property
    def api(self) -> str:
        """The address of the forge's API."""
        return self.url or API_URLS.get(self.forge, "")


ENVIRONMENT_VARIABLES = {
    "TRINO_HOST": ("logs", "trino", "host"),
    "TRINO_PORT": ("logs", "trino", "port"),
    "TRINO_CATALOG": ("logs", "trino", "catalog"),
    "CLICKHOUSE_HOST": ("logs", "clickhouse", "host"),
    "CLICKHOUSE_PORT": ("logs", "clickhouse", "port"),
    "LAKEFS_ENDPOINT": ("stage", "lakefs", "endpoint"),
    "LAKEFS_ACCESS_KEY": ("stage", "lakefs", "access_key"),
    "LAKEFS_SECRET_KEY": ("stage", "lakefs", "secret_key"),
    "LOOKBACK_DAYS": ("logs", "lookback_days"),
}


class AutopilotConfig(Section):
    """Tables to optimize, query logs, and the staging, proposal and merge of new layouts."""

    tables: tuple[str, ...] = Field(
        ("*",),
        description="tables to optimize, as namespace.name, with the wildcards * and ?; Neve's own tables "
        "without telemetry only if named in full",
    )
    queries: tuple[str, ...] = Field((), description="your own canary queries in Spark SQL, in addition to logged ones")
    canary_queries: int = Field(20, ge=1, le=1000, description="maximum number of logged queries that a canary runs")
    time_limit_seconds: float = Field(
        7200, gt=0, description="time limit of a nightly run in seconds; the next run continues"
    )
    lease_seconds: float = Field(120, gt=0, description="seconds until the lease of a killed nightly run expires")
    history_days: float = Field(
        90, ge=30, description="days to keep the reports of finished attempts; outcomes are kept forever"
    )
    start_hour: int = Field(2, ge=0, le=23, description="hour of the day (UTC) at which the nightly run begins")
    metrics_address: str = Field("127.0.0.1", min_length=1, description="address for metrics during a run")
    metrics_port: int = Field(9090, ge=0, le=65_535, description="port for metrics; 0: disabled")
    logs: LogsConfig = Field(LogsConfig(), description="query logs to analyze")
    recommend: RecommendConfig = Field(RecommendConfig(), description="conditions for a recommendation")
    stage: StageConfig = Field(StageConfig(), description="staging of a layout on a branch, and its publication")
    propose: ProposeConfig = Field(ProposeConfig(), description="proposal and approval of changes")


def apply_environment(config: AutopilotConfig, environment: Mapping[str, str]) -> AutopilotConfig:
    """Return the configuration, with the service's old environment variables for settings that it lacks."""
    given = {
        variable: path
        for variable, path in ENVIRONMENT_VARIABLES.items()
        if environment.get(variable) and not _is_set(config, path)
    }
    if not given:
        return config
    values = config.model_dump(exclude_unset=True)
    for variable, (*sections, key) in given.items():
        place: dict[str, Any] = values
        for name in sections:
            place = place.setdefault(name, {})
        place[key] = environment[variable]
    try:
        return AutopilotConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(_format_error(one, given) for one in error.errors())) from None


def _is_set(config: AutopilotConfig, path: tuple[str, ...]) -> bool:
    section: Any = config
    for name in path:
        if name not in section.model_fields_set:
            return False
        section = getattr(section, name)
    return True


def _format_error(error: Any, given: Mapping[str, tuple[str, ...]]) -> str:
    keys = tuple(map(str, error["loc"]))
    name = next((variable for variable, path in given.items() if path == keys), f"autopilot.{'.'.join(keys)}")
    return f"{name} is wrong: {str(error['msg'])[:1].lower()}{str(error['msg'])[1:]}"
