"""Short words for the nodes that translations are made of."""

from __future__ import annotations

from sqlglot import exp


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call of a function by its name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def integer(number: int) -> exp.Expr:
    """A whole number."""
    return exp.Literal.number(str(number))


def text(said: str) -> exp.Expr:
    """A text."""
    return exp.Literal.string(said)


def double(node: exp.Expr) -> exp.Expr:
    """A value as a floating-point number."""
    return exp.cast(node.copy(), exp.DType.DOUBLE)


def when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    """One of two values."""
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)


def is_null(node: exp.Expr) -> exp.Expr:
    """Whether there is no value."""
    return exp.Is(this=node.copy(), expression=exp.Null())


def failing(words: str, dtype: exp.DType) -> exp.Expr:
    """A value that is never given: reaching it is an error, as it is one in DuckDB."""
    return exp.cast(call("RAISE_ERROR", text(words)), dtype)
