"""A process that is killed at any moment has lost nothing that it acknowledged."""

import http.client
import signal
import threading
import time
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from neve.lake.config import S3Config
from neve.raw.frame import decode
from neve.raw.zone import OTLP, RawZone
from tests.api.running import HOST, PROTOBUF, Running, receiver_process, until
from tests.telemetry import traces

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SENDERS = 3


def stored(folder: Path) -> list[bytes]:
    """What is in the zone after it was recovered."""
    zone = RawZone.of(str(folder / "raw"), S3Config(), OTLP)
    zone.recover()
    contents = [decode(zone.read(segment.path)) for segment in zone.segments()]
    assert [damage for content in contents for damage in content.damaged] == []
    return [frame.payload for content in contents for frame in content.frames]


class Senders:
    """Clients that send until nobody answers, and remember what was acknowledged."""

    def __init__(self, receiver: Running, name: str) -> None:
        self.acknowledged: list[bytes] = []
        self._receiver = receiver
        work = [(self._over_http, f"{name}-h{n}") for n in range(SENDERS)] + [(self._over_grpc, f"{name}-g")]
        self._threads = [threading.Thread(target=run, args=(sender,)) for run, sender in work]
        for thread in self._threads:
            thread.start()

    def have_many(self) -> bool:
        """Whether enough was acknowledged for a kill to hit something."""
        return len(self.acknowledged) > 20

    def join(self) -> None:
        """Wait for all."""
        for thread in self._threads:
            thread.join()

    def _over_http(self, name: str) -> None:
        connection = http.client.HTTPConnection(HOST, self._receiver.http_port, timeout=600)
        try:
            for number in range(100_000):
                body = traces(20, service=f"{name}-{number}")
                connection.request("POST", "/v1/traces", body, PROTOBUF)
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    self.acknowledged.append(body)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    def _over_grpc(self, name: str) -> None:
        with self._receiver.channel() as channel:
            call = channel.unary_unary(EXPORT)
            try:
                for number in range(100_000):
                    body = traces(20, service=f"{name}-{number}")
                    call(body, timeout=600)
                    self.acknowledged.append(body)
            except grpc.RpcError:
                pass


@pytest.mark.long
@pytest.mark.parts
def test_kill_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Three times, under load, over both protocols; small segments are sealed while it runs."""
    acknowledged: list[bytes] = []
    for round_number in range(3):
        with receiver_process(tmp_path, raw={"segment_bytes": 65_536}) as (process, receiver):
            senders = Senders(receiver, f"round{round_number}")
            until(senders.have_many)
            time.sleep(0.37 * round_number)
            process.send_signal(signal.SIGKILL)
            senders.join()
        assert len(senders.acknowledged) > 20
        acknowledged += senders.acknowledged
    kept = stored(tmp_path)
    assert set(acknowledged) <= set(kept)
    # What was kept and not acknowledged was in flight: one request a sender and round, at most.
    assert len(kept) - len(acknowledged) <= 3 * (SENDERS + 1)


@pytest.mark.parts
def test_a_receiver_that_is_told_to_stop_finishes_and_seals(tmp_path: Path) -> None:
    """Every request is answered or refused, nothing is left open, and it ends well."""
    with receiver_process(tmp_path) as (process, receiver):
        senders = Senders(receiver, "last")
        until(lambda: len(senders.acknowledged) > 20)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0
        senders.join()
    assert list((tmp_path / "raw").glob("**/*.open")) == []
    assert len(senders.acknowledged) > 20
    assert set(senders.acknowledged) == set(stored(tmp_path))
    assert '"event": "stopped"' in (tmp_path / "log").read_text()
