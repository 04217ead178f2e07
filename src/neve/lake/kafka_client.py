"""What all that talk to Kafka share: the optional package, the settings, and errors in words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault, LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.bus_config import BusConfig

ANSWER_SECONDS = 20.0  # for an answer of the brokers
TURN_SECONDS = 0.2  # for one look at what the client has


def need_kafka() -> None:
    """Raises `EnvironmentFault` where the package is not installed."""
    try:
        import confluent_kafka  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise EnvironmentFault(
            "the bus on Kafka needs the package confluent-kafka, which is not installed",
            hint="pip install 'neve[kafka]', or set bus.kind to sql",
        ) from None


def client_settings(config: BusConfig, **own: Any) -> dict[str, Any]:
    """Settings of a client: where the brokers are, what it is for, and what users add."""
    return {"bootstrap.servers": config.bootstrap_servers, **own, **config.options}


@contextmanager
def explained(what: str, config: BusConfig) -> Iterator[None]:
    """Raises `LakeError` with what failed, and where."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        yield
    except KafkaException as error:
        raise refused(what, config, str(error.args[0])) from error


def refused(what: str, config: BusConfig, words: str) -> LakeError:
    """What the brokers or their client did not do."""
    return LakeError(
        f"the bus (kafka {config.bootstrap_servers}) can't {what}: {words}",
        hint="check bus.bootstrap_servers and bus.options",
    )
