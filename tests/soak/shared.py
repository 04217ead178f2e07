"""What two services share beside the lake: their state in PostgreSQL and a bus on Kafka, where these can be had."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tests.parts import kafka, postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def shared_state(tell: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """Settings of both; what is missing here is told, and leaves the file that they share anyway."""
    settings: dict[str, Any] = {}
    absent = {part: part.missing() for part in (postgres, kafka)}
    for reason in filter(None, absent.values()):
        tell(f"MISSING: {reason}")
    with ExitStack() as parts:
        if absent[postgres] is None:
            server = parts.enter_context(postgres.postgres())
            address = f"postgresql://{server.host}:{server.port}/{server.database}"
            settings["state"] = {"url": address, "user": server.user}
        if absent[kafka] is None:
            broker = parts.enter_context(kafka.kafka())
            settings["bus"] = {"kind": "kafka", "bootstrap_servers": broker.bootstrap}
        yield settings
