"""What users set about Neve's own traces and logs."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from neve.lake.config import as_text
from neve.model.network import http_address
from neve.model.section import Section

SELF = "self"
HEADER = re.compile(r"^[A-Za-z0-9_.-]+$")


class TelemetryConfig(Section):
    """Where Neve's own traces and logs go, and how many of them."""

    endpoint: str = Field(
        "",
        description="where Neve sends its own traces and logs: empty for nowhere, self for its own receiver, or the "
        "http:// or https:// address that /v1/traces and /v1/logs are below",
    )
    headers: dict[str, SecretStr] = Field({}, description="further headers of what is sent; values are secrets")
    key: SecretStr = Field(
        SecretStr(""),
        description="API key that is sent along, where the receiver asks for one; its organization gets the telemetry",
    )
    sample_ratio: float = Field(
        1.0, ge=0, le=1, description="share of traces that are sent; a caller's own decision is followed"
    )
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="least level of log lines that are sent, of those that are logged at all"
    )
    interval_seconds: float = Field(
        5.0, gt=0, le=3600, description="how often what has gathered is sent; with self, that is a small commit each"
    )
    max_queue: int = Field(
        8192, ge=1, le=1_000_000, description="most spans, and most log lines, that wait; what comes then is dropped"
    )
    drain_seconds: float = Field(
        5.0, ge=0, le=600, description="how long the end of a process waits for what has not been sent"
    )

    _plain_headers = field_validator("headers", mode="before")(as_text)

    @field_validator("endpoint")
    @classmethod
    def _is_place(cls, value: str) -> str:
        expected = "should be empty, self, http://host:port or https://host:port, with a path where needed"
        return value if value in ("", SELF) else http_address(value, expected)

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, secret in value.items():
            if not HEADER.match(name):
                raise ValueError(f"should have names of letters, digits, '-', '_' and '.', got {name!r}")
            text = secret.get_secret_value()
            if not (text.isprintable() and text.isascii()):
                raise ValueError(f"should have values of printable ASCII; that of {name} is not")
        return value
