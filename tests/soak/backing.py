"""What services keep their state in, and what they announce commits on: without it, a good run proves less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Backing:
    """A state store and a bus; those that need no server where it is not said otherwise."""

    postgres: bool = False
    kafka: bool = False

    @classmethod
    def of(cls, shared: Mapping[str, Any]) -> Backing:
        """What settings that services share say of it."""
        return cls(
            postgres=str(shared.get("state", {}).get("url", "")).startswith("postgresql:"),
            kafka=shared.get("bus", {}).get("kind") == "kafka",
        )

    def __str__(self) -> str:
        state, bus = "PostgreSQL" if self.postgres else "SQLite", "on Kafka" if self.kafka else "in the state store"
        return f"state in {state}, bus {bus}"
