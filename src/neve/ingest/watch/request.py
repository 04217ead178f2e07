"""Neve's own form of an event, for people and scripts: `{"path": "s3://raw/a.json"}`, or `paths` and a list."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from neve.errors import ConfigError, InputError
from neve.ingest.files.formats import Format
from neve.ingest.watch.announced import Announced, Refused
from neve.ingest.watch.fields import address, shown, text
from neve.model.organization import check_organization
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN = ("path", "paths", "signal", "format", "organization")
Choice = TypeVar("Choice", bound=StrEnum)


def from_request(document: dict[str, Any]) -> Iterator[Announced | Refused]:
    """The files that a request names; a bad path costs itself only, anything else all of them."""
    unknown = [key for key in document if key not in KNOWN]
    if unknown:
        raise InputError(f"unknown key {shown(unknown[0])}, expected {', '.join(KNOWN)}")
    signal = _choice(Signal, document.get("signal"), "signal")
    form = _choice(Format, document.get("format"), "format")
    organization = _organization(document.get("organization"))
    for what, value in _paths(document):
        try:
            path = _path(value, what)
        except InputError as error:
            yield Refused(what, error.message)
        else:
            yield Announced(path, signal=signal, format=form, organization=organization)


def _paths(document: dict[str, Any]) -> list[tuple[str, object]]:
    if "path" in document and "paths" in document:
        raise InputError("both path and paths are there, expected one of them")
    if "path" in document:
        return [("path", document["path"])]
    paths = document["paths"]
    if not isinstance(paths, list):
        raise InputError(f"paths is {shown(paths)}, expected a list")
    return [(f"paths[{position}]", value) for position, value in enumerate(paths)]


def _path(value: object, what: str) -> str:
    path = text(value, what)
    scheme, separator, rest = path.partition("://")
    if separator and scheme == "s3":
        bucket, _, key = rest.partition("/")
        return address(bucket, key)
    local = rest if separator and scheme == "file" else path
    if not local.startswith("/"):
        # Whoever reads the event does not know from which folder it was sent.
        raise InputError(f"{what} is {shown(path)}, expected an s3:// address or a path that begins with /")
    return local


def _choice(kind: type[Choice], value: object, what: str) -> Choice | None:
    if value is None:
        return None
    found = next((choice for choice in kind if choice == value), None)
    if found is None:
        raise InputError(f"{what} is {shown(value)}, expected one of {', '.join(kind)}")
    return found


def _organization(value: object) -> str | None:
    if value is None:
        return None
    try:
        return check_organization(text(value, "organization"))
    except ConfigError as error:
        raise InputError(error.message) from None
