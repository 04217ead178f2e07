"""Conditions of SQL as the filter that they are for one table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.autopilot.parse.term import function_name
from neve.autopilot.parse.tester import FLIPPED, Tester
from neve.autopilot.parse.trees import NEVER, all_of, any_of
from neve.autopilot.parse.values import Unknown
from neve.autopilot.workload import Test

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.autopilot.parse.constants import Constants
    from neve.autopilot.parse.term import Term
    from neve.autopilot.parse.terms import Terms
    from neve.autopilot.workload import Filter, Value

OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
ESCAPED = {"spark", "clickhouse"}  # a backslash takes a pattern's character as it is


@dataclass(frozen=True)
class Filters:
    """Reads conditions of the SELECT at a place on a path to a table."""

    terms: Terms
    constants: Constants
    at: int

    def filter(self, node: exp.Expr) -> Filter | None:
        """What a condition asks of the table; `None` where it says nothing of it."""
        return self._filter(node, truth=True)

    def _filter(self, node: exp.Expr, *, truth: bool) -> Filter | None:
        node = node.unnest()
        if isinstance(node, exp.Not):
            return self._filter(node.this, truth=not truth)
        if isinstance(node, exp.And | exp.Or):
            parts = [self._filter(part, truth=truth) for part in node.flatten()]
            return all_of(parts) if isinstance(node, exp.And) == truth else any_of(parts)
        read = _READERS.get(type(node))
        found = read(self, node, truth) if read else None
        return found if found is not None else self._said(node, truth=truth)

    def _said(self, node: exp.Expr, *, truth: bool) -> Filter | None:
        """A column that is a condition by itself, a constant, or something that nobody can tell."""
        term = self.terms.term(node, self.at)
        if term is not None:
            return self._tester(term).flag(truth=truth)
        try:
            value = self.constants.value(node)
        except Unknown:
            return self._other(node)
        return None if value is not None and bool(value) == truth else NEVER

    def _other(self, node: exp.Expr) -> Filter | None:
        """What nobody can tell of the table's columns; where others have a say, it is nothing about the table."""
        terms = {term.column: term for term in self.terms.mentioned(node, self.at)}
        if self.terms.is_shared(node, self.at):
            return None
        name = function_name(node)
        return all_of([Test(term.column, "other", function=term.function or name) for term in terms.values()])

    def _compare(self, node: exp.Expr, truth: bool) -> Filter | None:
        operator = OPERATORS[type(node)] if truth else OPPOSITE[OPERATORS[type(node)]]
        for column, value, sign in (
            (node.this, node.expression, operator),
            (node.expression, node.this, FLIPPED[operator]),
        ):
            term = self.terms.term(column, self.at)
            if term is not None:
                return self._valued(term, sign, value)
        return self._fixed(node, operator)

    def _fixed(self, node: exp.Expr, operator: str) -> Filter | None:
        """Constants on both sides: `1 = 0` is how tools ask for columns without rows."""
        try:
            left, right = self.constants.value(node.this), self.constants.value(node.expression)
        except Unknown:
            return None
        if operator not in {"=", "<>"} or type(left) is not type(right):
            return None
        return None if (left == right) == (operator == "=") and left is not None else NEVER

    def _valued(self, term: Term, operator: str, node: exp.Expr) -> Filter | None:
        try:
            value = self.constants.value(node)
        except Unknown:
            return None
        return self._tester(term).compared(operator, value)

    def _between(self, node: exp.Expr, truth: bool) -> Filter | None:
        term = self.terms.term(node.this, self.at)
        ends = self._values([node.args["low"], node.args["high"]])
        if term is None or ends is None or node.args.get("symmetric"):
            return None
        tester = self._tester(term)
        low = tester.compared(">=" if truth else "<", ends[0])
        high = tester.compared("<=" if truth else ">", ends[1])
        if not truth:
            return any_of([low, high])
        return _joined(low, high) or all_of([low, high])

    def _values(self, nodes: list[exp.Expr]) -> list[Value | None] | None:
        """Values that are compared in one type; text among times becomes a time in one engine and a day in another."""
        try:
            values = [self.constants.value(node) for node in nodes]
        except Unknown:
            return None
        is_mixed = any(isinstance(one, str) for one in values) and any(isinstance(one, date) for one in values)
        return None if is_mixed else values

    def _in(self, node: exp.Expr, truth: bool) -> Filter | None:
        listed = node.expressions or (node.args["field"].expressions if node.args.get("field") is not None else [])
        term = self.terms.term(node.this, self.at)
        values = self._values(listed)
        if term is None or not listed or values is None or node.args.get("query") is not None:
            return None
        return self._tester(term).among(values, truth=truth)

    def _like(self, node: exp.Expr, truth: bool) -> Filter | None:
        escape = ""
        if isinstance(node, exp.Escape):
            escape, node = node.expression.name, node.this
        term = self.terms.term(node.this, self.at) if isinstance(node, exp.Like) else None
        if term is None or not node.expression.is_string:
            return None
        dialect = self.terms.dialect
        prefix, rest = _prefix(node.expression.name, escape or ("\\" if dialect in ESCAPED else ""))
        if truth:
            return self._tester(term).like(prefix, whole=not rest)
        return self._tester(term).compared("<>", prefix) if not rest else self._tester(term).other()

    def _starts(self, node: exp.Expr, truth: bool) -> Filter | None:
        if isinstance(node, exp.Anonymous):
            is_prefix = node.name.lower() == "prefix" and len(node.expressions) == 2
            arguments = node.expressions if is_prefix else []
        else:
            arguments = [node.this, node.expression]
        term = self.terms.term(arguments[0], self.at) if arguments else None
        if term is None or not arguments[1].is_string:
            return None
        tester = self._tester(term)
        return tester.like(arguments[1].name, whole=False) if truth else tester.other()

    def _is(self, node: exp.Expr, truth: bool) -> Filter | None:
        term = self.terms.term(node.this, self.at)
        if term is None:
            return None
        tester = self._tester(term)
        if isinstance(node.expression, exp.Null):
            return tester.null(truth=truth)
        if isinstance(node.expression, exp.Boolean) and truth:
            return tester.flag(truth=bool(node.expression.this))
        return tester.other()

    def _same(self, node: exp.Expr, truth: bool) -> Filter | None:
        """Comparisons that hold a null to be like a null."""
        is_same = isinstance(node, exp.NullSafeEQ) == truth
        term = self.terms.term(node.this, self.at)
        if term is None:
            return None
        tester = self._tester(term)
        try:
            value = self.constants.value(node.expression)
        except Unknown:
            return tester.other()
        if value is None:
            return tester.null(truth=is_same)
        if is_same:
            return tester.compared("=", value)
        return any_of([tester.compared("<>", value), tester.null(truth=True)])

    def _tester(self, term: Term) -> Tester:
        return Tester(term, self.terms.dialect)


def _joined(low: Filter | None, high: Filter | None) -> Filter | None:
    """Both ends of one range as one test."""
    if not (isinstance(low, Test) and isinstance(high, Test)) or {low.kind, high.kind} != {"range"}:
        return None
    if low.high is not None or high.low is not None or low.column != high.column:
        return None
    return Test(low.column, "range", (), low.low, high.high, low.low_inclusive, high.high_inclusive, low.function)


def _prefix(pattern: str, escape: str) -> tuple[str, str]:
    """The text before the first wildcard of a pattern, and the rest."""
    said, place = "", 0
    while place < len(pattern):
        letter = pattern[place]
        if escape and letter == escape and place + 1 < len(pattern):
            said, place = said + pattern[place + 1], place + 2
            continue
        if letter in "%_":
            return said, pattern[place:]
        said, place = said + letter, place + 1
    return said, ""


_READERS: dict[type[exp.Expr], Callable[[Filters, exp.Expr, bool], Filter | None]] = {
    **dict.fromkeys(OPERATORS, Filters._compare),
    exp.Between: Filters._between,
    exp.In: Filters._in,
    exp.Like: Filters._like,
    exp.Escape: Filters._like,
    exp.StartsWith: Filters._starts,
    exp.Anonymous: Filters._starts,
    exp.Is: Filters._is,
    exp.NullSafeEQ: Filters._same,
    exp.NullSafeNEQ: Filters._same,
}
