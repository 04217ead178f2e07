"""What a part failed of, as it is told."""

from __future__ import annotations

from neve.errors import NeveError


def words_of(error: BaseException) -> str:
    """What happened, on one line.

    >>> words_of(OSError("no space")), words_of(NeveError("the catalog is away"))
    ('OSError: no space', 'the catalog is away')
    """
    if isinstance(error, NeveError):
        return error.message
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
