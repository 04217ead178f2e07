"""Whatever is sent, the process lives, each answer is one that the standard knows, and everything is counted."""

import gzip
import http.client
import random
import socket
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import grpc  # type: ignore[import-untyped]
import pytest
import zstandard

from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.api.running import HOST, Running, until
from tests.telemetry import logs, metrics, traces

REQUESTS = 300
HTTP_STATUSES = {"200", "400", "413", "415"}
GRPC_CODES = {"OK", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
SAMPLES = {"traces": traces(3), "logs": logs(3), "metrics": metrics(3)}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "deflate": zlib.compress,
    "identity": bytes,
}
SERVICES = {"traces": "trace.v1.Trace", "logs": "logs.v1.Logs", "metrics": "metrics.v1.Metrics"}


def mutated(seeded: random.Random, body: bytes) -> bytes:
    """A body that was changed, cut, doubled or stuffed in one place or a few."""
    changed = bytearray(body)
    for _ in range(seeded.randint(1, 4)):
        at = seeded.randrange(len(changed) + 1)
        match seeded.randrange(5):
            case 0 if changed:
                changed[at % len(changed)] = seeded.randrange(256)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = seeded.randbytes(seeded.randint(1, 8))
            case 3:
                changed[at:at] = changed[: seeded.randint(0, 100)]
            case 4:
                del changed[at : at + seeded.randint(1, 20)]
    return bytes(changed)


def a_request(seeded: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """A signal, a body that may be spoilt before or after it was packed, and headers."""
    signal = seeded.choice(list(SAMPLES))
    as_json, packing = seeded.random() < 0.2, seeded.choice(list(PACKERS))
    body = SAMPLES[signal]
    if as_json:
        body = to_json(Signal(signal), body).encode()
    if seeded.random() < 0.6:
        body = mutated(seeded, body)
    body = PACKERS[packing](body)
    if seeded.random() < 0.4:
        body = mutated(seeded, body)
    kind = "application/json" if as_json else "application/x-protobuf"
    return signal, body, {"content-type": kind, "content-encoding": packing}


@pytest.mark.long
def test_fuzzed_bodies_are_answered_and_counted(open_receiver: Running) -> None:
    """Over both protocols, always the same ones."""
    seeded = random.Random(2026)
    before = open_receiver.counted("neve_receiver_requests_total")
    refused = open_receiver.counted("neve_receiver_refusals_total")
    answers: Counter[str] = Counter()
    connection = http.client.HTTPConnection(HOST, open_receiver.http_port, timeout=600)
    with open_receiver.channel() as channel:
        for _ in range(REQUESTS):
            signal, body, headers = a_request(seeded)
            if seeded.random() < 0.3:
                answers[_over_grpc(channel, signal, body)] += 1
            else:
                connection.request("POST", f"/v1/{signal}", body, headers)
                response = connection.getresponse()
                response.read()
                answers[str(response.status)] += 1
    connection.close()
    assert {"200", "400", "OK", "INVALID_ARGUMENT"} <= set(answers) <= HTTP_STATUSES | GRPC_CODES
    assert open_receiver.counted("neve_receiver_requests_total") - before == answers.total()
    bad = answers.total() - answers["200"] - answers["OK"]
    assert open_receiver.counted("neve_receiver_refusals_total") - refused == bad
    assert open_receiver.counted("neve_receiver_inflight_bytes") == 0
    assert open_receiver.get("/readyz").status == 200


def _over_grpc(channel: grpc.Channel, signal: str, body: bytes) -> str:
    method = f"/opentelemetry.proto.collector.{SERVICES[signal]}Service/Export"
    try:
        channel.unary_unary(method)(body, timeout=600)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"


@pytest.mark.slow
def test_garbage_on_the_wire_harms_nobody(open_receiver: Running) -> None:
    """Bytes that are no HTTP/1.1 and no HTTP/2, or nearly."""
    seeded = random.Random(7)
    body = SAMPLES["traces"]
    http_1 = (
        b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\n"
        b"content-type: application/x-protobuf\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    http_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9) + b"\x00\x00\x08\x04\x00\x00\x00\x00\x00" + bytes(8)
    for _ in range(300):
        port, start = seeded.choice([(open_receiver.http_port, http_1 + body), (open_receiver.grpc_port, http_2)])
        with suppress(OSError), socket.create_connection((HOST, port), 600) as connection:
            connection.sendall(mutated(seeded, start))
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(0.01)
            connection.recv(1000)
    assert open_receiver.post("/v1/traces", body).status == 200
    with open_receiver.channel() as channel:
        assert _over_grpc(channel, "traces", body) == "OK"
    until(lambda: open_receiver.counted("neve_receiver_inflight_bytes") == 0)
