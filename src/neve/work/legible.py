"""Documents that a newer release wrote: while two releases share a store, the older one may not know all values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = structlog.get_logger(__name__)

T = TypeVar("T")

_said: set[tuple[str, str]] = set()


def legible(of: Callable[[Mapping[str, Any]], T], document: Mapping[str, Any]) -> T | None:
    """What a document says; none where this release can't tell, which the log says once for each cause.

    Whoever goes through many documents leaves such a one to those who know more, and goes on.
    """
    try:
        return of(document)
    except (KeyError, TypeError, ValueError) as error:
        cause = of.__qualname__, repr(error)
        if cause not in _said:
            _said.add(cause)
            log.warning("record left alone: a newer release may have written it", reader=cause[0], error=cause[1])
        return None
