"""What users set about the bus."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from neve.errors import ConfigError
from neve.lake.config import as_text
from neve.model.section import Section

DAY_SECONDS = 24 * 60 * 60
LEAST_KAFKA_HOLD = 6.0  # seconds: what brokers take unless they are told otherwise
# Without these being as they are, messages would be lost or come in another order.
OWN_OPTIONS = (
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "partition.assignment.strategy",
    "partitioner",
)


class BusConfig(Section):
    """How the parts of Neve tell each other what happened."""

    kind: Literal["sql", "kafka"] = Field("sql", description="sql (in the state store) or kafka")
    bootstrap_servers: str = Field("", description="brokers, as host:port with commas, where bus.kind is kafka")
    prefix: str = Field(
        "neve.", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="what the names of Kafka topics and groups begin with"
    )
    keep_seconds: float = Field(
        DAY_SECONDS,
        gt=0,
        description="how long messages are kept: in the state store those that every group has dealt with or that no "
        "group reads, in Kafka all of a topic that Neve makes",
    )
    hold_seconds: float = Field(30, gt=0, description="after how long another reader takes over from a silent one")
    partitions: int = Field(1, ge=1, description="partitions of a Kafka topic that Neve makes")
    options: dict[str, str] = Field(
        {}, repr=False, description="further settings of librdkafka: security.protocol and the like"
    )

    _plain_options = field_validator("options", mode="before")(as_text)


def check_bus(config: BusConfig) -> None:
    """Raises `ConfigError` for what does not fit together."""
    if config.kind != "kafka":
        return
    if not config.bootstrap_servers.strip():
        raise ConfigError(
            "bus.bootstrap_servers is empty, expected brokers as host:port with commas",
            hint="bus.kind is kafka; sql needs no broker",
        )
    if config.hold_seconds < LEAST_KAFKA_HOLD:
        raise ConfigError(
            f"bus.hold_seconds is {config.hold_seconds:g}, expected {LEAST_KAFKA_HOLD:g} or more",
            hint="bus.kind is kafka, whose brokers refuse shorter times",
        )
    own = sorted(set(config.options) & set(OWN_OPTIONS))
    if own:  # their values may be secret, their names are not
        raise ConfigError(f"bus.options has {', '.join(own)}, expected none that Neve sets itself")
