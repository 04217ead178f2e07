"""Base class of the settings sections, and checks of values that many of them have: organizations, hosts, addresses."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict

from neve.errors import ConfigError


class Section(BaseModel):
    """A part of the configuration: frozen, and without room for unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


ORGANIZATION_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"

# Owner of records that concern the whole lake. No organization can have this name, so no tenant reads them.
LAKE_OWNER = "*"


def check_organization(name: str) -> str:
    """Return the name of an organization. Raises `ConfigError` if it is not valid."""
    if not re.fullmatch(ORGANIZATION_PATTERN.strip("^$"), name):
        raise ConfigError(f"organization is {name!r}, expected 1 to 64 letters, digits, dots, dashes and underscores")
    return name


HOST_PATTERN = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def normalize_host(value: str) -> str:
    """Return a host name or address without a port, in lower case. Raises `ValueError` for anything else."""
    name = value.lower().strip("[]")
    if parse_host_header(f"[{name}]" if ":" in name else name) != name:
        raise ValueError("should be a host name or address, without a scheme and a port")
    return name


Hosts = tuple[Annotated[str, AfterValidator(normalize_host)], ...]


def parse_host_header(header: str) -> str | None:
    """Return the host of a `Host` header without its port, or None if the header is not valid.

    >>> headers = ("LOCALHOST:8480", "[::1]:8480", "127.0.0.1", "a b", "::1")
    >>> [parse_host_header(header) for header in headers]
    ['localhost', '::1', '127.0.0.1', None, None]
    """
    match = HOST_PATTERN.fullmatch(header.strip().lower())
    return (match[1] or match[2]) if match else None


def check_open_host(section: str, host: str, remedy: str) -> None:
    """Raise `ConfigError` for a port without keys and client certificates that other machines can reach."""
    if not is_loopback(host):
        raise ConfigError(
            f"{section}.auth is 'open' and {section}.host is {host!r}, expected a loopback address or auth 'keys'",
            hint=f"set {section}.auth to keys, and {remedy}; or require client certificates with {section}.tls",
        )


def check_hosts(section: str, auth: str, allowed: Hosts) -> None:
    """Raise `ConfigError` for allowed hosts on a port without keys, which responds to loopback names only."""
    if auth == "open" and allowed:
        raise ConfigError(
            f"{section}.allowed_hosts is {', '.join(allowed)} and {section}.auth is 'open', expected auth 'keys'",
            hint="a port without keys answers to localhost and loopback addresses only",
        )


def check_http_address(value: str, expected: str) -> str:
    """Return an http:// or https:// address without secrets. Raises `ValueError` with the expected form for any other.

    >>> check_http_address("https://collector.example:4318/otlp", "should be an address")
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


def as_text(values: object) -> object:
    """Return a map with plain values as text: "4" for 4, "true" for true."""
    if not isinstance(values, dict):
        return values
    return {key: _to_text(value) for key, value in values.items()}


def _to_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def redact_uri(uri: str) -> str:
    """Return an address without login and parameters, for display."""
    parts = urlsplit(uri)
    host = parts.netloc.rsplit("@", 1)[-1]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else parts.path
