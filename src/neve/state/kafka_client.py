"""Kafka client of the bus: the optional package, settings, errors, and creation of topics."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from neve.errors import EnvironmentFault, LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka.admin import AdminClient

    from neve.state.config import BusConfig


ANSWER_SECONDS = 20.0  # timeout of a broker's response
POLL_SECONDS = 0.2  # timeout of one poll of the client


def require_kafka() -> None:
    """Raise `EnvironmentFault` if the package is not installed."""
    try:
        import confluent_kafka  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise EnvironmentFault(
            "the bus on Kafka needs the package confluent-kafka, which is not installed",
            hint="pip install 'neve[kafka]', or set bus.kind to none",
        ) from None


def client_settings(config: BusConfig, **own: Any) -> dict[str, Any]:
    """Return the settings of a client: brokers, the settings of its purpose, and the user's options."""
    return {"bootstrap.servers": config.bootstrap_servers, **own, **config.options}


@contextmanager
def wrap_kafka_errors(what: str, config: BusConfig) -> Iterator[None]:
    """Raise Kafka errors as `LakeError` with the failed operation and the brokers."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        yield
    except KafkaException as error:
        raise make_kafka_error(what, config, str(error.args[0])) from error


def make_kafka_error(what: str, config: BusConfig, reason: str) -> LakeError:
    """Return the error for an operation that the brokers or the client did not complete."""
    return LakeError(
        f"the bus (kafka {config.bootstrap_servers}) can't {what}: {reason}",
        hint="check bus.bootstrap_servers and bus.options",
    )


class KafkaTopics:
    """Topics of one cluster. Threads may share it."""

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self._known: set[str] = set()
        self._making = threading.Lock()

    def need(self, names: Iterable[str]) -> None:
        """Create missing topics. Concurrent creation is safe."""
        with self._making:
            unknown = set(names) - self._known
            if not unknown:
                return
            with wrap_kafka_errors(f"create the topics {', '.join(sorted(unknown))}", self._config):
                self._make(unknown)
            self._known |= unknown

    def forget(self, name: str) -> None:
        """Check again before the next use, because the topic may have been deleted."""
        self._known.discard(name)

    def _make(self, names: set[str]) -> None:
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        admin = AdminClient(client_settings(self._config))
        # Look up first: where topics are managed by others, this client may not be allowed to create them.
        missing = names - set(admin.list_topics(timeout=ANSWER_SECONDS).topics)
        for future in self._create(admin, missing):
            try:
                future.result(ANSWER_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _create(self, admin: AdminClient, names: set[str]) -> Iterable[Any]:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

        if not names:
            return ()
        keep = {"retention.ms": str(int(self._config.keep_seconds * 1000)), "cleanup.policy": "delete"}
        topics = [NewTopic(name, num_partitions=self._config.partitions, config=keep) for name in sorted(names)]
        return admin.create_topics(topics, request_timeout=ANSWER_SECONDS).values()
