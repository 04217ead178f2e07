"""Label sets: sorted tuples of names and values. A label with an empty value does not exist."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

import xxhash

from neve.lexical.literals import quote
from neve.promql.language.syntax import METRIC_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from neve.lexical.matchers import Matcher

__all__ = [
    "EMPTY",
    "Labels",
    "drop_name",
    "format_labels",
    "get",
    "hash_labels",
    "is_valid_name",
    "keep",
    "make_labels",
    "match_sets",
    "set_label",
    "without",
]

Labels = tuple[tuple[str, str], ...]
EMPTY: Labels = ()
_METADATA = frozenset({METRIC_NAME, "__type__", "__unit__"})
_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_PLAIN_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def make_labels(pairs: Mapping[str, str]) -> Labels:
    """Return a label set.

    >>> make_labels({"b": "2", "a": "1", "c": ""})
    (('a', '1'), ('b', '2'))
    """
    return tuple(sorted((name, value) for name, value in pairs.items() if value))


def get(labels: Labels, name: str) -> str:
    """Return the value of a label, or "" if the set does not have it."""
    for one, value in labels:
        if one == name:
            return value
    return ""


def keep(labels: Labels, names: Collection[str]) -> Labels:
    """Return the labels with these names."""
    return tuple(pair for pair in labels if pair[0] in names)


def without(labels: Labels, names: Collection[str]) -> Labels:
    """Return the labels without these names."""
    return tuple(pair for pair in labels if pair[0] not in names)


def set_label(labels: Labels, name: str, value: str) -> Labels:
    """Return the labels with one more or one replaced. An empty value removes the label."""
    place = bisect_left(labels, (name,))
    end = place + (place < len(labels) and labels[place][0] == name)
    return (*labels[:place], (name, value), *labels[end:]) if value else labels[:place] + labels[end:]


def match_sets(
    sets: Sequence[Labels], matchers: Sequence[Matcher], check: Callable[[], None] = lambda: None
) -> list[bool]:
    """Return which label sets match. Each matcher sees each value once: it compiles its pattern for every call.

    `check` is called before each matcher and may raise: a selector may have thousands of them.
    """
    found = [True] * len(sets)
    for matcher in dict.fromkeys(matchers):
        check()
        values = [get(labels, matcher.name) for labels in sets]
        distinct = list(dict.fromkeys(values))
        results = dict(zip(distinct, matcher.match_all(distinct), strict=True))
        found = [one and results[value] for one, value in zip(found, values, strict=True)]
    return found


def drop_name(labels: Labels) -> Labels:
    """Return the labels without the metric's name, type and unit."""
    return without(labels, _METADATA)


def is_valid_name(name: str) -> bool:
    """Return whether a text may be the name of a label: any UTF-8 text but the empty one."""
    return bool(name) and not any(0xD800 <= ord(char) <= 0xDFFF for char in name)


def hash_labels(labels: Labels) -> int:
    """Return the hash that `limit_ratio` samples by. It equals Prometheus', so that both choose the same series."""
    data = bytearray()
    for pair in labels:
        for text in pair:
            encoded = text.encode()
            size = len(encoded)
            data += bytes((size,)) if size < 255 else b"\xff" + size.to_bytes(3, "little")
            data += encoded
    return int(xxhash.xxh64_intdigest(bytes(data)))


def format_labels(labels: Labels) -> str:
    """Return a label set as Prometheus prints it.

    >>> format_labels((("__name__", "x"), ("a.b", "1")))
    '{__name__="x", "a.b"="1"}'
    """
    pairs = [f"{name if _PLAIN.fullmatch(name) else quote(name)}={quote(value)}" for name, value in labels]
    return "{" + ", ".join(pairs) + "}"


def format_metric(labels: Labels) -> str:
    """Return a series with its name before the braces, where the name allows it."""
    name = get(labels, METRIC_NAME)
    if not _PLAIN_METRIC.fullmatch(name):
        return format_labels(labels)
    rest = without(labels, {METRIC_NAME})
    return name + (format_labels(rest) if rest else "")
