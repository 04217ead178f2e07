"""Places: the folders and prefixes in which each organization may announce files.

Nothing is allowed unless it is configured, and no response shows an organization the places of another. The lake's own
folders are never a place, whatever is configured, because they contain rows of every organization.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from neve.lake.storage.paths import OwnFolders, is_within

SETTING = "watch.places"
S3_PLACE = re.compile(r"s3://([A-Za-z0-9._-]{1,255})((?:/[^/]+)*)")
LOCAL_PLACE = re.compile(r"(?:/[^/]+)+")
EXPECTED = "an s3:// prefix with a bucket, or a folder that begins with /"
DOTS = (".", "..")

# Returns why a file at a path may not be read, or nothing.
PathRule = Callable[[str], str | None]


def parse_place(text: str) -> str:
    """Return a place without its trailing slash. Raises `ValueError` if it could match more than it names.

    >>> parse_place("s3://raw/acme/"), parse_place("/srv/in")
    ('s3://raw/acme', '/srv/in')
    """
    place = text.removesuffix("/")
    if odd := find_odd_form(place):
        raise ValueError(f"should be {EXPECTED}, and {odd}")
    if not (S3_PLACE if "://" in place else LOCAL_PLACE).fullmatch(place):
        raise ValueError(f"should be {EXPECTED}")
    return place


def find_odd_form(path: str) -> str | None:
    """Return why a path is not in plain form, or nothing. Such a path may resolve to another location.

    >>> find_odd_form("s3://raw/a/../b"), find_odd_form("/in//b"), find_odd_form("s3://raw/a.json")
    ("has a '..' in its path", 'has an empty name in its path', None)
    """
    _scheme, separator, rest = path.partition("://")
    names = (rest if separator else path.removeprefix("/")).split("/")
    if found := next((name for name in names if name in DOTS), None):
        return f"has a {found!r} in its path"
    if not all(names):
        return "has an empty name in its path"
    if not path.isprintable():
        return "has characters in its path that can't be printed"
    return None


@dataclass(frozen=True)
class Places:
    """Rules for the files that each organization may announce. It pickles."""

    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: OwnFolders = field(default_factory=OwnFolders)

    def problem(self, organization: str, path: str) -> str | None:
        """Return why an organization may not announce a file, or nothing. The message names only its own places."""
        places = self.allowed.get(organization, ())
        if not places:
            return f"can't be announced: {SETTING} has no places for the organization {organization}"
        if odd := find_odd_form(path):
            return odd
        expected = f"is not below {' or '.join(f'{place}/' for place in places)} ({SETTING} of {organization})"
        if not any(is_within(path, place) for place in places):
            return expected
        if path.startswith("/") and not _is_really_within(path, places):
            return f"leads elsewhere through a symbolic link, and {expected}"
        if self.own.holds(path):
            return "is in a folder of the lake itself, which is not a source"
        return None

    def wall(self, organization: str) -> PathRule:
        """Return the rule for one organization. The tasks that read its files carry the rule."""
        return _OrganizationRule(self, organization)


@dataclass(frozen=True)
class _OrganizationRule:
    places: Places
    organization: str

    def __call__(self, path: str) -> str | None:
        return self.places.problem(self.organization, path)


def _is_really_within(path: str, places: tuple[str, ...]) -> bool:
    real = os.path.realpath(path)
    return any(is_within(real, os.path.realpath(place)) for place in places if place.startswith("/"))
