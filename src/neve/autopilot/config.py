"""What users set about the autopilot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from neve.autopilot.propose_config import ProposeConfig
from neve.autopilot.recommend_config import RecommendConfig
from neve.autopilot.sources.config import LogsConfig
from neve.autopilot.stage_config import StageConfig
from neve.errors import ConfigError
from neve.model.section import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = {
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
    """Which tables are looked after, from which logs, and how a new layout is tried, proposed and merged."""

    tables: tuple[str, ...] = Field(
        ("*",),
        description="tables that are looked after, as namespace.name, with * and ?; Neve's own tables that are not of "
        "telemetry only where they are named in full",
    )
    queries: tuple[str, ...] = Field(
        (), description="queries of your own, in Spark's SQL, that a canary asks beside those of the logs"
    )
    canary_queries: int = Field(20, ge=1, le=1000, description="queries of the logs that a canary asks, at most")
    time_limit_seconds: float = Field(7200, gt=0, description="how long a nightly run may take; the next one goes on")
    lease_seconds: float = Field(120, gt=0, description="how long a nightly run that was killed keeps the next one off")
    history_days: float = Field(
        90, ge=30, description="days that reports of attempts are kept after these are over; their outcomes stay"
    )
    start_hour: int = Field(2, ge=0, le=23, description="hour of the day, UTC, at which the nightly run begins")
    metrics_address: str = Field("127.0.0.1", min_length=1, description="address that metrics are served on in a run")
    metrics_port: int = Field(9090, ge=0, le=65_535, description="its port; 0: no metrics are served")
    logs: LogsConfig = Field(LogsConfig(), description="query logs that are analysed")
    recommend: RecommendConfig = Field(RecommendConfig(), description="when a layout is recommended")
    stage: StageConfig = Field(StageConfig(), description="where a layout is tried, and how it is published")
    propose: ProposeConfig = Field(ProposeConfig(), description="how changes are proposed and approved")


def with_environment(config: AutopilotConfig, environment: Mapping[str, str]) -> AutopilotConfig:
    """The configuration, with the service's old variables for what it does not set."""
    given = {
        variable: path
        for variable, path in VARIABLES.items()
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
        raise ConfigError("; ".join(_complaint(one, given) for one in error.errors())) from None


def _is_set(config: AutopilotConfig, path: tuple[str, ...]) -> bool:
    section: Any = config
    for name in path:
        if name not in section.model_fields_set:
            return False
        section = getattr(section, name)
    return True


def _complaint(error: Any, given: Mapping[str, tuple[str, ...]]) -> str:
    keys = tuple(map(str, error["loc"]))
    name = next((variable for variable, path in given.items() if path == keys), f"autopilot.{'.'.join(keys)}")
    return f"{name} is wrong: {str(error['msg'])[:1].lower()}{str(error['msg'])[1:]}"
