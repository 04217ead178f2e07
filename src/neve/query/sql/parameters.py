"""Parameters of a statement. They become literals of the tree, never text of the statement."""

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


def bind(tree: exp.Expr, parameters: Parameters) -> None:
    """Replace every `?`, `$1`, `$name` or `:name` in the tree. Each placeholder needs a value, and vice versa."""
    values = _values_by_name(parameters)
    places = list(tree.find_all(exp.Placeholder))
    numbers = _number_question_marks(places)
    for node in places:
        name = numbers.get(node.name, node.name)
        if name not in values:
            raise QueryError(
                f"there is no value for the parameter {_format_parameter(name)}", hint=_parameters_hint(values)
            )
        node.replace(literal_of(values[name], name))
    used = {numbers.get(node.name, node.name) for node in places}
    extra = [name for name in values if name not in used]
    if extra:
        raise QueryError(
            f"the statement has no parameter {_format_parameter(extra[0])}", hint="remove it from the request"
        )


def literal_of(value: Any, name: str = "") -> exp.Expr:
    """Return a value as a literal node.

    >>> literal_of(b"a").sql("duckdb"), literal_of(-1.5).sql("duckdb")
    ("UNHEX('61')", '(-1.5e0)')
    """
    for kind, build in _BUILDERS:
        if isinstance(value, kind):
            return build(value)
    raise QueryError(
        f"the parameter {_format_parameter(name)} is a {type(value).__name__}, "
        "expected text, a number, a boolean, bytes or a time"
    )


def _number_question_marks(places: list[exp.Placeholder]) -> dict[str, str]:
    """Number question marks in the order of the text."""
    marks = sorted((node.name for node in places if node.name.startswith(QUESTION)), key=lambda name: int(name[1:]))
    return {mark: str(number) for number, mark in enumerate(marks, 1)}


def _values_by_name(parameters: Parameters) -> dict[str, Any]:
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    return {str(number): value for number, value in enumerate(parameters, 1)}


def _format_parameter(name: str) -> str:
    return f"${name}"


def _parameters_hint(values: dict[str, Any]) -> str:
    return f"given: {', '.join(map(_format_parameter, values))}" if values else "none was given"


def _text_literal(value: str) -> exp.Expr:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise QueryError("a parameter has a character that is not text", hint="send bytes")
    return exp.Literal.string(value)


def _int_literal(value: int) -> exp.Expr:
    if not -(2**127) < value < 2**127:
        raise QueryError(f"the parameter {value} is too large for an integer")
    return _signed_literal(str(abs(value)), negative=value < 0)


def _float_literal(value: float) -> exp.Expr:
    """Return a literal with an exponent: a plain `1.5` would be a decimal."""
    if not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), exp.DType.DOUBLE)
    said = repr(abs(value))
    return _signed_literal(said if "e" in said else f"{said}e0", negative=math.copysign(1, value) < 0)


def _signed_literal(digits: str, *, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _time_literal(value: datetime) -> exp.Expr:
    """Return a time literal. A time without a zone is in UTC."""
    moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), exp.DType.TIMESTAMPTZ)


_BUILDERS: tuple[tuple[type, Callable[[Any], exp.Expr]], ...] = (
    (type(None), lambda _: exp.Null()),
    (bool, lambda value: exp.Boolean(this=value)),
    (int, _int_literal),
    (float, _float_literal),
    (str, _text_literal),
    (bytes, lambda value: exp.Unhex(this=exp.Literal.string(value.hex()))),
    (datetime, _time_literal),
    (date, lambda value: exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)),
)
