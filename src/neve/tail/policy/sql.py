"""Pieces of DuckDB's SQL that know which columns they read."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Sql:
    """An expression and the columns of `neve.tail.spans` that it reads."""

    text: str
    columns: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.text


FALSE = Sql("false")
TRUE = Sql("true")


def column(name: str) -> Sql:
    """A column of the spans."""
    return Sql(name, frozenset((name,)))


def sql(template: str, *parts: Sql | str) -> Sql:
    """Parts put together; the columns of the whole are those of its parts.

    >>> sql("({} AND {})", column("name"), TRUE)
    Sql(text='(name AND true)', columns=frozenset({'name'}))
    """
    columns = frozenset[str]().union(*(part.columns for part in parts if isinstance(part, Sql)))
    return Sql(template.format(*parts), columns)


def joined(separator: str, parts: list[Sql]) -> Sql:
    """Parts one after the other."""
    return sql(separator.join("{}" for _ in parts), *parts)


def any_of(parts: list[Sql]) -> Sql:
    """True where one part is; parts are never null."""
    kept = [part for part in parts if part != FALSE]
    if not kept:
        return FALSE
    return kept[0] if len(kept) == 1 else sql("({})", joined(" OR ", kept))


def all_of(parts: list[Sql]) -> Sql:
    """True where every part is."""
    kept = [part for part in parts if part != TRUE]
    if not kept:
        return TRUE
    return kept[0] if len(kept) == 1 else sql("({})", joined(" AND ", kept))


def text(value: str) -> Sql:
    """A text as SQL writes it; NUL ends a statement, so it can't be written as it is.

    >>> text("it's").text
    "'it''s'"
    """
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return Sql(pieces[0] if len(pieces) == 1 else f"({' || chr(0) || '.join(pieces)})")


def integer(value: int) -> Sql:
    """A whole number of 64 bits."""
    return Sql(f"CAST({value} AS BIGINT)")


def double(value: float) -> Sql:
    """A floating-point number, exactly."""
    return Sql(f"CAST('{value!r}' AS DOUBLE)" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)")


def blob(value: bytes) -> Sql:
    """Bytes."""
    return Sql(f"unhex('{value.hex()}')")


def boolean(value: bool) -> Sql:
    """True or false."""
    return TRUE if value else FALSE
