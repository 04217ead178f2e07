"""A tree of DuckDB's SQL as a tree of Spark's that gives the same answer; where there is none, that is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.dialect_clauses import CLAUSES
from neve.query.sql.dialect_functions import rebuilt
from neve.query.sql.dialect_operators import RULES
from neve.query.sql.function_kinds import arguments_of, name_of
from neve.query.sql.kinds import KIND, annotate, kind
from neve.query.sql.nodes import FUNCTIONS
from neve.query.sql.portable import NotPortable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.query.sql.kinds import TableKinds

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.Neg)
BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot)
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In)
OPERATORS = (*ARITHMETIC, *BITS, *COMPARISONS, exp.Between, exp.Not)
DISTINCT = {"count", "sum", "avg", "mean", "min", "max"}
REFUSED: dict[type[exp.Expr], str] = {
    exp.Pivot: "PIVOT",
    exp.TableSample: "a sample",
    exp.Columns: "COLUMNS",
    exp.SimilarTo: "SIMILAR TO",
    exp.Any: "ANY",
    exp.All: "ALL of a subquery",
    exp.Slice: "a slice of a list",
    exp.JSONExtract: "JSON",
    exp.JSONExtractScalar: "JSON",
    exp.BitwiseLeftShift: "a shift of bits",
    exp.BitwiseRightShift: "a shift of bits",
    exp.Map: "MAP of lists",
}


def to_spark(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> exp.Expr:
    """The tree, changed in place, for Spark; raise `NotPortable` where the answer would be another one."""
    annotate(tree, columns)
    for clause in CLAUSES:
        tree = clause(tree, columns)
    annotate(tree, columns)
    for node in reversed(list(tree.walk())):
        new = _rewritten(node)
        if new is node:
            continue
        new.meta[KIND] = kind(node)
        if node is tree:
            tree = new
        else:
            node.replace(new)
    _parenthesise(tree)
    return tree


def _parenthesise(tree: exp.Expr) -> None:
    """Spark binds some operators otherwise than DuckDB; a chain of one operator is left as it is."""
    for node in list(tree.find_all(*OPERATORS)):
        for place in ("this", "expression"):
            operand = node.args.get(place)
            if isinstance(operand, OPERATORS) and not (type(operand) is type(node) and place == "this"):
                operand.replace(exp.Paren(this=operand.copy()))


def _rewritten(node: exp.Expr) -> exp.Expr:
    if type(node) in REFUSED:
        raise NotPortable(REFUSED[type(node)])
    if isinstance(node, exp.Anonymous) and isinstance(node.parent, exp.Table | exp.Lateral):
        return node  # FROM range(…), which is a clause
    if isinstance(node, exp.Identifier) and "${" in node.name:
        raise NotPortable("a name with ${")  # Spark would put the value of a variable there
    if isinstance(node, exp.Anonymous) or type(node) in FUNCTIONS:
        return _function(node)
    rule = RULES.get(type(node))
    return rule(node) if rule else node


def _function(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Explode | exp.StrPosition | exp.CurrentDate | exp.CurrentTimestamp):
        return node
    name = name_of(node)
    if isinstance(node, exp.Min | exp.Max) and node.args.get("count"):
        raise NotPortable(f"{name} of several values")
    if isinstance(node, exp.DateBin | exp.TimestampTrunc | exp.DateTrunc | exp.Extract):
        return rebuilt(name, _time_arguments(node))
    if isinstance(node, exp.Trim):
        side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
        return rebuilt(side, [part for part in (node.this, node.args.get("expression")) if part])
    first = node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
    if isinstance(first, exp.IgnoreNulls | exp.RespectNulls):
        return type(first)(this=rebuilt(name, [first.this.copy(), *(item.copy() for item in node.expressions[1:])]))
    if not isinstance(first, exp.Distinct):
        return rebuilt(name, [argument.copy() for argument in arguments_of(node)])
    if name not in DISTINCT or len(first.expressions) != 1:
        raise NotPortable(f"{name} with DISTINCT")
    return rebuilt(name, [first.copy()])


def _time_arguments(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.DateBin):
        return arguments_of(node)
    if isinstance(node, exp.Extract):
        return [node.this, node.expression]
    return [node.args["unit"], node.this]
