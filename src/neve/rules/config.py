"""Settings of rules: files by organization, intervals, late data, and the destinations of alerts."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr, field_validator

from neve.errors import ConfigError
from neve.model.settings import Section, check_http_address, check_organization

__all__ = ["DestinationKind", "NotifierConfig", "RulesConfig"]


class DestinationKind(StrEnum):
    """Protocol of a destination."""

    ALERTMANAGER = "alertmanager"  # POST /api/v2/alerts below the address
    WEBHOOK = "webhook"  # POST of Alertmanager's body for webhooks, version 4


class NotifierConfig(Section):
    """Destination of alerts."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="name of the destination")
    kind: DestinationKind = Field(DestinationKind.ALERTMANAGER, description="alertmanager or webhook")
    url: str = Field(description="address: of an Alertmanager without /api/v2/alerts, of a webhook in full")
    headers: dict[str, SecretStr] = Field({}, description="headers of each request, for example authorization")
    ca_file: str = Field("", description="PEM file with trusted certificates; empty: those of the system")
    client_certificate: str = Field("", description="PEM file of the certificate to present; empty: none")
    client_key: str = Field("", description="PEM file of the private key of `client_certificate`")
    timeout_seconds: float = Field(10, gt=0, le=300, description="seconds to wait for a response")
    organizations: tuple[str, ...] = Field((), description="organizations whose alerts are sent; empty: all")
    send_resolved: bool = Field(True, description="whether resolved alerts are sent")
    repeat_seconds: float = Field(
        4 * 3600, ge=60, description="webhook: seconds after which an alert that still fires is sent again"
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        return check_http_address(value, "should be an address such as http://alertmanager:9093")

    @property
    def plain_headers(self) -> dict[str, str]:
        """Headers with their secret values, for sending."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}


class RulesConfig(Section):
    """Rule files, their evaluation, and the destinations of alerts."""

    files: dict[str, tuple[str, ...]] = Field(
        {}, description="rule files by organization; a name may be a pattern such as rules/*.yml"
    )
    interval_seconds: float = Field(
        60, ge=1, le=86_400, description="seconds between evaluations of a group without one"
    )
    delay_seconds: float = Field(
        0, ge=0, le=3600, description="seconds that evaluations stay behind the time up to which data is committed"
    )
    late_seconds: float = Field(
        3600, ge=0, le=7 * 86_400, description="seconds during which late data corrects recorded values; 0: never"
    )
    catch_up_seconds: float = Field(
        20,
        ge=0,
        le=3600,
        description="most seconds to make up for missed evaluations of a shorter interval; others are skipped",
    )
    correct_seconds: float = Field(60, ge=1, le=3600, description="least seconds between two corrections")
    resend_seconds: float = Field(60, ge=1, description="seconds after which an active alert is sent again")
    max_series: int = Field(
        10_000, ge=1, le=1_000_000, description="most series or alerts of a rule, if its group has no lower limit"
    )
    max_lag_seconds: float = Field(
        300, ge=10, description="seconds of delay after which the alert about failing rules is raised"
    )
    timeout_seconds: float = Field(60, gt=0, le=3600, description="most seconds for the evaluation of a group")
    concurrency: int = Field(2, ge=1, le=64, description="groups that are evaluated at the same time")
    lease_seconds: float = Field(30, gt=0, description="seconds until the lease of a dead instance expires")
    external_labels: dict[str, str] = Field({}, description="labels that alerts get when they are sent")
    external_url: str = Field("", description="address of this service in links of alerts")
    destinations: tuple[NotifierConfig, ...] = Field(
        (), description="destinations of alerts; each has its own position"
    )

    @field_validator("files", mode="before")
    @classmethod
    def _list_files(cls, value: object) -> object:
        if not isinstance(value, dict):
            raise ValueError("should be a map from organizations to lists of files: {acme: [rules/*.yml]}")
        return {name: (files,) if isinstance(files, str) else files for name, files in value.items()}

    @field_validator("files")
    @classmethod
    def _check_files(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name in value:
            try:
                check_organization(name)
            except ConfigError as error:
                raise ValueError(f"should have names of organizations as keys: {error.message}") from error
        return value

    @field_validator("destinations")
    @classmethod
    def _distinct_names(cls, value: tuple[NotifierConfig, ...]) -> tuple[NotifierConfig, ...]:
        names = [one.name for one in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"should have distinct names, got {', '.join(twice)} more than once")
        return value
