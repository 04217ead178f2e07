"""What a statement may be made of; whatever is not named here is refused.

Safety does not rest on this list alone: tables and functions are checked by name (`query/sql/references.py`,
`query/sql/functions.py`). The list is there because nobody can say what a node does that nobody has looked at.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.functions import names

if TYPE_CHECKING:
    from collections.abc import Iterator

CLAUSES = (
    *(exp.Select, exp.Subquery, exp.Union, exp.Except, exp.Intersect, exp.Values, exp.Tuple, exp.With, exp.CTE),
    *(exp.From, exp.Join, exp.Lateral, exp.Unnest, exp.Table, exp.TableAlias, exp.TableSample, exp.Pivot),
    *(exp.UnpivotColumns, exp.PivotAlias, exp.Where, exp.Group, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Having),
    *(exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.LimitOptions, exp.Offset, exp.Distinct),
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
# Functions that the parser knows, with the names that users know them by.
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

# Text that goes from a node into the statement as it is; in any other place it is refused.
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
TYPES = names(
    """BIGINT BINARY BIT BOOLEAN DATE DECIMAL DOUBLE FLOAT INT INT128 INTERVAL JSON LIST ARRAY MAP SMALLINT STRUCT TEXT
    TIME TIMESTAMP TIMESTAMPNTZ TIMESTAMPTZ TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_S TINYINT UBIGINT UINT UINT128 USMALLINT
    UTINYINT UUID VARBINARY VARCHAR"""
)


def check_nodes(tree: exp.Expr, deepest: int) -> None:
    """Raise `QueryError` for the first node that is not known, or when the tree is too deep."""
    todo: list[tuple[exp.Expr, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > deepest:
            raise QueryError(
                f"the statement is nested more than {deepest} levels deep", hint="name its parts with WITH"
            )
        _check(node)
        todo += [(child, depth + _step(node, child)) for child in node.iter_expressions()]


def _step(node: exp.Expr, child: exp.Expr) -> int:
    """A chain such as `a + b + c` is one level, however long it is."""
    chained = isinstance(node, exp.Binary | exp.SetOperation) and child is node.args.get("this")
    return 0 if chained else 1


def _check(node: exp.Expr) -> None:
    if type(node) not in ALLOWED:
        raise QueryError(f"{_name(node)} can't be used in a query")
    if isinstance(node, exp.DataType) and _type_name(node) not in TYPES:
        raise QueryError(f"the type {_type_name(node)} can't be used in a query", hint="use a built-in type")
    for key, value in _values(node):
        if isinstance(value, str) and not _is_allowed_text(node, key, value):
            raise QueryError(f"{_name(node)} with {value!r} can't be used in a query")
        if not isinstance(value, str | bool | int | Enum | exp.Expr):
            raise QueryError(f"{_name(node)} can't be used in a query")


def _type_name(node: exp.DataType) -> str:
    kind = node.this
    return str(kind.value) if isinstance(kind, Enum) else "of that name"


def _values(node: exp.Expr) -> Iterator[tuple[str, Any]]:
    for key, value in node.args.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield key, item


def _is_allowed_text(node: exp.Expr, key: str, value: str) -> bool:
    if (type(node), key) in FREE_TEXT:
        return True
    known = any(isinstance(node, kind) and key == of for kind, of in WORDS)
    return known and (bool(WORD.match(value)) or value in SENTENCES)


def _name(node: exp.Expr) -> str:
    """How a node is called in SQL, more or less: `ReadCSV` is READ CSV."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()
