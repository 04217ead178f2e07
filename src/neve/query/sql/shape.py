"""Rules about how known parts of a statement may be put together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.functions import TABLE_FUNCTIONS
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = {"has_term", "has_phrase"}
MAX_DIGITS = 1000  # of a number; no type of DuckDB holds a third of it


def check_shape(tree: exp.Expr) -> None:
    """Raise `QueryError` for the first part that stands where it may not."""
    for node in tree.walk():
        check = _CHECKS.get(type(node))
        if check:
            check(node)


def _select(node: exp.Expr) -> None:
    if not node.expressions:
        raise QueryError("a SELECT needs something to select")


def _literal(node: exp.Expr) -> None:
    """Reading a longer number fails in some places and takes long in others."""
    if not node.is_string and len(node.name) > MAX_DIGITS:
        raise QueryError(f"a number has {len(node.name):,} digits, expected {MAX_DIGITS:,} at most")


def _join(node: exp.Expr) -> None:
    if str(node.args.get("method") or "").upper() == "POSITIONAL":
        raise QueryError("a POSITIONAL JOIN can't be used in a query: rows have no order of their own")


def _pivot(node: exp.Expr) -> None:
    """Without its values named, a pivot is two statements to DuckDB."""
    listed = node.args.get("fields") or node.expressions
    named = all(isinstance(item, exp.In) and item.expressions for item in listed)
    if not node.args.get("unpivot") and not (listed and named):
        raise QueryError("a PIVOT needs its values", hint="PIVOT … ON column IN ('a', 'b') USING …")


def _dot(node: exp.Expr) -> None:
    if not isinstance(node.args["expression"], exp.Identifier | exp.Star):
        raise QueryError("a function can't be called with a dot", hint="write f(x) instead of x.f()")


def _call(node: exp.Expr) -> None:
    if isinstance(node.this, exp.Identifier):
        node.set("this", node.name)
    name = fold(node.name)
    if name in OWN:
        _own(node, name)
    in_from = isinstance(node.parent, exp.Table)
    if name in TABLE_FUNCTIONS and in_from and any(isinstance(item, exp.PropertyEQ) for item in node.expressions):
        raise QueryError(f"{name} takes no named arguments")


def _own(node: exp.Expr, name: str) -> None:
    arguments = node.expressions
    fits = len(arguments) == 2 and (isinstance(arguments[1], exp.Placeholder) or arguments[1].is_string)
    if not fits:
        raise QueryError(f"{name} takes a text and what to look for, as a literal", hint=f"{name}(message, 'timeout')")


def _unnest(node: exp.Expr) -> None:
    if node.args.get("offset") and not isinstance(node.args["offset"], exp.Identifier | bool):
        raise QueryError("UNNEST can't be used in this way")


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Select: _select,
    exp.Literal: _literal,
    exp.Join: _join,
    exp.Pivot: _pivot,
    exp.Dot: _dot,
    exp.Anonymous: _call,
    exp.Unnest: _unnest,
}
