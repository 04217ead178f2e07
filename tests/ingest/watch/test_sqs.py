"""An SQS queue, polled: nothing is deleted before it is safe, and nothing that fails ends the poller."""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from neve.errors import ConfigError, EnvironmentFault
from neve.ingest.config import SqsConfig
from neve.ingest.watch import sqs as module
from neve.ingest.watch.events import read_event
from neve.ingest.watch.sqs import MessagesNotStored, SqsPoller, connect_sqs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.parts.s3 import S3

pytestmark = pytest.mark.parts
_numbers = itertools.count()
PATIENCE_SECONDS = 600.0


@pytest.fixture
def config(s3: S3) -> SqsConfig:
    """A queue of its own; requests do not wait, and failures are tried again soon."""
    access = {"endpoint": s3.endpoint, "region": s3.region, "access_key": s3.access_key}
    secret = SecretStr(s3.secret_key)
    client = connect_sqs(SqsConfig(**access, secret_key=secret))
    url = client.create_queue(QueueName=f"events{next(_numbers)}")["QueueUrl"]
    client.close()
    return SqsConfig(
        queue_url=url, **access, secret_key=secret, wait_seconds=0, visibility_seconds=1, retry_seconds=0.2
    )


@pytest.fixture
def client(config: SqsConfig) -> Iterator[Any]:
    """The side of whoever sends events."""
    opened = connect_sqs(config)
    yield opened
    opened.close()


def waiting(client: Any, config: SqsConfig) -> int:
    """How many messages the queue has, seen or not."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client.get_queue_attributes(QueueUrl=config.queue_url, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.02)


@contextmanager
def running(poller: SqsPoller) -> Iterator[threading.Thread]:
    """The poller at work in a thread of its own, which ends when it is told to."""
    stop = threading.Event()
    thread = threading.Thread(target=poller.run, args=(stop,))
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def test_messages_are_kept_and_then_deleted(config: SqsConfig, client: Any) -> None:
    """All of them, more than one request takes, as the bytes that were sent."""
    sent = {f"event {number} é" for number in range(23)}
    for body in sent:
        client.send_message(QueueUrl=config.queue_url, MessageBody=body)
    kept: list[bytes] = []
    poller = SqsPoller(config, kept.append)
    with running(poller):
        until(lambda: poller.counts.deleted == len(sent))
    assert {body.decode() for body in kept} == sent
    assert waiting(client, config) == 0
    assert (poller.counts.received, poller.counts.stored, poller.counts.failed) == (23, 23, 0)


def test_a_message_is_in_the_queue_while_it_is_being_kept(config: SqsConfig, client: Any) -> None:
    """It is deleted after the callback came back, not before."""
    client.send_message(QueueUrl=config.queue_url, MessageBody="x")
    seen: list[int] = []
    poller = SqsPoller(config, lambda _body: seen.append(waiting(client, config)))
    poller.poll()
    assert seen == [1]
    assert waiting(client, config) == 0


def test_a_message_that_was_not_kept_comes_back(config: SqsConfig, client: Any) -> None:
    """The others of its round are deleted; it is tried again until it is kept."""
    for body in ("good", "bad"):
        client.send_message(QueueUrl=config.queue_url, MessageBody=body)
    tries: list[bytes] = []

    def keep(body: bytes) -> None:
        tries.append(body)
        if body == b"bad" and tries.count(b"bad") < 3:
            raise OSError("no space left on device")

    poller = SqsPoller(config, keep)
    with pytest.raises(MessagesNotStored, match="storing 1 of 2 messages failed"):
        poller.poll()
    assert waiting(client, config) == 1
    with running(poller):
        until(lambda: poller.counts.deleted == 2)
    assert (tries.count(b"good"), tries.count(b"bad")) == (1, 3)
    assert waiting(client, config) == 0
    assert (poller.counts.failed, poller.counts.stored) == (2, 2)


def test_a_queue_that_is_not_there_is_tried_again(config: SqsConfig, client: Any) -> None:
    """The poller lives, counts, and works when the queue does."""
    later = config.model_copy(update={"queue_url": config.queue_url + "-later"})
    kept: list[bytes] = []
    poller = SqsPoller(later, kept.append)
    with running(poller) as thread:
        until(lambda: poller.counts.errors >= 2)
        assert thread.is_alive()
        client.create_queue(QueueName=later.queue_url.rsplit("/", 1)[1])
        client.send_message(QueueUrl=later.queue_url, MessageBody="at last")
        until(lambda: poller.counts.deleted == 1)
    assert kept == [b"at last"]


def test_a_stop_ends_a_long_pause(config: SqsConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poller that waits for its server does not keep anyone waiting."""
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 3600.0)  # pauses are random, and the first ones short
    nowhere = config.model_copy(update={"endpoint": "http://127.0.0.1:9", "retry_seconds": 3600.0})
    poller = SqsPoller(nowhere, lambda _body: None)
    with running(poller):
        until(lambda: poller.counts.errors >= 1)
    assert poller.counts.errors == 1


def test_what_a_bucket_tells_its_queue_is_understood(config: SqsConfig, client: Any, s3: S3) -> None:
    """A test event first, then each object, under the key that it was stored with."""
    bucket, key = f"raw{next(_numbers)}", "otel/2026 11 15/traces+1%é.json"
    arn = client.get_queue_attributes(QueueUrl=config.queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    store = import_module("boto3").client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=s3.region,
        aws_access_key_id=s3.access_key,
        aws_secret_access_key=s3.secret_key,
    )
    store.create_bucket(Bucket=bucket)
    store.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]},
    )
    store.put_object(Bucket=bucket, Key=key, Body=b"{}")
    store.close()
    kept: list[bytes] = []
    poller = SqsPoller(config, kept.append)
    with running(poller):
        until(lambda: poller.counts.deleted == 2)
    events = [read_event(body) for body in kept]
    assert [event.refused for event in events] == [(), ()]
    [file] = [file for event in events for file in event.announced]
    assert (file.path, file.size, file.removed) == (f"s3://{bucket}/{key}", 2, False)


def test_a_queue_must_be_named() -> None:
    """Before anything is connected."""
    with pytest.raises(ConfigError, match="queue_url is empty, expected the URL of an SQS queue"):
        SqsPoller(SqsConfig(), lambda _body: None)


def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", absent)
    with pytest.raises(EnvironmentFault, match="boto3 is not installed") as caught:
        connect_sqs(SqsConfig())
    assert caught.value.hint == "pip install 'neve[sqs]'"
