"""Pieces of SQL with their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FALSE", "Sql", "join_all", "join_any"]


@dataclass(frozen=True, slots=True)
class Sql:
    """Text with `?` for each parameter."""

    text: str
    parameters: tuple[Any, ...] = ()

    def apply(self, value: Sql) -> Sql:
        """Return a template with a value at each of its `{}`, and all parameters in their order.

        >>> Sql("({} = ? OR {} IS NULL)", (1,)).apply(Sql("m[?]", ("k",)))
        Sql(text='(m[?] = ? OR m[?] IS NULL)', parameters=('k', 1, 'k'))
        """
        parts, given = self.text.split("{}"), iter(self.parameters)
        text, parameters = parts[0], list(islice(given, parts[0].count("?")))
        for part in parts[1:]:
            text += value.text + part
            parameters += [*value.parameters, *islice(given, part.count("?"))]
        return Sql(text, tuple(parameters))


FALSE = Sql("false")


def join_all(parts: Sequence[Sql | None]) -> Sql | None:
    """Return the conjunction of conditions; `None` is no condition."""
    found = [one for one in parts if one is not None]
    return _join(" AND ", found) if found else None


def join_any(parts: Sequence[Sql | None]) -> Sql | None:
    """Return the disjunction of conditions: none if one of them is `None`."""
    found = [one for one in parts if one is not None]
    return _join(" OR ", found) if found and len(found) == len(parts) else None


def _join(word: str, parts: Sequence[Sql]) -> Sql:
    distinct = list(dict.fromkeys(parts))
    if len(distinct) == 1:
        return distinct[0]
    return Sql(
        f"({word.join(one.text for one in distinct)})", tuple(one for part in distinct for one in part.parameters)
    )
