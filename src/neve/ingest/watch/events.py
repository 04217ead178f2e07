"""Parse event documents into announced files. Pure functions, safe for any bytes.

| Event | Recognised by |
| --- | --- |
| S3's notification, also as SNS delivers it raw | `Records` |
| MinIO's | `Records`, or `EventName` and `Key` |
| either of them in an envelope of SNS | `Type` and `Message` |
| S3's by way of EventBridge | `detail-type` |
| S3's test of a new notification | `Event` |
| Neve's own, `{"path": "s3://raw/a.json"}` | `path` or `paths` |
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote_plus

from neve.errors import ConfigError, InputError
from neve.ingest.files.formats import EXTENSIONS, Format, read_name
from neve.model.settings import check_organization
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


NAMES_NO_FORMAT = f"has no known suffix; known are {', '.join(EXTENSIONS)}, each also with .gz or .zst"


@dataclass(frozen=True)
class AnnouncedFile:
    """A file, by its path or s3:// address, and its properties in the event, which may be wrong or outdated."""

    path: str
    size: int | None = None
    etag: str | None = None
    event_time: datetime | None = None
    removed: bool = False
    signal: Signal | None = None
    format: Format | None = None
    organization: str | None = None


@dataclass(frozen=True)
class RefusedFile:
    """A rejected part of an event: the file or the position in the event, and the reason."""

    what: str
    reason: str
    organization: str | None = None


@dataclass(frozen=True)
class Event:
    """One event document: its position, its organization, and the properties that its topic gives its files."""

    source: str
    position: int
    payload: bytes
    organization_id: str
    signal: Signal | None = None
    may_name_organization: bool = False
    received_unix_nano: int = 0

    def owner(self, part: AnnouncedFile | RefusedFile) -> str:
        """Return the organization that a file of the event is ingested for. Only trusted senders may name another."""
        return (self.may_name_organization and part.organization) or self.organization_id


@dataclass(frozen=True)
class Announcements:
    """The content of one event."""

    announced: tuple[AnnouncedFile, ...] = ()
    refused: tuple[RefusedFile, ...] = ()

    @property
    def to_ingest(self) -> tuple[AnnouncedFile, ...]:
        """Files that exist and should be read."""
        return tuple(file for file in self.announced if not file.removed)


# Returns why a file is not ingested, or nothing.
FileFilter = Callable[[AnnouncedFile], str | None]


def check_format(file: AnnouncedFile) -> str | None:
    """Reject a file whose format neither its name nor the event states. This is a filter."""
    return None if file.format or read_name(file.path).format else NAMES_NO_FORMAT


def apply_filters(files: Iterable[AnnouncedFile | RefusedFile], filters: Iterable[FileFilter]) -> Announcements:
    """Keep the files that no filter rejects. A deleted file needs no permission."""
    announced: list[AnnouncedFile] = []
    refused: list[RefusedFile] = []
    checks = tuple(filters)
    for file in files:
        if isinstance(file, RefusedFile):
            refused.append(file)
            continue
        reason = None if file.removed else next((why for check in checks if (why := check(file))), None)
        if reason is None:
            announced.append(file)
        else:
            refused.append(RefusedFile(file.path, reason, file.organization))
    return Announcements(tuple(announced), tuple(refused))


MAX_VALUE_CHARACTERS = 80
LARGEST = 2**63 - 1
BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")


def describe_value(value: object) -> str:
    """Return a value for an error message: the type of a list or a map, the beginning of a long text.

    >>> describe_value(["a"]), describe_value("a"), describe_value(None)
    ('a list', "'a'", 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a map"
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_VALUE_CHARACTERS else value[:MAX_VALUE_CHARACTERS] + "…")
    return repr(value)[:MAX_VALUE_CHARACTERS]


def require_mapping(value: object, what: str) -> dict[str, Any]:
    """Return a value that is a map. Raises `InputError` for any other type."""
    if not isinstance(value, dict):
        raise InputError(f"{what} is {describe_value(value)}, expected a map")
    return value


def require_text(value: object, what: str) -> str:
    """Return text that can be a name. Raises `InputError` if it is empty, not text, or not encodable as UTF-8."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{what} is {describe_value(value)}, expected text")
    if "\0" in value or not _has_utf8(value):
        raise InputError(f"{what} is {describe_value(value)}, which is not a valid path")
    return value


def format_address(bucket: object, key: object) -> str:
    """Return the s3:// address of an object. Raises `InputError` if the bucket or the key is not a name."""
    name = require_text(bucket, "the bucket's name")
    if not BUCKET.fullmatch(name):
        raise InputError(
            f"the bucket's name is {describe_value(name)}, expected letters, digits, dots, dashes, underscores"
        )
    return f"s3://{name}/{require_text(key, 'the object key')}"


def parse_size(value: object) -> int | None:
    """Return a number of bytes, or nothing if the value is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST else None


def parse_etag(value: object) -> str | None:
    """Return an entity tag without the quotes that some stores add."""
    return value.strip('"') or None if isinstance(value, str) and _has_utf8(value) else None


def parse_time(value: object) -> datetime | None:
    """Return a time in ISO 8601, or nothing if the value is not one. A time without a zone is in UTC."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _has_utf8(value: str) -> bool:
    """Return whether text can be encoded as UTF-8. JSON can contain half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


CREATED = "ObjectCreated:"
REMOVED = ("ObjectRemoved:", "LifecycleExpiration:")
EVENTBRIDGE = {"Object Created": False, "Object Deleted": True}  # whether the object was deleted


def from_records(document: dict[str, Any]) -> Iterator[AnnouncedFile | RefusedFile]:
    """Yield the objects of an S3 notification, which MinIO uses too. A bad record rejects only itself."""
    records = document["Records"]
    if not isinstance(records, list):
        raise InputError(f"Records is {describe_value(records)}, expected a list")
    for position, record in enumerate(records):
        try:
            yield _from_record(require_mapping(record, "the record"))
        except InputError as error:
            yield RefusedFile(f"Records[{position}]", error.message)


def from_log(document: dict[str, Any]) -> AnnouncedFile:
    """Return the object of MinIO's short form without records. Its key is not encoded and begins with the bucket."""
    removed = _is_removal(document.get("EventName"))
    bucket, _, key = require_text(document["Key"], "Key").partition("/")
    return AnnouncedFile(format_address(bucket, key), removed=removed)


def from_eventbridge(document: dict[str, Any]) -> AnnouncedFile:
    """Return the object of an EventBridge event. Its key is not encoded."""
    kind = document["detail-type"]
    if not isinstance(kind, str) or kind not in EVENTBRIDGE:
        raise InputError(f"detail-type is {describe_value(kind)}, expected {' or '.join(map(repr, EVENTBRIDGE))}")
    detail = require_mapping(document.get("detail"), "detail")
    stored = require_mapping(detail.get("object"), "detail.object")
    bucket = require_mapping(detail.get("bucket"), "detail.bucket").get("name")
    return AnnouncedFile(
        format_address(bucket, stored.get("key")),
        size=parse_size(stored.get("size")),
        etag=parse_etag(stored.get("etag")),
        event_time=parse_time(document.get("time")),
        removed=EVENTBRIDGE[kind],
    )


def _from_record(record: dict[str, Any]) -> AnnouncedFile:
    source = record.get("eventSource", "aws:s3")
    if not isinstance(source, str) or not source.endswith(":s3"):
        raise InputError(f"eventSource is {describe_value(source)}, expected aws:s3")
    removed = _is_removal(record.get("eventName"))
    details = require_mapping(record.get("s3"), "s3")
    stored = require_mapping(details.get("object"), "s3.object")
    bucket = require_mapping(details.get("bucket"), "s3.bucket").get("name")
    return AnnouncedFile(
        format_address(bucket, _decode_key(require_text(stored.get("key"), "the object key"))),
        size=parse_size(stored.get("size")),
        etag=parse_etag(stored.get("eTag")),
        event_time=parse_time(record.get("eventTime")),
        removed=removed,
    )


def _is_removal(name: object) -> bool:
    event = name.removeprefix("s3:") if isinstance(name, str) else ""
    if event.startswith(CREATED):
        return False
    if event.startswith(REMOVED):
        return True
    raise InputError(f"the event is {describe_value(name)}, expected ObjectCreated:… or ObjectRemoved:…")


def _decode_key(key: str) -> str:
    """Decode a key of an S3 record: percent encoding, and a plus for a space."""
    try:
        return unquote_plus(key, errors="strict")
    except UnicodeDecodeError:
        raise InputError(
            f"the object key is {describe_value(key)}, which is not UTF-8 after percent-decoding"
        ) from None


KNOWN_KEYS = ("path", "paths", "signal", "format", "organization")
Choice = TypeVar("Choice", bound=StrEnum)


def from_request(document: dict[str, Any]) -> Iterator[AnnouncedFile | RefusedFile]:
    """Yield the files that a request names. A bad path rejects only itself, any other fault rejects all of them."""
    unknown = [key for key in document if key not in KNOWN_KEYS]
    if unknown:
        raise InputError(f"unknown key {describe_value(unknown[0])}, expected {', '.join(KNOWN_KEYS)}")
    signal = _parse_choice(Signal, document.get("signal"), "signal")
    form = _parse_choice(Format, document.get("format"), "format")
    organization = _parse_organization(document.get("organization"))
    for what, value in _list_paths(document):
        try:
            path = _parse_path(value, what)
        except InputError as error:
            yield RefusedFile(what, error.message)
        else:
            yield AnnouncedFile(path, signal=signal, format=form, organization=organization)


def _list_paths(document: dict[str, Any]) -> list[tuple[str, object]]:
    if "path" in document and "paths" in document:
        raise InputError("both path and paths are present, expected one of them")
    if "path" in document:
        return [("path", document["path"])]
    paths = document["paths"]
    if not isinstance(paths, list):
        raise InputError(f"paths is {describe_value(paths)}, expected a list")
    return [(f"paths[{position}]", value) for position, value in enumerate(paths)]


def _parse_path(value: object, what: str) -> str:
    path = require_text(value, what)
    scheme, separator, rest = path.partition("://")
    if separator and scheme == "s3":
        bucket, _, key = rest.partition("/")
        return format_address(bucket, key)
    local = rest if separator and scheme == "file" else path
    if not local.startswith("/"):
        # The reader of the event does not know the working folder of its sender.
        raise InputError(f"{what} is {describe_value(path)}, expected an s3:// address or a path that begins with /")
    return local


def _parse_choice(kind: type[Choice], value: object, what: str) -> Choice | None:
    if value is None:
        return None
    found = next((choice for choice in kind if choice == value), None)
    if found is None:
        raise InputError(f"{what} is {describe_value(value)}, expected one of {', '.join(kind)}")
    return found


def _parse_organization(value: object) -> str | None:
    if value is None:
        return None
    try:
        return check_organization(require_text(value, "organization"))
    except ConfigError as error:
        raise InputError(error.message) from None


EXPECTED = "an S3, MinIO, SNS or EventBridge event, or a path"
TEST_EVENT = "s3:TestEvent"
ENVELOPE = "Notification"
MAX_ENVELOPES = 3
MAX_OBJECTS = 1000
MAX_KEYS_SHOWN = 5


def read_event(
    data: bytes, filters: Sequence[FileFilter] = (check_format,), *, most: int = MAX_OBJECTS
) -> Announcements:
    """Parse a document. Raises `InputError` if it is not an event, or announces too many files."""
    document = _open_envelopes(data)
    found = list(islice(_find_files(document), most + 1))
    if len(found) > most:
        raise InputError(
            f"the event announces more than {most} files, expected at most {most} (watch.max_objects)",
            hint="send several events",
        )
    return apply_filters(found, filters)


def _open_envelopes(data: bytes | str, envelopes: int = MAX_ENVELOPES) -> dict[str, Any]:
    """Return the document inside its envelopes."""
    try:
        document = require_mapping(json.loads(data), "the event")
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else "not JSON"
        raise InputError(f"the event begins with {_beginning(data)} and is {what}, expected {EXPECTED}") from None
    if "Type" not in document or "Message" not in document:
        return document
    kind, message = document["Type"], document["Message"]
    if kind != ENVELOPE or not isinstance(message, str) or not envelopes:
        raise InputError(
            f"the SNS envelope is of the type {describe_value(kind)} and has {describe_value(message)}, "
            "expected a Notification",
            hint="a subscription is confirmed once, with `aws sns confirm-subscription`",
        )
    return _open_envelopes(message, envelopes - 1)


def _find_files(document: dict[str, Any]) -> Iterable[AnnouncedFile | RefusedFile]:
    if document.get("Event") == TEST_EVENT:
        return ()
    if "Records" in document:
        return from_records(document)
    if "detail-type" in document:
        return (from_eventbridge(document),)
    if "EventName" in document and "Key" in document:
        return (from_log(document),)
    if "path" in document or "paths" in document:
        return from_request(document)
    keys = ", ".join(describe_value(key) for key in list(document)[:MAX_KEYS_SHOWN]) or "no keys"
    raise InputError(f"the event has {keys}, expected {EXPECTED}")


def _beginning(data: bytes | str) -> str:
    head = data[:40]
    return repr(head) if data else "nothing"
