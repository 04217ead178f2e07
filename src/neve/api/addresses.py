"""Where a service is reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Addresses:
    """Where the doors are; none for one that is shut. `health` is where /healthz, /readyz, /livez and /metrics are."""

    http: str | None = None
    grpc: str | None = None
    query: str | None = None
    health: str | None = None
