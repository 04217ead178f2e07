"""Turns a process's own telemetry on, and off at its end; nothing is imported for it while it is off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.telemetry.config import TelemetryConfig

Process = Literal["receiver", "api", "tend", "group"]


def setup(config: TelemetryConfig, process: Process, receiver_address: str | None = None) -> Callable[[], None]:
    """Send spans and log lines of this process from now on; what is returned sends the last of them, and ends it.

    The address is that of the group's own receiver, for `telemetry.endpoint: self`. The end takes no longer than
    `telemetry.drain_seconds`. Logs must have been configured before.
    """
    if not config.endpoint:
        return _nothing
    from neve.app.telemetry.sending import Sending  # noqa: PLC0415 - OpenTelemetry's SDK, for those who asked for it

    return Sending(config, process, receiver_address).close


def _nothing() -> None:
    """Nothing was turned on."""
