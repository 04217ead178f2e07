"""The name of a tenant."""

import re

from neve.errors import ConfigError

PATTERN = r"^[A-Za-z0-9._-]{1,64}$"


def check_organization(name: str) -> str:
    """The name itself; raises `ConfigError` where it is none."""
    if not re.fullmatch(PATTERN.strip("^$"), name):
        raise ConfigError(f"organization is {name!r}, expected 1 to 64 letters, digits, dots, dashes and underscores")
    return name
