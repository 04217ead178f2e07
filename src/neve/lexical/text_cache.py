"""Cache of functions of a text that keeps short texts only, so that tenants can't fill the memory with long ones."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["cache_short_texts"]

MAX_CHARS = 2000

_Result = TypeVar("_Result")


def cache_short_texts(most: int) -> Callable[[Callable[[str], _Result]], Callable[[str], _Result]]:
    """Return the decorator that remembers the results of at most so many texts of at most 2,000 characters."""

    def decorate(function: Callable[[str], _Result]) -> Callable[[str], _Result]:
        remember = lru_cache(maxsize=most)(function)

        @wraps(function)
        def call(text: str) -> _Result:
            return remember(text) if len(text) <= MAX_CHARS else function(text)

        return call

    return decorate
