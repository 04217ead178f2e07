"""Receiver of S3 object notifications: check each one and store it in the events zone."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.errors import InputError, RawZoneError
from neve.logger import get_logger
from neve.raw.frame import Encoding, Frame, Kind, stored_bytes
from neve.receive.backpressure import Usage
from neve.receive.examine import check_json
from neve.receive.quotas import Quotas
from neve.receive.refusal import Refusal, Verdict, malformed_error

if TYPE_CHECKING:
    from neve.receive.backpressure import Backpressure
    from neve.receive.receiver import Appender
    from neve.state.scopes import Caller

MAX_EVENT_BYTES = 1024 * 1024
CONFIRMATION = "SubscriptionConfirmation"
TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
TOKEN = re.compile(r"[0-9a-fA-F]{1,1024}")
MAX_SHOWN = 100

log = get_logger("neve.receive")


@dataclass(frozen=True)
class RefusedFile:
    """A file that is not ingested, or the place in the event where a file name is missing, with the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class CheckedEvent:
    """Number of ingested files of an event, and the refused files.

    `forbidden` is set if the organization may not ingest them.
    """

    files: int
    refused: tuple[RefusedFile, ...] = ()
    forbidden: bool = False


# Checks an organization's event; raises `InputError` if it is no event. May access disks.
CheckEvent = Callable[[str, bytes], CheckedEvent]


@dataclass(frozen=True)
class EventReceiver:
    """Receiver of notifications: from S3, wrapped by SNS, or from MinIO."""

    appender: Appender
    pressure: Backpressure
    max_nesting: int
    check: CheckEvent
    quotas: Quotas = field(default_factory=Quotas)  # shared with OTLP: a caller has one quota of bytes
    usage: Usage = field(default_factory=Usage)  # of the events zone

    def admit(self, caller: Caller) -> None:
        """Raise `Refusal` if nothing is accepted from a caller now. It is called before the notification is read."""
        self.pressure.check()
        self.usage.check(caller.organization)
        self.quotas.check(caller)

    async def accept(self, caller: Caller, body: bytes) -> CheckedEvent:
        """Store a notification, and return when it is durable; raises `Refusal` if none of its files is ingested."""
        organization = caller.organization
        self.quotas.charge(caller, len(body), 0)  # also if it is refused: the check is most of the work
        document = _parse_event(body, self.max_nesting)
        if document.get("Type") == CONFIRMATION:
            _log_confirmation(organization, document)
            return CheckedEvent(0)
        try:
            checked = await asyncio.to_thread(self.check, organization, body)
        except InputError as error:
            raise malformed_error(str(error)) from None
        if checked.refused:
            log.warning("announced files rejected", organization=organization, files=len(checked.refused))
        if checked.refused and not checked.files:
            raise _refusal(checked)
        if checked.files:
            await self._store(organization, body)
        return checked

    async def _store(self, organization: str, body: bytes) -> None:
        frame = Frame(Kind.EVENT, organization, time.time_ns(), body, Encoding.JSON)
        try:
            await self.appender.append(frame)
        except RawZoneError as error:
            raise self.pressure.record_failure(error) from error
        self.pressure.record_success()
        self.usage.count_stored(organization, len(body), 0, stored_bytes(frame))


def format_refused_files(refused: tuple[RefusedFile, ...]) -> list[dict[str, str]]:
    """Return refused files as a response lists them, at most the first hundred."""
    return [{"path": file.path, "reason": file.reason} for file in refused[:MAX_SHOWN]]


def _refusal(checked: CheckedEvent) -> Refusal:
    first, further = checked.refused[0], len(checked.refused) - 1
    return Refusal(
        Verdict.FORBIDDEN if checked.forbidden else Verdict.UNPROCESSABLE,
        "refused_announcement",
        f"{first.path} {first.reason}" + (f", and {further} more" if further else ""),
        details=format_refused_files(checked.refused),
    )


def _log_confirmation(organization: str, document: dict[str, Any]) -> None:
    """Log that a topic requests the confirmation of a subscription.

    The URL in its message is neither followed nor logged: any client that can send an event could make Neve, or a
    person who reads the log, open any URL. The token is useful with AWS alone, and is logged only if topic and token
    have the form of AWS.
    """
    topic, token = str(document.get("TopicArn")), str(document.get("Token"))
    if not TOPIC.fullmatch(topic) or not TOKEN.fullmatch(token):
        log.warning("a subscription request without an SNS topic and token is ignored", organization=organization)
        return
    log.warning(
        "an SNS topic requests a subscription; if the topic is yours, run `aws sns confirm-subscription`",
        topic=topic,
        token=token,
        organization=organization,
    )


def _parse_event(body: bytes, max_nesting: int) -> dict[str, Any]:
    check_json(body, max_nesting)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise malformed_error(f"the body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise malformed_error("the body is not a JSON object")
    return document
