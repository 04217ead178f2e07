"""Kafka: one node, broker and controller in one."""

import base64
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.parts import cache, java
from tests.parts.command import run
from tests.parts.probe import reply
from tests.parts.process import HOST, Part, free_ports, running, scratch

NAME = "kafka"
VERSION = "4.3.1"
HEAP_MEGABYTES = 256
CLUSTER = base64.urlsafe_b64encode(b"neve test broker").decode().rstrip("=")
REQUEST_BYTES = 10
API_VERSIONS = 18
CORRELATION = 1
ANONYMOUS = -1
NO_ERROR = 0


@dataclass(frozen=True)
class Kafka:
    """A running broker that makes a topic when it is first used."""

    port: int
    host: str = HOST

    @property
    def bootstrap(self) -> str:
        """The address as Kafka clients read it."""
        return f"{self.host}:{self.port}"


def missing() -> str | None:
    """Say why Kafka can't run here, or None when it can."""
    if reason := java.missing():
        return f"Kafka: {reason}"
    return None if jars().is_dir() else "Kafka: no jars in the cache (python -m tests.parts.build kafka)"


@contextmanager
def kafka() -> Iterator[Kafka]:
    """Run an empty broker on its own storage."""
    port, controller_port = free_ports(2)
    with scratch(NAME) as folder:
        settings = folder / "server.properties"
        settings.write_text(_settings(port, controller_port, folder / "log"))
        run(_java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)), folder)
        command = _java("kafka.Kafka", str(settings))
        with running(Part("Kafka", command, partial(_answers, port), folder)):
            yield Kafka(port)


def jars() -> Path:
    """Return the folder of the cache that holds the broker's jars."""
    return cache.place(NAME, VERSION)


def _java(main: str, *arguments: str) -> list[str]:
    """Return the command that runs one of Kafka's programs."""
    return java.command([jars() / "*"], HEAP_MEGABYTES, main, *arguments)


def _settings(port: int, controller_port: int, log: Path) -> str:
    """Return a broker configuration in which every internal topic makes do with one node."""
    return f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}
advertised.listeners=PLAINTEXT://{HOST}:{port}
log.dirs={log}
auto.create.topics.enable=true
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def _answers(port: int) -> bool:
    """Tell whether the broker serves requests: it accepts connections well before that."""
    question = struct.pack("!ihhih", REQUEST_BYTES, API_VERSIONS, 0, CORRELATION, ANONYMOUS)
    return reply(port, question, 10)[4:] == struct.pack("!ih", CORRELATION, NO_ERROR)
