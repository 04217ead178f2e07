"""The syntax that a statement may use: the allowed nodes, and rules for their combination.

A node that is not listed is rejected, because its effect has not been examined. Safety does not depend on this list
alone: tables and functions are checked by name (`query/sql/references.py`, `query/sql/identifiers.py`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from neve.errors import QueryError
from neve.predicate.names import fold
from neve.query.sql.identifiers import TABLE_FUNCTIONS, split_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Safety does not depend on this list alone: tables and functions are checked by name (`query/sql/references.py`,
# `query/sql/identifiers.py`). The list exists because the effect of a node that has not been examined is unknown.

CLAUSES = (
    *(exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.Values, exp.Tuple, exp.With, exp.CTE),
    *(exp.From, exp.Join, exp.Lateral, exp.Unnest, exp.Table, exp.TableAlias, exp.TableSample, exp.Pivot),
    *(exp.UnpivotColumns, exp.PivotAlias, exp.Where, exp.Group, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Having),
    *(exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.LimitOptions, exp.Offset, exp.Distinct, exp.Summarize),
)
NAMES = (exp.Alias, exp.Column, exp.Columns, exp.Dot, exp.Identifier, exp.Star, exp.Var)
VALUES = (
    *(exp.Literal, exp.Boolean, exp.Null, exp.Interval, exp.Array, exp.Struct, exp.PropertyEQ, exp.Map, exp.ToMap),
    *(exp.Placeholder, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.ColumnDef),
)
OPERATORS = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.Neg, exp.DPipe, exp.Paren),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.SimilarTo, exp.Escape, exp.RegexpFullMatch),
    *(exp.Exists, exp.Any, exp.All, exp.Case, exp.If, exp.AtTimeZone, exp.Bracket, exp.Slice),
    *(exp.Lambda, exp.Comprehension, exp.JSONExtract, exp.JSONExtractScalar, exp.JSONPath, exp.JSONPathRoot),
    *(exp.JSONPathKey, exp.JSONPathSubscript, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup),
    *(exp.IgnoreNulls, exp.RespectNulls),
)
# Functions that the parser knows, with their names for users.
FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Abs: "abs",
    exp.Avg: "avg",
    exp.Coalesce: "coalesce",
    exp.Count: "count",
    exp.CurrentDate: "current_date",
    exp.CurrentTimestamp: "current_timestamp",
    exp.DateBin: "time_bucket",
    exp.DateTrunc: "date_trunc",
    exp.Explode: "unnest",
    exp.Extract: "extract",
    exp.Lower: "lower",
    exp.Max: "max",
    exp.Min: "min",
    exp.StartsWith: "starts_with",
    exp.StrPosition: "position",
    exp.Substring: "substring",
    exp.Sum: "sum",
    exp.TimestampTrunc: "date_trunc",
    exp.Trim: "trim",
    exp.Unhex: "unhex",
    exp.UnixToTime: "to_timestamp",
    exp.Upper: "upper",
}
ALLOWED = frozenset((*CLAUSES, *NAMES, *VALUES, *OPERATORS, *FUNCTIONS, exp.Anonymous))

# Text that a node writes into the statement unchanged. In any other place it is rejected.
FREE_TEXT = {
    *((exp.Identifier, "this"), (exp.Literal, "this"), (exp.Anonymous, "this"), (exp.Placeholder, "this")),
    (exp.JSONPathKey, "this"),
}
WORD = re.compile(r"^\w+$", re.ASCII)
WORDS = {
    *((exp.Join, "method"), (exp.Join, "side"), (exp.Join, "kind"), (exp.Var, "this"), (exp.Trim, "position")),
    *((exp.WindowSpec, "kind"), (exp.WindowSpec, "start"), (exp.WindowSpec, "start_side")),
    *((exp.WindowSpec, "end"), (exp.WindowSpec, "end_side"), (exp.SetOperation, "side"), (exp.SetOperation, "kind")),
    *(
        (exp.Ordered, "nulls_first"),
        (exp.WindowSpec, "exclude"),
        (exp.Window, "over"),
        (exp.Pivot, "pivot_column_naming"),
    ),
}
SENTENCES = {"CURRENT ROW", "CURRENT ROWS"}
TYPES = split_names(
    """BIGINT BINARY BIT BOOLEAN DATE DECIMAL DOUBLE FLOAT INT INT128 INTERVAL JSON LIST ARRAY MAP SMALLINT STRUCT TEXT
    TIME TIMESTAMP TIMESTAMPNTZ TIMESTAMPTZ TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TINYINT UBIGINT UINT UINT128 USMALLINT
    UTINYINT UUID VARBINARY VARCHAR"""
)


def check_nodes(tree: exp.Expr, deepest: int) -> None:
    """Raise `QueryError` for the first unknown node, or if the tree is too deep."""
    todo: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > deepest:
            raise QueryError(
                f"the statement is nested more than {deepest} levels deep", hint="name its parts with WITH"
            )
        _check_node(node)
        todo += [(child, depth + _step(node, child)) for child in node.iter_expressions()]


def _step(node: exp.Expr, child: exp.Expr) -> int:
    """Return the added depth. A chain such as `a + b + c` is one level, regardless of its length."""
    chained = isinstance(node, exp.Binary | exp.SetOperation) and child is node.args.get("this")
    return 0 if chained else 1


def _check_node(node: exp.Expr) -> None:
    if type(node) not in ALLOWED:
        raise QueryError(f"{_node_name(node)} is not allowed in queries", hint=_NODE_HINTS.get(type(node)))
    if isinstance(node, exp.DataType) and _type_name(node) not in TYPES:
        raise QueryError(f"the type {_type_name(node)} is not allowed in queries", hint="use a built-in type")
    for key, value in _node_values(node):
        if isinstance(value, str) and not _is_allowed_text(node, key, value):
            raise QueryError(f"{_node_name(node)} with {value!r} is not allowed in queries")
        if not isinstance(value, str | bool | int | Enum | exp.Expr):
            raise QueryError(f"{_node_name(node)} is not allowed in queries")


def _type_name(node: exp.DataType) -> str:
    kind = node.this
    return str(kind.value) if isinstance(kind, Enum) else "of that name"


def _node_values(node: exp.Expr) -> Iterator[tuple[str, Any]]:
    for key, value in node.args.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield key, item


def _is_allowed_text(node: exp.Expr, key: str, value: str) -> bool:
    if (type(node), key) in FREE_TEXT:
        return True
    known = any(isinstance(node, kind) and key == of for kind, of in WORDS)
    return known and (bool(WORD.match(value)) or value in SENTENCES)


def _node_name(node: exp.Expr) -> str:
    """Return an approximate SQL name of a node: `ReadCSV` is READ CSV."""
    if isinstance(node, exp.Aliases):
        return "a call with two lists of arguments"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


_NODE_HINTS: dict[type[exp.Expr], str] = {
    exp.Aliases: "write quantile_cont(x, 0.95) instead of quantile(0.95)(x)",
    exp.CurrentUser: "requests have an API key, and no user",
}
SEARCH_FUNCTIONS = {"has_term", "has_phrase"}
MAX_DIGITS = 1000  # of a number; no type of DuckDB has a third of it


def check_shape(tree: exp.Expr) -> None:
    """Raise `QueryError` for the first node in a place where it is not allowed."""
    for node in tree.walk():
        check = _CHECKS.get(type(node))
        if check:
            check(node)


def _check_select(node: exp.Expr) -> None:
    if not node.expressions:
        raise QueryError("a SELECT needs something to select")


def _check_literal(node: exp.Expr) -> None:
    """Reject long numbers: parsing them fails in some places and takes long in others."""
    if not node.is_string and len(node.name) > MAX_DIGITS:
        raise QueryError(f"a number has {len(node.name):,} digits, expected {MAX_DIGITS:,} at most")


def _check_join(node: exp.Expr) -> None:
    if str(node.args.get("method") or "").upper() == "POSITIONAL":
        raise QueryError("POSITIONAL JOIN is not allowed in queries: rows have no order of their own")


def _check_pivot(node: exp.Expr) -> None:
    """Require values or an expression. The values of an expression are read first (`query/sql/pivots.py`)."""
    if node.args.get("unpivot"):
        return
    fields = node.args.get("fields")
    for item in fields or node.expressions or [node]:
        is_open = not fields and not isinstance(item, exp.In | exp.Star | exp.Columns | exp.Alias | exp.Pivot)
        if not is_open and not (isinstance(item, exp.In) and item.expressions):
            raise QueryError("a PIVOT needs a column, or its values", hint="PIVOT … ON column IN ('a', 'b') USING …")


def _check_summarize(node: exp.Expr) -> None:
    """Require a query: the statistics of a table are a query by now."""
    if not isinstance(node.this, exp.Query) or node.args.get("table") or not isinstance(node.parent, exp.Subquery):
        raise QueryError("only tables of the lake and queries can be summarized", hint="SUMMARIZE SELECT …")


def _check_limit(node: exp.Expr) -> None:
    if node.expressions:
        raise QueryError(
            "LIMIT … BY is not allowed in queries",
            hint="write QUALIFY row_number() OVER (PARTITION BY service_name ORDER BY timestamp) <= 10",
        )


def _check_dot(node: exp.Expr) -> None:
    if not isinstance(node.args["expression"], exp.Identifier | exp.Star):
        raise QueryError("a function can't be called with a dot", hint="write f(x) instead of x.f()")


def _check_call(node: exp.Expr) -> None:
    if isinstance(node.this, exp.Identifier):
        node.set("this", node.name)
    name = fold(node.name)
    if name in SEARCH_FUNCTIONS:
        _check_search_function(node, name)
    in_from = isinstance(node.parent, exp.Table)
    if name in TABLE_FUNCTIONS and in_from and any(isinstance(item, exp.PropertyEQ) for item in node.expressions):
        raise QueryError(f"{name} takes no named arguments")


def _check_search_function(node: exp.Expr, name: str) -> None:
    arguments = node.expressions
    fits = len(arguments) == 2 and (isinstance(arguments[1], exp.Placeholder) or arguments[1].is_string)
    if not fits:
        raise QueryError(f"{name} takes a text and what to look for, as a literal", hint=f"{name}(message, 'timeout')")


def _check_unnest(node: exp.Expr) -> None:
    if node.args.get("offset") and not isinstance(node.args["offset"], exp.Identifier | bool):
        raise QueryError("UNNEST can't be used in this way")


_CHECKS: dict[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Select: _check_select,
    exp.Literal: _check_literal,
    exp.Join: _check_join,
    exp.Pivot: _check_pivot,
    exp.Summarize: _check_summarize,
    exp.Dot: _check_dot,
    exp.Limit: _check_limit,
    exp.Anonymous: _check_call,
    exp.Unnest: _check_unnest,
}
