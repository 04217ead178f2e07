"""The root of the configuration: one frozen tree, from `neve.yaml` and `NEVE_…` variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field, ValidationError

from neve.app.complaints import complain
from neve.app.serve.config import ServeConfig
from neve.app.telemetry.config import TelemetryConfig
from neve.autopilot.config import AutopilotConfig
from neve.compact.config import CompactConfig
from neve.errors import ConfigError
from neve.ingest.config import IngestConfig
from neve.ingest.stream.topics import KafkaConfig
from neve.ingest.watch.config import WatchConfig
from neve.lake.bus_config import BusConfig
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.prices import PricesConfig
from neve.lake.state_config import StateConfig
from neve.maintain.config import MaintainConfig
from neve.model.organization import PATTERN
from neve.model.section import Section
from neve.query.config import QueryConfig
from neve.raw.config import RawConfig
from neve.receive.config import ReceiverConfig
from neve.reservoir.config import ReservoirConfig
from neve.rollup.config import RollupConfig
from neve.search.config import SearchConfig
from neve.tail.config import TailConfig
from neve.work.policy import Policy  # noqa: TC001 - pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "NEVE_"
NESTED = "__"
CONFIG_FILE = "neve.yaml"
# Variables that are about the process, not keys of the tree.
NOT_KEYS = ("NEVE_CONFIG", "NEVE_CACHE")


class Settings(Section):
    """Everything that a user can set."""

    organization: str = Field(
        "default", pattern=PATTERN, description="organization that commands work for without --org"
    )
    lake: LakeConfig = Field(LakeConfig(), description="where the tables live")
    catalog: CatalogConfig = Field(CatalogConfig(), description="which catalog knows the tables")
    s3: S3Config = Field(S3Config(), description="how to reach object storage")
    spark: SparkConfig = Field(SparkConfig(), description="where Spark runs")
    state: StateConfig = Field(StateConfig(), description="where Neve keeps what is not telemetry")
    raw: RawConfig = Field(RawConfig(), description="where received bytes are kept until they are in the tables")
    receiver: ReceiverConfig = Field(ReceiverConfig(), description="how telemetry is received")
    ingest: IngestConfig = Field(IngestConfig(), description="how records are taken in")
    kafka: KafkaConfig = Field(KafkaConfig(), description="how to read telemetry from Kafka")
    watch: WatchConfig = Field(WatchConfig(), description="which announced files are taken in")
    query: QueryConfig = Field(QueryConfig(), description="how interactive queries run")
    compact: CompactConfig = Field(CompactConfig(), description="when and how files are rewritten")
    prices: PricesConfig = Field(PricesConfig(), description="what things cost, for what rewrites cost and save")
    rollup: RollupConfig = Field(RollupConfig(), description="how metrics are rolled up")
    reservoir: ReservoirConfig = Field(ReservoirConfig(), description="how OTAP Parquet is sampled")
    search: SearchConfig = Field(SearchConfig(), description="which texts are indexed for full-text search")
    tail: TailConfig = Field(TailConfig(), description="which traces are kept, and where they go")
    maintain: MaintainConfig = Field(MaintainConfig(), description="how tables are kept small and quick to plan")
    autopilot: AutopilotConfig = Field(AutopilotConfig(), description="how layouts follow the queries that are asked")
    serve: ServeConfig = Field(ServeConfig(), description="what `neve serve` runs")
    bus: BusConfig = Field(BusConfig(), description="how commits are announced to those that tend the lake")
    policies: tuple[Policy, ...] = Field((), description="which work is done on which tables, and when")
    policies_folder: str = Field(
        "", description="folder of YAML files with further policies, in the order of their names"
    )
    telemetry: TelemetryConfig = Field(TelemetryConfig(), description="where Neve's own traces and logs go")


def load_settings(path: str | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the configuration; raises `ConfigError` that names every key that is wrong."""
    file = config_file(path, environment)
    values = _read_file(file, required=bool(path or environment.get("NEVE_CONFIG")))
    overrides = _read_environment(environment)
    for keys, value, variable in overrides:
        _put(values, keys, value, variable)
    origins = {keys: variable for keys, _value, variable in overrides}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(complain(Settings, error, str(file), origins))) from None


def config_file(path: str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """The file that the configuration is read from: the one that was named, else `neve.yaml` where that exists."""
    return Path(path or environment.get("NEVE_CONFIG") or CONFIG_FILE)


def _read_file(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.exists():
        if required:
            raise ConfigError(f"the configuration file {path} does not exist")
        return {}
    try:
        values = yaml.safe_load(path.read_text())
    except yaml.MarkedYAMLError as error:
        # The error's own words quote the line, which may hold a secret.
        mark = error.context_mark or error.problem_mark
        raise ConfigError(f"{path} is not YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML in UTF-8: {type(error).__name__}") from None
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, expected keys and values")
    return _without_nulls(values)


def _without_nulls(values: dict[str, Any]) -> dict[str, Any]:
    """A key without a value is a key that was not set: a section whose lines are all commented out, say."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }


def _read_environment(environment: Mapping[str, str]) -> list[tuple[tuple[str, ...], Any, str]]:
    found = []
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in NOT_KEYS:
            keys = tuple(variable.removeprefix(PREFIX).lower().split(NESTED))
            found.append((keys, _value(text, variable), variable))
    return found


def _value(text: str, variable: str) -> Any:
    """Text as it is; a list or a map where it looks like one."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{variable} looks like a list or a map, but is not valid YAML or JSON") from None


def _put(values: dict[str, Any], keys: tuple[str, ...], value: Any, variable: str) -> None:
    *above, last = keys
    for key in above:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{variable} sets a key below {key}, but {key} has a plain value in the file")
    values[last] = value
