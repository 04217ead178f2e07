"""What kind of value an expression has, as far as that can be told without asking an engine.

Kinds are words: text, int, float, decimal, bool, timestamptz, timestamp, date, blob, interval, null, map (of text),
struct, list<…> with the kind of the elements, and "" where nobody can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from neve.query.sql.function_kinds import kind_of_call
from neve.query.sql.identifiers import fold
from neve.query.sql.references import marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TableKinds = Mapping[str, str]
KIND = "kind"
ROUNDS = 5  # a name may be made of a name that is made of a name
NUMBERS = ("int", "decimal", "float")
TIMES = ("timestamptz", "timestamp", "date")


def kinds_of(schema: pa.Schema) -> TableKinds:
    """The kind of each column of a table."""
    return {fold(field.name): kind_of(field.type) for field in schema}


def kind_of(kind: pa.DataType) -> str:
    """An Arrow type in one word.

    >>> kind_of(pa.int32()), kind_of(pa.map_(pa.string(), pa.string())), kind_of(pa.list_(pa.float64()))
    ('int', 'map', 'list<float>')
    """
    if pa.types.is_map(kind):
        return "map" if kind_of(kind.item_type) == "text" else ""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{kind_of(kind.value_type)}>"
    return next((name for name, is_one in _KINDS if is_one(kind)), "")


def annotate(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> None:
    """Put the kind of each node into its `meta`.

    A name means a column of a table that is read, or an expression that is called so somewhere in the statement. Where
    these differ, nobody can tell.
    """
    nodes = list(reversed(list(tree.walk())))
    names = _lake_names(tree, columns)
    several = sum(isinstance(node, exp.Select) for node in nodes) > 1
    before: dict[str, str] = {}
    for _ in range(ROUNDS):
        found = _round(nodes, {**names, **before})
        after = _merged([names, found]) if several else {}
        if after == before:
            return
        before = after


def kind(node: exp.Expr | None) -> str:
    """The kind that was found for a node."""
    return str(node.meta.get(KIND, "")) if node is not None else ""


def element_of(kind: str) -> str:
    """The kind of a list's elements.

    >>> element_of("list<int>"), element_of("text")
    ('int', '')
    """
    return kind[5:-1] if kind.startswith("list<") else ""


def joined(kinds: Iterable[str]) -> str:
    """The kind of a value that may be of any of these.

    >>> joined(["int", "null", "float"]), joined(["text", "int"])
    ('float', '')
    """
    left = {kind for kind in kinds if kind != "null"}
    if left and left <= set(NUMBERS):
        return max(left, key=NUMBERS.index)
    return left.pop() if len(left) == 1 else "" if left else "null"


def _lake_names(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> dict[str, str]:
    return _merged([columns.get(table.name, {}) for table in marked(tree).values()])


def _merged(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    kinds: dict[str, set[str]] = defaultdict(set)
    for table in tables:
        for name, of in table.items():
            kinds[name].add(of)
    return {name: of.pop() if len(of) == 1 else "" for name, of in kinds.items()}


def _round(nodes: list[exp.Expr], names: Mapping[str, str]) -> dict[str, str]:
    """Kinds of all nodes, children before parents; returns what the names that are given stand for."""
    given: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        node.meta[KIND] = _kind(node, names)
        if isinstance(node, exp.Alias):
            given[fold(node.alias)].add(kind(node.this))
        if isinstance(node, exp.TableAlias):
            for column in node.columns:
                given[fold(column.name)].add("")
        if isinstance(node, exp.Lambda):
            for argument in node.expressions:
                given[fold(argument.name)].add("")
    return {name: of.pop() if len(of) == 1 else "" for name, of in given.items()}


def _kind(node: exp.Expr, names: Mapping[str, str]) -> str:
    if isinstance(node, exp.Column):
        return names.get(fold(node.name), "")
    rule = next((_RULES[base] for base in type(node).__mro__ if base in _RULES), None)
    return rule(node) if rule else ""


def _literal(node: exp.Expr) -> str:
    if node.is_string:
        return "text"
    said = fold(str(node.this))
    return "float" if "e" in said else "decimal" if "." in said else "int"


def _arithmetic(node: exp.Expr) -> str:
    left, right = kind(node.this), kind(node.args.get("expression"))
    if {left, right} <= set(NUMBERS):
        return joined([left, right])
    if right == "interval" and left in {"timestamptz", "timestamp"}:
        return left
    return right if left == "interval" and right in {"timestamptz", "timestamp"} else ""


def _bracket(node: exp.Expr) -> str:
    of = kind(node.this)
    if of == "map":
        return "text"
    return "" if any(isinstance(item, exp.Slice) for item in node.expressions) else element_of(of)


def _case(node: exp.Expr) -> str:
    branches = [branch.args.get("true") for branch in node.args.get("ifs") or [node]]
    otherwise = node.args.get("default") or node.args.get("false")
    return joined(kind(branch) for branch in [*branches, *([otherwise] if otherwise else [])])


def _array(node: exp.Expr) -> str:
    return f"list<{joined(kind(item) for item in node.expressions)}>"


def _subquery(node: exp.Expr) -> str:
    query = node.this
    return kind(query.expressions[0]) if isinstance(query, exp.Select) and query.expressions else ""


def _same(node: exp.Expr) -> str:
    return kind(node.this)


_TYPE_KINDS = {
    **dict.fromkeys(("BIGINT", "INT", "SMALLINT", "TINYINT"), "int"),
    **dict.fromkeys(("DOUBLE", "FLOAT"), "float"),
    **dict.fromkeys(("TEXT", "VARCHAR"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "timestamp"),
    **dict.fromkeys(("VARBINARY", "BINARY"), "blob"),
    **{name: fold(name) for name in ("DATE", "DECIMAL", "TIMESTAMPTZ", "INTERVAL")},
    "BOOLEAN": "bool",
}

_RULES: dict[type, Callable[[exp.Expr], str]] = {
    exp.Literal: _literal,
    exp.Null: lambda _: "null",
    exp.Boolean: lambda _: "bool",
    exp.Interval: lambda _: "interval",
    exp.Cast: lambda node: _TYPE_KINDS.get(str(node.args["to"].this.value), ""),
    **dict.fromkeys((exp.Paren, exp.Neg, exp.Alias, exp.Window, exp.Filter, exp.Ordered), _same),
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup), _same),
    exp.Distinct: lambda node: kind(node.expressions[0]) if node.expressions else "",
    exp.Order: _same,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _arithmetic),
    **dict.fromkeys((exp.Div, exp.Pow), lambda _: "float"),
    **dict.fromkeys((exp.IntDiv, exp.Mod), _arithmetic),
    **dict.fromkeys((exp.And, exp.Or, exp.Not, exp.In, exp.Between, exp.Exists, exp.Predicate), lambda _: "bool"),
    exp.DPipe: lambda _: "text",
    exp.Bracket: _bracket,
    exp.Case: _case,
    exp.If: _case,
    exp.Array: _array,
    exp.ToMap: lambda _: "",
    exp.Struct: lambda _: "struct",
    exp.Subquery: _subquery,
    exp.AtTimeZone: lambda node: {"timestamptz": "timestamp", "timestamp": "timestamptz"}.get(kind(node.this), ""),
    exp.Func: lambda node: kind_of_call(node, kind),
}

_KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("text", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)),
    ("int", pa.types.is_integer),
    ("float", pa.types.is_floating),
    ("decimal", pa.types.is_decimal),
    ("bool", pa.types.is_boolean),
    ("timestamptz", lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None),
    ("timestamp", pa.types.is_timestamp),
    ("date", pa.types.is_date),
    ("blob", lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind)),
    ("struct", pa.types.is_struct),
)
