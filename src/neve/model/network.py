"""Addresses of machines."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def http_address(value: str, expected: str) -> str:
    """An http:// or https:// address without secrets in it; raises `ValueError` that says what was expected.

    >>> http_address("https://collector.example:4318/otlp", "should be an address")
    'https://collector.example:4318/otlp'
    """
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(expected)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("should have no user, password or query; secrets belong into headers")
    return value
