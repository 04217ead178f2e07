"""What an answer over HTTP means for the spans that were sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from neve.tail.export.patience import Busy
from neve.tail.export.pieces import Sent
from neve.tail.export.port import DestinationAway

if TYPE_CHECKING:
    from neve.tail.export.http_client import HttpReply

# The standard calls 429, 502, 503 and 504 worth another attempt. 408 and the other 500s are about the server and not
# about the spans, too: it is asked again for a while, and then it counts as away.
TIMED_OUT, TOO_MANY, TOO_LARGE = 408, 429, 413
# About the address or the key, not about the spans: everything would be refused, and lost, until someone mends it.
MISCONFIGURED = (401, 402, 403, 404, 405, 407, 421, 501)
MOST_SAID = 500  # characters of a server's message

Read = Callable[["HttpReply", int], Sent]


def judge(destination: str, reply: HttpReply, spans: int, read: Read) -> Sent:
    """What became of a request's spans; `read` reads the answer of a server that took them.

    Raises `Busy` for what may go better later, and `DestinationAway` for what will not until a setting is changed.
    """
    status = reply.status
    if 200 <= status < 300:
        return read(reply, spans)
    message = f"HTTP {status}: {said(reply)}"
    if status in MISCONFIGURED or 300 <= status < 400:
        raise DestinationAway(
            f"the destination {destination} refuses whatever it is sent: {message}",
            hint="look at its endpoint and headers; what was kept for it waits until they are right",
        )
    if status in (TIMED_OUT, TOO_MANY) or status >= 500:
        raise Busy(message, after=retry_after(reply.headers.get("retry-after", "")))
    return Sent(rejected=spans, message=message, divide=status == TOO_LARGE)


def retry_after(value: str, now: datetime | None = None) -> float | None:
    """The seconds that a `Retry-After` header asks for; it may say a number of them, or a date.

    >>> retry_after("7"), retry_after("soon")
    (7.0, None)
    """
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())


def said(reply: HttpReply) -> str:
    """What a refusal says: the message of a `Status`, in protobuf or JSON, or else the text of the body."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    found = ""
    if kind == "application/x-protobuf":
        found = _status(reply.body)
    elif kind == "application/json":
        found = _json_message(reply.body)
    text = found or reply.body.decode(errors="replace")
    return " ".join(text.split())[:MOST_SAID] or "no reason was given"


def _status(body: bytes) -> str:
    try:
        message: str = Status.FromString(body).message
    except DecodeError:
        return ""
    return message


def _json_message(body: bytes) -> str:
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return message if isinstance(message, str) else ""
