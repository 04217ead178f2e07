"""Notifications about objects in S3: checked, then kept as they come for whoever reads the events zone."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from neve.errors import InputError, RawZoneError
from neve.raw.frame import Encoding, Frame, Kind, stored_bytes
from neve.receive.examine import check_json
from neve.receive.quotas import Quotas
from neve.receive.refusal import Refusal, Verdict, malformed
from neve.receive.usage import Usage

if TYPE_CHECKING:
    from neve.lake.scopes import Caller
    from neve.receive.pressure import Pressure
    from neve.receive.receiver import Appender

MAX_EVENT_BYTES = 1024 * 1024
CONFIRMATION = "SubscriptionConfirmation"
TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
TOKEN = re.compile(r"[0-9a-fA-F]{1,1024}")
MOST_SHOWN = 100

log = structlog.get_logger("neve.receive")


@dataclass(frozen=True)
class RefusedFile:
    """A file that is not ingested, or the place in the event where one should be named, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class CheckedEvent:
    """How many files of an event are ingested, and which are not; `forbidden` where the organization may not."""

    files: int
    refused: tuple[RefusedFile, ...] = ()
    forbidden: bool = False


# Says what comes of an organization's event; raises `InputError` where it is none. May look at disks.
CheckEvent = Callable[[str, bytes], CheckedEvent]


@dataclass(frozen=True)
class EventReceiver:
    """Takes notifications: from S3, wrapped by SNS, or from MinIO."""

    appender: Appender
    pressure: Pressure
    max_nesting: int
    check: CheckEvent
    quotas: Quotas = field(default_factory=Quotas)  # those of OTLP, too: a caller has one allowance of bytes
    usage: Usage = field(default_factory=Usage)  # of the zone of events

    def admit(self, caller: Caller) -> None:
        """Raise `Refusal` where nothing of a caller is taken now; asked before its notification is read."""
        self.pressure.check()
        self.usage.check(caller.organization)
        self.quotas.check(caller)

    async def accept(self, caller: Caller, body: bytes) -> CheckedEvent:
        """Return when the notification is durable; raises `Refusal` where none of its files is ingested."""
        organization = caller.organization
        self.quotas.charge(caller, len(body), 0)  # also where it is refused: to look at it is most of the work
        document = _parse(body, self.max_nesting)
        if document.get("Type") == CONFIRMATION:
            _log_confirmation(organization, document)
            return CheckedEvent(0)
        try:
            checked = await asyncio.to_thread(self.check, organization, body)
        except InputError as error:
            raise malformed(str(error)) from None
        if checked.refused:
            log.warning("announced files are refused", organization=organization, files=len(checked.refused))
        if checked.refused and not checked.files:
            raise _refusal(checked)
        if checked.files:
            await self._keep(organization, body)
        return checked

    async def _keep(self, organization: str, body: bytes) -> None:
        frame = Frame(Kind.EVENT, organization, time.time_ns(), body, Encoding.JSON)
        try:
            await self.appender.append(frame)
        except RawZoneError as error:
            raise self.pressure.failed(error) from error
        self.pressure.worked()
        self.usage.kept(organization, len(body), 0, stored_bytes(frame))


def refused_documents(refused: tuple[RefusedFile, ...]) -> list[dict[str, str]]:
    """Refused files as an answer lists them, the first hundred at most."""
    return [{"path": file.path, "reason": file.reason} for file in refused[:MOST_SHOWN]]


def _refusal(checked: CheckedEvent) -> Refusal:
    first, further = checked.refused[0], len(checked.refused) - 1
    return Refusal(
        Verdict.FORBIDDEN if checked.forbidden else Verdict.UNPROCESSABLE,
        "refused_announcement",
        f"{first.path} {first.reason}" + (f", and {further} more" if further else ""),
        details=refused_documents(checked.refused),
    )


def _log_confirmation(organization: str, document: dict[str, Any]) -> None:
    """Say that a topic wants to be subscribed.

    The address in its message is neither followed nor shown: whoever can send an event could make us, or a person who
    reads the log, open any address. The token is of use with AWS alone, and only where topic and token look like it.
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


def _parse(body: bytes, max_nesting: int) -> dict[str, Any]:
    check_json(body, max_nesting)
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise malformed(f"the body is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise malformed("the body is no JSON object")
    return document
