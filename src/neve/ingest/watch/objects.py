"""What object stores send when an object was stored or removed: S3, MinIO, and S3 by way of EventBridge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from neve.errors import InputError
from neve.ingest.watch.announced import Announced, Refused
from neve.ingest.watch.fields import address, etag, mapping, moment, shown, size, text

if TYPE_CHECKING:
    from collections.abc import Iterator

CREATED = "ObjectCreated:"
REMOVED = ("ObjectRemoved:", "LifecycleExpiration:")
EVENTBRIDGE = {"Object Created": False, "Object Deleted": True}  # whether the object has gone


def from_records(document: dict[str, Any]) -> Iterator[Announced | Refused]:
    """The objects of an S3 notification, which MinIO writes too; a bad record costs itself only."""
    records = document["Records"]
    if not isinstance(records, list):
        raise InputError(f"Records is {shown(records)}, expected a list")
    for position, record in enumerate(records):
        try:
            yield _from_record(mapping(record, "the record"))
        except InputError as error:
            yield Refused(f"Records[{position}]", error.message)


def from_log(document: dict[str, Any]) -> Announced:
    """The object of MinIO's short form, which has no records; its key is plain and begins with the bucket."""
    removed = _is_removal(document.get("EventName"))
    bucket, _, key = text(document["Key"], "Key").partition("/")
    return Announced(address(bucket, key), removed=removed)


def from_eventbridge(document: dict[str, Any]) -> Announced:
    """The object of an EventBridge event; its key is plain."""
    kind = document["detail-type"]
    if not isinstance(kind, str) or kind not in EVENTBRIDGE:
        raise InputError(f"detail-type is {shown(kind)}, expected {' or '.join(map(repr, EVENTBRIDGE))}")
    detail = mapping(document.get("detail"), "detail")
    stored = mapping(detail.get("object"), "detail.object")
    bucket = mapping(detail.get("bucket"), "detail.bucket").get("name")
    return Announced(
        address(bucket, stored.get("key")),
        size=size(stored.get("size")),
        etag=etag(stored.get("etag")),
        event_time=moment(document.get("time")),
        removed=EVENTBRIDGE[kind],
    )


def _from_record(record: dict[str, Any]) -> Announced:
    source = record.get("eventSource", "aws:s3")
    if not isinstance(source, str) or not source.endswith(":s3"):
        raise InputError(f"eventSource is {shown(source)}, expected aws:s3")
    removed = _is_removal(record.get("eventName"))
    told = mapping(record.get("s3"), "s3")
    stored = mapping(told.get("object"), "s3.object")
    bucket = mapping(told.get("bucket"), "s3.bucket").get("name")
    return Announced(
        address(bucket, _decoded(text(stored.get("key"), "the object key"))),
        size=size(stored.get("size")),
        etag=etag(stored.get("eTag")),
        event_time=moment(record.get("eventTime")),
        removed=removed,
    )


def _is_removal(name: object) -> bool:
    event = name.removeprefix("s3:") if isinstance(name, str) else ""
    if event.startswith(CREATED):
        return False
    if event.startswith(REMOVED):
        return True
    raise InputError(f"the event is {shown(name)}, expected ObjectCreated:… or ObjectRemoved:…")


def _decoded(key: str) -> str:
    """A key as S3 writes it into records: percent signs, and a plus for a space."""
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise InputError(f"the object key is {shown(key)}, which is not UTF-8 behind its percent signs") from None
