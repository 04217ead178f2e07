"""Quotas over the network: who sends too much is told, on both protocols, and others are not."""

from collections.abc import Callable
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]

from neve.app.serve.receiver import check_size_limits
from neve.errors import ConfigError
from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.store import StateStore
from tests.api.running import PROTOBUF, Running, settings_for
from tests.api.test_grpc import EXPORT, status_of
from tests.telemetry import traces


def keys_of(folder: Path, *organizations: str) -> list[dict[str, str]]:
    """Headers with a new key for each organization."""
    keys = Keys(StateStore(StateConfig(path=str(folder / "state.db"))))
    return [PROTOBUF | {"x-api-key": keys.create(organization)[1]} for organization in organizations]


def refused_call(receiver: Running, headers: dict[str, str]) -> grpc.RpcError:
    """What a caller over gRPC is told."""
    metadata = [("x-api-key", headers["x-api-key"])]
    with receiver.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(traces(), metadata=metadata, timeout=600)
    return caught.value


def test_who_is_over_its_quota_comes_back_later(start: Callable[..., Running], tmp_path: Path) -> None:
    """429 with the time and the reason, RESOURCE_EXHAUSTED with RetryInfo; the other organization is served."""
    hostile, honest = keys_of(tmp_path, "hostile", "honest")
    limits = [{"organization": "hostile", "records_per_second": 1, "burst_seconds": 1}]
    receiver = start(auth="keys", limits=limits)
    assert receiver.post("/v1/traces", traces(3000), hostile).status == 200
    reply = receiver.post("/v1/traces", traces(), hostile | {"content-type": "application/json"})
    assert reply.status == 429
    assert int(reply.headers["retry-after"]) > 2000
    assert reply.json["message"].startswith("the organization hostile sends more than 1 records a second")
    error = refused_call(receiver, hostile)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    [detail] = status_of(error).details
    info = RetryInfo()
    assert detail.Unpack(info)
    assert info.retry_delay.seconds > 2000
    assert receiver.post("/v1/traces", traces(3000), honest).status == 200
    assert receiver.counted("neve_receiver_refusals_total", reason="over_quota_records") == 2


def test_one_organization_does_not_fill_the_backlog(start: Callable[..., Running], tmp_path: Path) -> None:
    """It is refused at its share, and ready is still ready; the others go on."""
    hostile, honest = keys_of(tmp_path, "hostile", "honest")
    receiver = start(raw={"max_backlog_bytes": 1024 * 1024, "segment_seconds": 3600}, auth="keys", backlog_share=0.25)
    body = traces(2000)
    sent = [receiver.post("/v1/traces", body, hostile).status for _ in range(5)]
    share = 256 * 1024 // len(body) + 1
    assert sent == [200] * share + [429] * (5 - share)
    assert receiver.post("/v1/traces", body, honest).status == 200
    assert receiver.get("/readyz").status == 200
    assert receiver.counted("neve_receiver_refusals_total", reason="backlog_share") == 5 - share
    assert receiver.counted("neve_receiver_largest_backlog_bytes") > 256 * 1024


def test_the_receiver_accepts_nothing_that_ingestion_refuses_for_its_size(tmp_path: Path) -> None:
    """Settings that do not agree are refused at the start."""
    check_size_limits(settings_for(tmp_path))
    with pytest.raises(ConfigError, match=r"receiver.max_groups is 200000, expected at most ingest.max_groups"):
        check_size_limits(settings_for(tmp_path, max_groups=200_000))
