"""Addresses of machines."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from neve.errors import ConfigError

HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")


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


def plain_host(value: str) -> str:
    """A host name or address without a port, in lower case; raises `ValueError` for anything else."""
    name = value.lower().strip("[]")
    if host_name(f"[{name}]" if ":" in name else name) != name:
        raise ValueError("should be a host name or address, without a scheme and a port")
    return name


Hosts = tuple[Annotated[str, AfterValidator(plain_host)], ...]


def host_name(header: str) -> str | None:
    """The host that a `Host` header names, without its port; none where it names none.

    >>> host_name("LOCALHOST:8480"), host_name("[::1]:8480"), host_name("127.0.0.1"), host_name("a b"), host_name("::1")
    ('localhost', '::1', '127.0.0.1', None, None)
    """
    match = HOST.fullmatch(header.strip().lower())
    return (match[1] or match[2]) if match else None


def check_hosts(section: str, auth: str, allowed: Hosts) -> None:
    """Raise `ConfigError` for hosts that are allowed on a port without keys, which answers to loopback names only."""
    if auth == "open" and allowed:
        raise ConfigError(
            f"{section}.allowed_hosts is {', '.join(allowed)} and {section}.auth is 'open', expected auth 'keys'",
            hint="a port without keys answers to localhost and loopback addresses only",
        )


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
