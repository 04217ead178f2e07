"""Values of a JSON document that anyone may have written."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from neve.errors import InputError

LONGEST_SHOWN = 80
LARGEST = 2**63 - 1
BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")


def shown(value: object) -> str:
    """A value as an error says it: its kind where it is a list or a map, its beginning where it is long.

    >>> shown(["a"]), shown("a"), shown(None)
    ('a list', "'a'", 'nothing')
    """
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a map"
    if isinstance(value, str):
        return repr(value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…")
    return repr(value)[:LONGEST_SHOWN]


def mapping(value: object, what: str) -> dict[str, Any]:
    """A map; raises `InputError` where it is something else."""
    if not isinstance(value, dict):
        raise InputError(f"{what} is {shown(value)}, expected a map")
    return value


def text(value: object, what: str) -> str:
    """Text that can be a name; raises `InputError` where it is empty, something else, or can't be written down."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{what} is {shown(value)}, expected text")
    if "\0" in value or not _has_utf8(value):
        raise InputError(f"{what} is {shown(value)}, which no file can be called")
    return value


def address(bucket: object, key: object) -> str:
    """The s3:// address of an object; raises `InputError` where one of the two is no name."""
    name = text(bucket, "the bucket's name")
    if not BUCKET.fullmatch(name):
        raise InputError(f"the bucket's name is {shown(name)}, expected letters, digits, dots, dashes, underscores")
    return f"s3://{name}/{text(key, 'the object key')}"


def size(value: object) -> int | None:
    """A number of bytes, where it is one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= LARGEST else None


def etag(value: object) -> str | None:
    """An entity tag without the quotes that some put around it."""
    return value.strip('"') or None if isinstance(value, str) and _has_utf8(value) else None


def moment(value: object) -> datetime | None:
    """A time in ISO 8601, where it is one; UTC where it names no zone."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _has_utf8(value: str) -> bool:
    """Whether text can be written as bytes: JSON can spell half of a character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
