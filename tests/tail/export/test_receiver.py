"""Neve's own receiver takes what Neve exports, over both protocols."""

from pathlib import Path

import pytest

from neve.raw.frame import Packing
from neve.receive.budget import Budget
from neve.receive.receiver import unpack
from neve.tail.export.otlp import OtlpGrpcDestination, OtlpHttpDestination
from tests.api.running import HOST, Running, receiver_process
from tests.tail.export.batches import decoded, kept_traces, rows
from tests.tail.export.configs import network


def received(receiver: Running) -> list[bytes]:
    """The messages that are durable."""
    return [unpack(frame.payload, frame.packing, 2**26, Budget(2**30).hold()) for frame in receiver.frames()]


@pytest.mark.slow
def test_the_receiver_has_what_was_delivered(tmp_path: Path) -> None:
    """And divides with the sender where a message is larger than it takes."""
    batch = kept_traces(200, 4)
    with receiver_process(tmp_path, max_message_bytes=40_000) as (_process, receiver):
        for there in (
            OtlpHttpDestination(network("otlp_http", f"http://{HOST}:{receiver.http_port}", compression="zstd")),
            OtlpGrpcDestination(network("otlp_grpc", f"http://{HOST}:{receiver.grpc_port}")),
        ):
            before = len(received(receiver))
            assert there.deliver(batch, "b").accepted == 800
            there.close()
            messages = received(receiver)[before:]
            assert len(messages) > 1
            assert rows(decoded(*messages)) == rows(batch)
        assert {frame.packing for frame in receiver.frames()} == {Packing.ZSTD, Packing.GZIP}
