"""Values that are sent beside a statement: they become literals of the tree, never text of the statement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.dialect import QUESTION

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = Sequence[Any] | Mapping[str, Any]


def bind(tree: exp.Expression, parameters: Parameters) -> exp.Expression:
    """The tree with every `?`, `$1`, `$name` or `:name` replaced; each value must be asked for, and the other way."""
    values = _named(parameters)
    places = list(tree.find_all(exp.Placeholder))
    numbers = _numbers(places)
    for node in places:
        name = numbers.get(node.name, node.name)
        if name not in values:
            raise QueryError(f"there is no value for the parameter {_said(name)}", hint=_given(values))
        node.replace(literal_of(values[name], name))
    used = {numbers.get(node.name, node.name) for node in places}
    extra = [name for name in values if name not in used]
    if extra:
        raise QueryError(f"the statement does not ask for the parameter {_said(extra[0])}", hint="leave it out")
    return tree


def literal_of(value: Any, name: str = "") -> exp.Expr:
    """A value as a node.

    >>> literal_of(b"a").sql("duckdb"), literal_of(-1.5).sql("duckdb")
    ("UNHEX('61')", '(-1.5e0)')
    """
    for kind, build in _BUILDERS:
        if isinstance(value, kind):
            return build(value)
    raise QueryError(
        f"the parameter {_said(name)} is a {type(value).__name__}, expected text, a number, a boolean, bytes or a time"
    )


def _numbers(places: list[exp.Placeholder]) -> dict[str, str]:
    """Question marks are numbered as they stand in the text."""
    marks = sorted((node.name for node in places if node.name.startswith(QUESTION)), key=lambda name: int(name[1:]))
    return {mark: str(number) for number, mark in enumerate(marks, 1)}


def _named(parameters: Parameters) -> dict[str, Any]:
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    return {str(number): value for number, value in enumerate(parameters, 1)}


def _said(name: str) -> str:
    return f"${name}"


def _given(values: dict[str, Any]) -> str:
    return f"given: {', '.join(map(_said, values))}" if values else "none was given"


def _text(value: str) -> exp.Expr:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise QueryError("a parameter has a character that is no text", hint="send bytes")
    return exp.Literal.string(value)


def _int(value: int) -> exp.Expr:
    if not -(2**127) < value < 2**127:
        raise QueryError(f"the parameter {value} is too large for an integer")
    return _signed(str(abs(value)), negative=value < 0)


def _float(value: float) -> exp.Expr:
    """With an exponent: a plain `1.5` would be a decimal."""
    if not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), exp.DType.DOUBLE)
    said = repr(abs(value))
    return _signed(said if "e" in said else f"{said}e0", negative=math.copysign(1, value) < 0)


def _signed(digits: str, *, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _time(value: datetime) -> exp.Expr:
    """A time without a zone is taken as UTC."""
    moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), exp.DType.TIMESTAMPTZ)


_BUILDERS: tuple[tuple[type, Callable[[Any], exp.Expr]], ...] = (
    (type(None), lambda _: exp.Null()),
    (bool, lambda value: exp.Boolean(this=value)),
    (int, _int),
    (float, _float),
    (str, _text),
    (bytes, lambda value: exp.Unhex(this=exp.Literal.string(value.hex()))),
    (datetime, _time),
    (date, lambda value: exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)),
)
