"""A body: one message of a lap, when it is sent, and how its records are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.demo.template import Draft, Places, Template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.demo.pace import Pace


@dataclass(frozen=True)
class Body:
    """A message in every lap; `due` and `keys` count from the start of the lap."""

    template: Template
    due: int
    keys: Places

    @property
    def records(self) -> int:
        """How many there are in it."""
        return len(self.keys)


def bodies(keys: Sequence[int], times: Sequence[int], pace: Pace, draft: Callable[[slice], Draft]) -> Iterator[Body]:
    """Cut records into messages, each sent when the turn of its last record and the latest of its times have come."""
    for start in range(0, len(keys), pace.size):
        part = slice(start, min(len(keys), start + pace.size))
        due = max(pace.at(part.stop), *times[part])
        yield Body(Template.of(draft(part)), due, np.array(keys[part], np.int64))
