"""Policies asked of one span, as plainly as can be: what the SQL must agree with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.tail.policy.rows import Attributes, Span

KEY_REST = r"[a-z0-9_\-*/]"
KEYS = re.compile(rf"[a-z]{KEY_REST}{{0,255}}|[a-z0-9]{KEY_REST}{{0,240}}@[a-z]{KEY_REST}{{0,13}}")


def numeric(span: Span, key: str, least: int | None, most: int | None) -> bool:
    """A value that is not a whole number reads as 0."""

    def fits(attributes: Attributes) -> bool:
        if key not in attributes:
            return False
        value = attributes[key]
        number = value if type(value) is int else 0
        return (least is None or least <= number) and (most is None or number <= most)

    return fits(span.resource) or fits(span.attributes)


def boolean(span: Span, key: str, wanted: bool) -> bool:
    """A value that is not a boolean reads as false."""
    return any(key in found and (found[key] is True) == wanted for found in (span.resource, span.attributes))


def string(span: Span, key: str, values: Sequence[str], *, regex: bool) -> bool:
    """A value that is not a text reads as an empty one, which a span's attribute never matches."""
    for attributes in (span.resource, span.attributes):
        if key not in attributes:
            continue
        value = attributes[key]
        text = value if isinstance(value, str) else ""
        if attributes is span.attributes and text == "":
            continue
        if regex and any(re.search(pattern, text) for pattern in values):
            return True
        if not regex and text != "" and text in values:
            return True
    return False


def state(text: str) -> dict[str, str] | None:
    """A trace state, or nothing where it can't be read."""
    found: dict[str, str] = {}
    for member in text.split(","):
        if member == "":
            continue
        key, equals, value = member.partition("=")
        key, value = key.lstrip(" \t"), value.rstrip(" \t")
        fits = 0 < len(value) <= 256 and all(" " <= one <= "~" and one not in ",=" for one in value)
        if not equals or not fits or not KEYS.fullmatch(key) or key in found:
            return None
        found[key] = value
    return found if len(found) <= 32 else None
