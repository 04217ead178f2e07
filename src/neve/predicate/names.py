"""Names in SQL, as DuckDB compares them. Worker processes of queries load this module, so it imports no parser."""

from __future__ import annotations

import string

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    r"""Lower the ASCII letters of a name and leave all others as they are.

    Python's `lower` folds all of Unicode: the Kelvin sign becomes a `k`, and two names would be one here that are two
    to the engine.

    >>> fold("Logs"), fold("\u212aey") == "key"
    ('logs', False)
    """
    return name.lower() if name.isascii() else name.translate(_ASCII_LOWER)
