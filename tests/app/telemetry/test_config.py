"""What users set about telemetry, where it goes, and that nothing is there while it is off."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from neve.app.telemetry.config import TelemetryConfig, find_receiver_address, resolve_endpoint
from neve.app.telemetry.tracing import start_telemetry
from neve.errors import ConfigError
from neve.receive.config import ReceiverConfig

OFF = """
import sys
import neve.api.server, neve.api.log_config, neve.app.telemetry.tracing
from neve.app.telemetry.config import TelemetryConfig
from neve.app.telemetry.tracing import span, start_telemetry
neve.api.log_config.configure_logs()
end = start_telemetry(TelemetryConfig(), "tend", "http://127.0.0.1:1")
with span("job", table="logs") as job:
    job.set(files=1)
end()
parts = ("opentelemetry.sdk", "opentelemetry.trace", "opentelemetry.exporter")
print([name for name in sys.modules if name.startswith(parts)])
"""


@pytest.mark.long
def test_off_nothing_is_imported() -> None:
    """Of the SDK, by a process that has all of the server in it."""
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "endpoint", ["other", "ftp://host", "http://", "http://host:99999", "http://u:p@host", "http://host?token=1"]
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    """At the start, not when the first span is lost."""
    with pytest.raises(ValidationError, match="should"):
        TelemetryConfig(endpoint=endpoint)


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"a": "x\ny"}, {"a": "ä"}])
def test_headers_that_are_none_are_refused(headers: dict[str, str]) -> None:
    """Without saying their values."""
    with pytest.raises(ValidationError, match="should have"):
        TelemetryConfig.model_validate({"headers": headers})


def test_secrets_are_not_shown() -> None:
    """Not those of the configuration, not those of the place."""
    config = TelemetryConfig.model_validate(
        {"endpoint": "self", "key": "hunter2", "headers": {"authorization": "hunter2"}}
    )
    assert "hunter2" not in repr(config)
    place = resolve_endpoint(config, "http://127.0.0.1:4318")
    assert place.headers == {"authorization": "hunter2", "x-api-key": "hunter2"}
    assert "hunter2" not in repr(place)


def test_self_is_the_receiver_of_the_group() -> None:
    """Its address is told, or is that of the settings; where nobody knows it, that is said at the start."""
    assert (
        resolve_endpoint(TelemetryConfig(endpoint="self"), "http://[::1]:4318").url("logs")
        == "http://[::1]:4318/v1/logs"
    )
    assert find_receiver_address(ReceiverConfig(host="::1", http_port=7)) == "http://[::1]:7"
    assert find_receiver_address(ReceiverConfig(http=False)) is None
    with pytest.raises(ConfigError, match=r"telemetry.endpoint is 'self'"):
        start_telemetry(TelemetryConfig(endpoint="self"), "tend", None)
