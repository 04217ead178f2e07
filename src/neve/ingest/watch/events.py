"""One event document in, what it announces out; pure, and at ease with any bytes.

| What | Told by |
| --- | --- |
| S3's notification, also as SNS delivers it raw | `Records` |
| MinIO's | `Records`, or `EventName` and `Key` |
| either of them in an envelope of SNS | `Type` and `Message` |
| S3's by way of EventBridge | `detail-type` |
| S3's test of a new notification | `Event` |
| Neve's own | `path` or `paths` |
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from neve.errors import InputError
from neve.ingest.watch.announced import Announcements, sift, tells_format
from neve.ingest.watch.fields import mapping, shown
from neve.ingest.watch.objects import from_eventbridge, from_log, from_records
from neve.ingest.watch.request import from_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.ingest.watch.announced import Announced, Filter, Refused

EXPECTED = "an S3, MinIO, SNS or EventBridge event, or a path"
TEST = "s3:TestEvent"
ENVELOPE = "Notification"
MOST_ENVELOPES = 3
MOST_OBJECTS = 1000
MOST_KEYS_SHOWN = 5


def read_event(data: bytes, filters: Sequence[Filter] = (tells_format,), *, most: int = MOST_OBJECTS) -> Announcements:
    """What a document announces; raises `InputError` where it is no event, or announces too many files."""
    document = _open(data)
    found = list(islice(_found(document), most + 1))
    if len(found) > most:
        raise InputError(
            f"the event announces more than {most} files, expected at most {most} (watch.max_objects)",
            hint="send several events",
        )
    return sift(found, filters)


def _open(data: bytes | str, envelopes: int = MOST_ENVELOPES) -> dict[str, Any]:
    """The document inside its envelopes."""
    try:
        document = mapping(json.loads(data), "the event")
    except (ValueError, RecursionError) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else "not JSON"
        raise InputError(f"the event begins with {_beginning(data)} and is {what}, expected {EXPECTED}") from None
    if "Type" not in document or "Message" not in document:
        return document
    kind, message = document["Type"], document["Message"]
    if kind != ENVELOPE or not isinstance(message, str) or not envelopes:
        raise InputError(
            f"the SNS envelope is of the type {shown(kind)} and holds {shown(message)}, expected a Notification",
            hint="a subscription is confirmed once, with `aws sns confirm-subscription`",
        )
    return _open(message, envelopes - 1)


def _found(document: dict[str, Any]) -> Iterable[Announced | Refused]:
    if document.get("Event") == TEST:
        return ()
    if "Records" in document:
        return from_records(document)
    if "detail-type" in document:
        return (from_eventbridge(document),)
    if "EventName" in document and "Key" in document:
        return (from_log(document),)
    if "path" in document or "paths" in document:
        return from_request(document)
    keys = ", ".join(shown(key) for key in list(document)[:MOST_KEYS_SHOWN]) or "no keys"
    raise InputError(f"the event has {keys}, expected {EXPECTED}")


def _beginning(data: bytes | str) -> str:
    head = data[:40]
    return repr(head) if data else "nothing"
