"""Long lists of examples: some of them run each time, the others with the long tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def each_time(examples: Iterable[tuple[str, Any]], one_in: int) -> list[Any]:
    """Parameters of named examples, of which one in so many runs each time."""
    return [
        pytest.param(example, id=name, marks=[] if place % one_in == 0 else [pytest.mark.long])
        for place, (name, example) in enumerate(examples)
    ]
