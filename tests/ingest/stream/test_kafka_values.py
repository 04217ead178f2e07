"""Messages of a topic are held against their bounds before they are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from neve.ingest.config import TopicConfig
from neve.ingest.stream.kafka import _open_values
from neve.model.signals import Signal
from neve.otlp.bounds import Bounds
from neve.otlp.json import to_json
from tests.telemetry import logs

TOPIC = TopicConfig(topic="otlp_logs", signal=Signal.LOGS)
MANY = b'{"resourceLogs":[' + b"{}," * 50 + b"{}]}"


def test_json_with_too_many_groups_is_refused_unread() -> None:
    """With its offset and bytes; the documents beside it are read, together or one by one."""
    good = to_json(Signal.LOGS, logs(2)).encode()
    for others in ([good, good], [good, b"{"]):
        values = pa.array([others[0], MANY, others[1], logs(3)], pa.binary())
        opened = _open_values(TOPIC, values, np.array([10, 11, 12, 13]), Bounds(groups=50))
        [bad] = [found for found in opened.rejected if found.reason == "overgrown_message"]
        assert (bad.message, bad.payload, bad.encoding) == (11, MANY, "otlp_json")
        assert bad.detail.endswith("(ingest.max_groups)")
        assert {10, 13} <= set(opened.offsets.tolist()) <= {10, 12, 13}
        assert len(opened.messages) == len(opened.offsets)


def test_a_topic_of_nothing_but_overgrown_messages_gives_none() -> None:
    """And each is told."""
    opened = _open_values(TOPIC, pa.array([MANY, MANY], pa.binary()), np.array([1, 2]), Bounds(groups=50))
    assert (len(opened.messages), [bad.message for bad in opened.rejected]) == (0, [1, 2])
