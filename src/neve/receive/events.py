"""Notifications about objects in S3: kept as they come, for whoever reads the events zone."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from neve.errors import RawZoneError
from neve.raw.frame import Encoding, Frame, Kind
from neve.receive.examine import check_json
from neve.receive.refusal import malformed

if TYPE_CHECKING:
    from neve.receive.pressure import Pressure
    from neve.receive.receiver import Appender

MAX_EVENT_BYTES = 1024 * 1024
CONFIRMATION = "SubscriptionConfirmation"

log = structlog.get_logger("neve.receive")


@dataclass(frozen=True)
class EventReceiver:
    """Takes notifications: from S3, wrapped by SNS, or from MinIO."""

    appender: Appender
    pressure: Pressure
    max_nesting: int

    async def accept(self, organization: str, body: bytes) -> None:
        """Return when the notification is durable; raises `Refusal` when it is no JSON object."""
        document = _parse(body, self.max_nesting)
        if document.get("Type") == CONFIRMATION:
            # Whoever can reach this door could make us fetch any address: a person decides.
            log.warning(
                "a topic asks to be subscribed: open the address to confirm it",
                topic=str(document.get("TopicArn")),
                subscribe_url=str(document.get("SubscribeURL")),
                organization=organization,
            )
            return
        try:
            await self.appender.append(Frame(Kind.EVENT, organization, time.time_ns(), body, Encoding.JSON))
        except RawZoneError as error:
            raise self.pressure.failed(error) from error
        self.pressure.worked()


def _parse(body: bytes, max_nesting: int) -> dict[str, Any]:
    check_json(body, max_nesting)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise malformed(f"the body is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise malformed("the body is no JSON object")
    return document
