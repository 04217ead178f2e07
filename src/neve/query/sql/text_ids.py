"""Ids as text: `trace_id = '5b8aa5a2…'` compares the 16 bytes of the column with hexadecimal digits.

Columns of ids are binary. DuckDB would compare their bytes with the characters of the text, and find nothing. So a text
beside such a column becomes the bytes that it means, before files are planned: pruning by bucket and by bounds works as
with `unhex('…')`. People paste ids in many forms: with dashes, with `0x`, as a `traceparent`, as `trace/span`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.predicate.names import fold
from neve.query.planning.conditions import Conditions
from neve.query.sql.references import SCAN, find_lake_tables
from neve.query.sql.type_inference import annotate, kind, kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

TRACE_DIGITS, SPAN_DIGITS = 32, 16
DIGITS = {
    "trace_id": TRACE_DIGITS,
    "span_id": SPAN_DIGITS,
    "parent_span_id": SPAN_DIGITS,
    "record_id": TRACE_DIGITS,
}
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
RENAMING = (exp.PropertyEQ, exp.TableAlias, exp.UnpivotColumns, exp.PivotAlias)  # nodes that give names to columns
HEX = re.compile(r"[0-9a-f]+")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
PAIR = re.compile(r"([0-9a-f]{32})[/:]([0-9a-f]{16})(?:;.*)?")
ESCAPED = re.compile(r"(?:\\x[0-9a-f]{2})+")


def parse_id(text: str, name: str) -> str | None:
    """Return the hexadecimal digits of an id of a column, or `None` if a text is no id.

    >>> parse_id("5B8AA5A2-D2C8-72E8-321C-F37308D69DF2", "trace_id")
    '5b8aa5a2d2c872e8321cf37308d69df2'
    >>> parse_id("00-5b8aa5a2d2c872e8321cf37308d69df2-051581bf3cb55c13-01", "span_id")
    '051581bf3cb55c13'
    """
    wanted = DIGITS[name]
    said = text.strip().lower().strip("{}")
    both = TRACEPARENT.fullmatch(said) or PAIR.fullmatch(said)
    if both is not None:
        return both[1] if wanted == TRACE_DIGITS else both[2]
    if ESCAPED.fullmatch(said):
        said = said.replace("\\x", "")
    digits = said.removeprefix("0x").replace("-", "")
    if not HEX.fullmatch(digits):
        return None
    if name == "trace_id" and len(digits) == SPAN_DIGITS:
        return digits.rjust(TRACE_DIGITS, "0")  # an id of 64 bits, as older tracers write it
    return digits if len(digits) == wanted else ""


def convert_text_ids(tree: exp.Expr, tables: Mapping[str, pa.Schema]) -> None:
    """Replace texts that are compared with columns of ids by their bytes.

    Raises `QueryError` for hexadecimal digits of another length: no row could match.
    """
    found = list(_find_comparisons(tree))
    if found:
        columns = _IdColumns(tree, tables)
        for column, texts in found:
            if columns.is_id(column):
                for text in texts:
                    _convert(text, fold(column.name))


def _convert(text: exp.Expr, name: str) -> None:
    digits = parse_id(text.name, name)
    if digits is None:
        return
    if not digits:
        raise QueryError(
            f"{name} is compared with {len(text.name)} characters, expected {DIGITS[name]} hexadecimal digits",
            hint=f"for a part of an id, write lower(hex({name})) LIKE '5b8a%'",
        )
    text.replace(exp.Unhex(this=exp.Literal.string(digits)))


def _find_comparisons(tree: exp.Expr) -> Iterator[tuple[exp.Column, list[exp.Expr]]]:
    """Yield columns with the names of ids, each with the texts that it is compared with."""
    for node in tree.find_all(*COMPARISONS, exp.In, exp.Between):
        sides = [side.unnest() for side in _operands(node)]
        columns = [side for side in sides if isinstance(side, exp.Column) and fold(side.name) in DIGITS]
        texts = [side for side in sides if side.is_string]
        if len(columns) == 1 and texts:
            yield columns[0], texts


def _operands(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.In):
        return [node.this, *node.expressions]
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    return [node.this, node.args["expression"]]


class _IdColumns:
    """Finder of columns that have the bytes of an id."""

    def __init__(self, tree: exp.Expr, tables: Mapping[str, pa.Schema]) -> None:
        names = {table.name for table in find_lake_tables(tree).values()}
        self._kinds = {name: kinds_of(tables[name]) for name in names if name in tables}
        self._conditions = Conditions(tree, {name: frozenset(kinds) for name, kinds in self._kinds.items()})
        annotate(tree, self._kinds)
        named = (node for node in tree.find_all(exp.Identifier) if isinstance(node.parent, RENAMING))
        aliases = (node for node in tree.find_all(exp.Alias) if kind(node.this) != "blob")
        self._renamed = {fold(node.name) for node in named} | {fold(node.alias) for node in aliases}

    def is_id(self, column: exp.Column) -> bool:
        """Return whether a column is one of a table of the lake, directly or by a name that means nothing else."""
        select = column.find_ancestor(exp.Select)
        if select is not None and column.find_ancestor(exp.Where, exp.Join, exp.Select) is not select:
            owner = self._conditions.owner(column, select)
            if isinstance(owner, exp.Table) and SCAN in owner.meta:
                return self._kinds[owner.name].get(fold(column.name)) == "blob"
        return fold(column.name) not in self._renamed and kind(column) == "blob"
