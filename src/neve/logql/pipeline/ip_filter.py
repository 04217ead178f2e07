"""Search for IP addresses in texts: one address, a range or a network."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

__all__ = ["IpError", "contains_address", "parse_addresses"]

Address = IPv4Address | IPv6Address
Contains = Callable[[Address], bool]

_V4_HINT = re.compile(r"[0-9](?:\..{2}|.\..|.{2}\.)", re.DOTALL)
_V6_HINT = re.compile(r"::[0-9a-fA-F]|[0-9a-fA-F]{1,4}:")
_V4_SPAN = re.compile(r"[0-9.]*")
_V6_SPAN = re.compile(r"[0-9a-fA-F:.]*")
_CANDIDATE = re.compile(r"[0-9a-fA-F:]")


class IpError(ValueError):
    """Raised when a text is no address, range or network."""


def parse_addresses(pattern: str) -> Contains:
    """Return the test for addresses of a pattern.

    >>> parse_addresses("10.0.0.0/8")(ip_address("10.1.2.3"))
    True
    """
    try:
        if "/" in pattern:
            network = ip_network(pattern, strict=False)
            return lambda one: one in network
        if "-" in pattern:
            first, last = (ip_address(part.strip()) for part in pattern.split("-", 1))
            if first.version != last.version or int(first) > int(last):
                raise ValueError
            return lambda one: one.version == first.version and int(first) <= int(one) <= int(last)
        single = ip_address(pattern)
    except ValueError:
        raise IpError(f'ip: invalid pattern: "{pattern}"') from None
    return lambda one: one == single


def contains_address(text: str, contains: Contains) -> bool:
    """Return whether a text has an address that passes a test."""
    at = 0
    while True:
        candidate = _CANDIDATE.search(text, at)
        if candidate is None:
            return False
        at = candidate.start()
        span = None
        if _V4_HINT.match(text, at):
            span = _V4_SPAN.match(text, at)
        elif _V6_HINT.match(text, at):
            span = _V6_SPAN.match(text, at)
        if span is None:
            at += 1
            continue
        if _passes(span[0], contains):
            return True
        at = span.end() + 1


def _passes(text: str, contains: Contains) -> bool:
    try:
        return contains(ip_address(text))
    except ValueError:
        return False
