"""Addresses of machines."""

import ipaddress


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
