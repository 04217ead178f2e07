"""What a function's arguments must be for Spark to give the same."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from neve.query.sql.kinds import TIMES, joined, kind
from neve.query.sql.portable import NotPortable

Builder = Callable[..., exp.Expr]
LIST = "list<"
POSITIVE = "a position that is not a positive literal"


def literal(node: exp.Expr, what: str) -> str:
    """The text of a literal."""
    if not node.is_string:
        raise NotPortable(f"{what} that is not a literal")
    return node.name


def positive(node: exp.Expr, least: int = 1) -> int:
    """The number of a literal that is not below the least."""
    if not (isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) >= least):
        raise NotPortable(POSITIVE)
    return int(node.name)


def need(node: exp.Expr, *kinds: str) -> exp.Expr:
    """The node, if it is of one of these kinds."""
    if not any(kind(node) == one or (one == LIST and kind(node).startswith(LIST)) for one in kinds):
        raise NotPortable("a value whose type can't be told, or that the engines treat differently")
    return node


def check_alike(nodes: list[exp.Expr]) -> None:
    """Raise `NotPortable` for text among numbers and the like: each engine has its own rule for them."""
    kinds = [kind(node) for node in nodes if kind(node) not in {"", "null"}]
    times = set(kinds) <= {*TIMES, "text"}  # a time may be written as text
    if len(set(kinds)) > 1 and not joined(kinds) and not times:
        raise NotPortable("values of several types in one place")
