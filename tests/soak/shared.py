"""What two services share beside the lake: their state in PostgreSQL and a bus on Kafka, where these can be had."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tests.parts import kafka, postgres

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def shared_state() -> Iterator[dict[str, Any]]:
    """Settings of both; what is missing here leaves the file that they share anyway."""
    settings: dict[str, Any] = {}
    with ExitStack() as parts:
        if postgres.missing() is None:
            server = parts.enter_context(postgres.postgres())
            address = f"postgresql://{server.host}:{server.port}/{server.database}"
            settings["state"] = {"url": address, "user": server.user}
        if kafka.missing() is None:
            broker = parts.enter_context(kafka.kafka())
            settings["bus"] = {"kind": "kafka", "bootstrap_servers": broker.bootstrap}
        yield settings
