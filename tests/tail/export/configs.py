"""Destinations for tests: quick to give up, on this machine."""

from typing import Any

from neve.tail.config import DestinationConfig


def config(kind: str, **fields: Any) -> DestinationConfig:
    """A destination's section."""
    return DestinationConfig.model_validate({"name": "there", "kind": kind, **fields})


def network(kind: str, endpoint: str, **fields: Any) -> DestinationConfig:
    """A section of one that is asked again for a while."""
    return config(kind, endpoint=endpoint, **{"retry_seconds": 20, "timeout_seconds": 600, **fields})
