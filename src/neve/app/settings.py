"""The root of the configuration: one frozen tree from `neve.yaml` and `NEVE_…` variables, and its error messages.

A message names the key, the value, what was expected, and the nearest known key. Secrets are never shown.
"""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, Field, SecretStr, ValidationError

from neve.app.configuration.given_values import read_values
from neve.app.serve.config import ServeConfig
from neve.app.telemetry.config import TelemetryConfig
from neve.autopilot.config import AutopilotConfig
from neve.compact.config import CompactConfig
from neve.errors import ConfigError
from neve.identity.config import OidcConfig
from neve.ingest.config import IngestConfig, KafkaConfig, WatchConfig
from neve.jobs.policy import Policy  # noqa: TC001 - pydantic reads it
from neve.lake.config import CatalogConfig, LakeConfig, PricesConfig, S3Config, SparkConfig
from neve.maintain.config import MaintainConfig
from neve.model.settings import ORGANIZATION_PATTERN, Section
from neve.query.config import QueryConfig
from neve.raw.config import RawConfig
from neve.receive.config import ReceiverConfig
from neve.reservoir.config import ReservoirConfig
from neve.rollup.config import RollupConfig
from neve.rules.config import RulesConfig
from neve.search.config import SearchConfig
from neve.series.config import SeriesConfig
from neve.state.config import BusConfig, StateConfig
from neve.tail.config import TailConfig
from neve.tls.config import ClientTlsConfig, TlsConfig
from neve.traces.config import TracesConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

    from neve.app.configuration.given_values import GivenValues


HIDDEN = "********"


def format_errors(
    root: type[BaseModel], error: ValidationError, file: str, origins: Mapping[tuple[str, ...], str]
) -> Iterator[str]:
    """Yield one line for each error."""
    for detail in error.errors(include_url=False, include_context=False):
        keys = tuple(str(part) for part in detail["loc"])
        yield f"{_describe_location(keys, file, origins)}: {_describe_error(root, keys, detail)}"


def _describe_location(keys: tuple[str, ...], file: str, origins: Mapping[tuple[str, ...], str]) -> str:
    for set_keys, variable in origins.items():
        shared = min(len(keys), len(set_keys))
        if keys[:shared] == set_keys[:shared]:
            return variable
    return f"{file}: {'.'.join(keys)}"


def _describe_error(root: type[BaseModel], keys: tuple[str, ...], detail: ErrorDetails) -> str:
    if detail["type"] == "extra_forbidden":
        return f"unknown key {keys[-1]!r}{_suggest_key(root, keys)}"
    if _find_section(root, keys):
        return f"got {type(detail['input']).__name__}, expected keys and values"
    value = HIDDEN if _is_secret(root, keys) else _format_value(detail["input"])
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
    return f"got {value}, which {expected[0].lower()}{expected[1:]}"


def _format_value(value: object) -> str:
    """Return a value as it was written; a list or a map is only named as such, for its content may be secret."""
    return type(value).__name__ if isinstance(value, dict | list) else repr(value)


def _suggest_key(root: type[BaseModel], keys: tuple[str, ...]) -> str:
    section = _find_section(root, keys[:-1])
    known = list(section.model_fields) if section else []
    near = difflib.get_close_matches(keys[-1], known, n=1, cutoff=0.6)
    if near:
        return f", did you mean {near[0]!r}?"
    return f", expected one of {', '.join(known)}" if known else ""


def _find_section(root: type[BaseModel], keys: tuple[str, ...]) -> type[BaseModel] | None:
    section: Any = root
    for key in keys:
        field = section.model_fields.get(key)
        section = field.annotation if field else None
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return None
    found: type[BaseModel] = section
    return found


def _is_secret(root: type[BaseModel], keys: tuple[str, ...]) -> bool:
    """Return whether a value is or contains a secret.

    A text in the place of a map of secrets is a secret too.
    """
    found: Any = root
    for key in keys:
        field = next((model.model_fields[key] for model in _models_in(found) if key in model.model_fields), None)
        found = field.annotation if field else found  # the index of an item, or the key of a map
    return SecretStr.__name__ in str(found)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


class Settings(Section):
    """Everything that a user can set."""

    organization: str = Field(
        "default", pattern=ORGANIZATION_PATTERN, description="organization for commands without --org"
    )
    lake: LakeConfig = Field(LakeConfig(), description="location of the tables")
    catalog: CatalogConfig = Field(CatalogConfig(), description="Iceberg catalog")
    s3: S3Config = Field(S3Config(), description="object storage")
    spark: SparkConfig = Field(SparkConfig(), description="Spark")
    state: StateConfig = Field(StateConfig(), description="state store: leases, jobs, keys and histories")
    tls: TlsConfig = Field(TlsConfig(), description="TLS of all ports without settings of their own")
    client: ClientTlsConfig = Field(ClientTlsConfig(), description="TLS of commands with --server")
    oidc: OidcConfig = Field(OidcConfig(), description="tokens of an identity provider, beside API keys")
    raw: RawConfig = Field(RawConfig(), description="raw zone: received messages until they are in the tables")
    receiver: ReceiverConfig = Field(ReceiverConfig(), description="OTLP receiver")
    ingest: IngestConfig = Field(IngestConfig(), description="ingestion of records")
    kafka: KafkaConfig = Field(KafkaConfig(), description="Kafka topics to ingest")
    watch: WatchConfig = Field(WatchConfig(), description="announced files")
    query: QueryConfig = Field(QueryConfig(), description="interactive queries")
    compact: CompactConfig = Field(CompactConfig(), description="compaction")
    prices: PricesConfig = Field(PricesConfig(), description="prices, to estimate costs and savings")
    rollup: RollupConfig = Field(RollupConfig(), description="metric rollups")
    reservoir: ReservoirConfig = Field(ReservoirConfig(), description="weighted sampling")
    search: SearchConfig = Field(SearchConfig(), description="full-text index")
    series: SeriesConfig = Field(SeriesConfig(), description="tables of series and streams")
    traces: TracesConfig = Field(TracesConfig(), description="trace summaries and the service map")
    tail: TailConfig = Field(TailConfig(), description="tail sampling")
    rules: RulesConfig = Field(RulesConfig(), description="recording and alerting rules")
    maintain: MaintainConfig = Field(MaintainConfig(), description="table maintenance")
    autopilot: AutopilotConfig = Field(AutopilotConfig(), description="automatic layouts")
    serve: ServeConfig = Field(ServeConfig(), description="`neve serve`")
    bus: BusConfig = Field(BusConfig(), description="announcements of commits to the parts of `neve serve`")
    policies: tuple[Policy, ...] = Field((), description="schedules and policies by table")
    policies_folder: str = Field(
        "", description="folder of YAML files with additional policies, in the order of their names"
    )
    telemetry: TelemetryConfig = Field(TelemetryConfig(), description="Neve's own traces and logs")


def load_settings(path: str | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the configuration; raises `ConfigError` that names every wrong key."""
    return validate_settings(read_values(path, environment))


def validate_settings(given: GivenValues) -> Settings:
    """Validate the values that a user set; raises `ConfigError` that names every wrong key."""
    try:
        return Settings.model_validate(given.values)
    except ValidationError as error:
        raise ConfigError("\n".join(format_errors(Settings, error, str(given.file), given.origins))) from None
