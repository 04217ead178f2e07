"""Poll an SQS queue for events. A message is deleted after it was stored durably, never before.

No failure ends the poller. A message whose state is unknown is delivered again, so the consumer must recognise repeated
events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception_type, stop_when_event_set, wait_random_exponential
from tenacity.nap import sleep_using_event

from neve.errors import ConfigError, EnvironmentFault
from neve.logger import get_logger

if TYPE_CHECKING:
    from threading import Event

    from tenacity import RetryCallState

    from neve.ingest.config import SqsConfig

CONNECT_SECONDS = 5
ANSWER_SECONDS = 10  # time that a response may take beyond the wait for messages
FIRST_PAUSE_SECONDS = 0.5

log = get_logger(__name__)

# Stores a message's body durably, or raises.
StoreMessage = Callable[[bytes], None]


class MessagesNotStored(Exception):
    """Raised when messages of a round could not be stored durably, so that the next round is delayed."""


@dataclass
class PollerCounts:
    """Counters of a poller since it was created."""

    received: int = 0
    stored: int = 0
    failed: int = 0
    deleted: int = 0
    errors: int = 0


class SqsPoller:
    """Receives messages from a queue until it is stopped."""

    def __init__(self, config: SqsConfig, store: StoreMessage) -> None:
        if not config.queue_url:
            raise ConfigError("queue_url is empty, expected the URL of an SQS queue")
        self._config = config
        self._store = store
        self._client = connect_sqs(config)
        self.counts = PollerCounts()

    def run(self, stop: Event) -> None:
        """Poll until `stop` is set.

        The poller notices it when the current request ends, after at most `wait_seconds`.
        """
        attempts = Retrying(
            stop=stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            wait=wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=self._config.retry_seconds),
            retry=retry_if_exception_type(Exception),
            before_sleep=self._report_failure,
            retry_error_callback=lambda _state: None,
        )
        log.info("sqs poller started", queue=self._config.queue_url)
        try:
            while not stop.is_set():
                attempts(self.poll)
        finally:
            self._client.close()
            log.info("sqs poller stopped", queue=self._config.queue_url, **vars(self.counts))

    def poll(self) -> None:
        """Receive, store and delete the messages of one round. Raises if a part of it failed."""
        messages = self._receive()
        self.counts.received += len(messages)
        stored = [message for message in messages if self._try_store(message)]
        if stored:
            self._delete(stored)
        if len(stored) < len(messages):
            raise MessagesNotStored(f"storing {len(messages) - len(stored)} of {len(messages)} messages failed")

    def _receive(self) -> list[dict[str, Any]]:
        answer = self._client.receive_message(
            QueueUrl=self._config.queue_url,
            MaxNumberOfMessages=self._config.batch_messages,
            WaitTimeSeconds=self._config.wait_seconds,
            VisibilityTimeout=self._config.visibility_seconds,
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def _try_store(self, message: dict[str, Any]) -> bool:
        try:
            self._store(message["Body"].encode())
        except Exception as error:
            self.counts.failed += 1
            log.warning("sqs message not stored", message_id=message.get("MessageId"), error=_format_error(error))
            return False
        self.counts.stored += 1
        return True

    def _delete(self, messages: list[dict[str, Any]]) -> None:
        """Delete stored messages. A message that can't be deleted is delivered and stored again."""
        entries = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]} for number, message in enumerate(messages)
        ]
        answer = self._client.delete_message_batch(QueueUrl=self._config.queue_url, Entries=entries)
        failed = answer.get("Failed", [])
        self.counts.deleted += len(messages) - len(failed)
        for entry in failed:
            log.warning("sqs message not deleted", code=entry.get("Code"), message=entry.get("Message"))

    def _report_failure(self, state: RetryCallState) -> None:
        self.counts.errors += 1
        error = state.outcome.exception() if state.outcome else None
        pause = state.next_action.sleep if state.next_action else 0.0
        log.warning(
            "sqs poll failed",
            queue=self._config.queue_url,
            error=_format_error(error),
            attempt=state.attempt_number,
            pause_seconds=round(pause, 1),
        )


def connect_sqs(config: SqsConfig) -> Any:
    """Return a client of the queue's server. Raises `EnvironmentFault` if boto3 is not installed."""
    try:
        boto3, settings = import_module("boto3"), import_module("botocore.config")
    except ImportError as error:
        raise EnvironmentFault(
            "boto3 is not installed, it is needed to poll an SQS queue", hint="pip install 'neve[sqs]'"
        ) from error
    options = {
        "endpoint_url": config.endpoint or None,  # none: the default of boto3
        "aws_access_key_id": config.access_key or None,
        "aws_secret_access_key": config.secret_key.get_secret_value() or None,
    }
    client_config = settings.Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=config.wait_seconds + ANSWER_SECONDS,
        retries={"total_max_attempts": 1},  # the poller has its own backoff, which a stop interrupts
    )
    return boto3.client("sqs", region_name=config.region, config=client_config, **options)


def _format_error(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
