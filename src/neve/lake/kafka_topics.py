"""Topics of the bus on Kafka: what they are called there, and made when they are first used."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from neve.lake.kafka_client import ANSWER_SECONDS, client_settings, explained

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import AdminClient

    from neve.lake.bus_config import BusConfig


class KafkaTopics:
    """The topics of one cluster; threads may share it."""

    def __init__(self, config: BusConfig) -> None:
        self._config = config
        self._known: set[str] = set()
        self._making = threading.Lock()

    def need(self, names: Iterable[str]) -> None:
        """Make topics that are not there; others that do the same do no harm."""
        with self._making:
            unknown = set(names) - self._known
            if not unknown:
                return
            with explained(f"make the topics {', '.join(sorted(unknown))}", self._config):
                self._make(unknown)
            self._known |= unknown

    def forget(self, name: str) -> None:
        """Look again before the next use: someone may have deleted it."""
        self._known.discard(name)

    def _make(self, names: set[str]) -> None:
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        admin = AdminClient(client_settings(self._config))
        # Looked up first: where topics are made by others, this client may not be allowed to.
        missing = names - set(admin.list_topics(timeout=ANSWER_SECONDS).topics)
        for future in self._created(admin, missing):
            try:
                future.result(ANSWER_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _created(self, admin: AdminClient, names: set[str]) -> Iterable[Any]:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

        if not names:
            return ()
        keep = {"retention.ms": str(int(self._config.keep_seconds * 1000)), "cleanup.policy": "delete"}
        topics = [NewTopic(name, num_partitions=self._config.partitions, config=keep) for name in sorted(names)]
        return admin.create_topics(topics, request_timeout=ANSWER_SECONDS).values()
