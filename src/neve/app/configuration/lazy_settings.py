"""Settings whose sections are imported at their first use, for commands that need few of them.

The sections that the user set are validated at once, so that every command rejects a wrong key. Sections without a
value have their defaults, which need no validation before somebody reads them.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from neve.app.configuration.given_values import read_values
from neve.errors import ConfigError
from neve.model.settings import check_organization

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from neve.app.configuration.given_values import GivenValues
    from neve.app.settings import Settings

# The sections of `Settings` by name, with the module that defines each.
SECTIONS = {
    "lake": "neve.lake.config:LakeConfig",
    "catalog": "neve.lake.config:CatalogConfig",
    "s3": "neve.lake.config:S3Config",
    "spark": "neve.lake.config:SparkConfig",
    "state": "neve.state.config:StateConfig",
    "tls": "neve.tls.config:TlsConfig",
    "client": "neve.tls.config:ClientTlsConfig",
    "oidc": "neve.identity.config:OidcConfig",
    "raw": "neve.raw.config:RawConfig",
    "receiver": "neve.receive.config:ReceiverConfig",
    "ingest": "neve.ingest.config:IngestConfig",
    "kafka": "neve.ingest.config:KafkaConfig",
    "watch": "neve.ingest.config:WatchConfig",
    "query": "neve.query.config:QueryConfig",
    "compact": "neve.compact.config:CompactConfig",
    "prices": "neve.lake.config:PricesConfig",
    "rollup": "neve.rollup.config:RollupConfig",
    "reservoir": "neve.reservoir.config:ReservoirConfig",
    "search": "neve.search.config:SearchConfig",
    "series": "neve.series.config:SeriesConfig",
    "traces": "neve.traces.config:TracesConfig",
    "tail": "neve.tail.config:TailConfig",
    "rules": "neve.rules.config:RulesConfig",
    "maintain": "neve.maintain.config:MaintainConfig",
    "autopilot": "neve.autopilot.config:AutopilotConfig",
    "serve": "neve.app.serve.config:ServeConfig",
    "bus": "neve.state.config:BusConfig",
    "telemetry": "neve.app.telemetry.config:TelemetryConfig",
}
PLAIN_DEFAULTS = {"organization": "default", "policies": (), "policies_folder": ""}


def load_lazily(path: str | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the configuration; raises the same `ConfigError` as `load_settings`.

    The result has the attributes of `Settings`. One that is no section loads all of them.
    """
    given = read_values(path) if environment is None else read_values(path, environment)
    settings = LazySettings(given)
    return cast("Settings", settings if settings.is_valid() else settings.complete)


class LazySettings:
    """Settings that import a section at its first use."""

    def __init__(self, given: GivenValues) -> None:
        self._given = given
        self._updates: dict[str, Any] = {}
        self.model_fields_set = frozenset(given.values)

    def is_valid(self) -> bool:
        """Validate the sections that are set. False also stands for values that only the whole model can validate."""
        values = self._given.values
        try:
            for name in values.keys() & SECTIONS.keys():
                setattr(self, name, _import_section(name).model_validate(values[name]))
            if "organization" in values:
                self.organization = check_organization(values["organization"])
        except (ValidationError, ConfigError, TypeError):
            return False
        return values.keys() <= SECTIONS.keys() | {"organization"}

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Settings:
        """Return a copy with other sections, as pydantic's models do. The remaining sections stay lazy."""
        if update is None:
            return self.complete.model_copy()
        copied = LazySettings(self._given)
        values = {key: value for key, value in vars(self).items() if key != "complete"}
        updates = {**self._updates, **update}
        vars(copied).update(
            {**values, **update, "_updates": updates, "model_fields_set": self.model_fields_set | update.keys()}
        )
        return cast("Settings", copied)

    @cached_property
    def complete(self) -> Settings:
        """The whole model; raises `ConfigError` that names every wrong key."""
        from neve.app.settings import validate_settings  # noqa: PLC0415 - imports every section

        return validate_settings(self._given).model_copy(update=self._updates)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol of Python, such as copying, and not a setting
            raise AttributeError(name)
        if name in SECTIONS:
            value: Any = _import_section(name)()
        elif name in PLAIN_DEFAULTS:
            value = PLAIN_DEFAULTS[name]
        else:
            return getattr(self.complete, name)
        setattr(self, name, value)
        return value


def _import_section(name: str) -> type[BaseModel]:
    module, _, model = SECTIONS[name].partition(":")
    return cast("type[BaseModel]", getattr(import_module(module), model))
