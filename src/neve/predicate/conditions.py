"""SQL conditions as the filter on one table: AND, OR and NOT, comparisons, lists, patterns and tests for null.

A filter is true for all rows for which the condition is true, and perhaps for more. Filters have no third truth value,
so a condition and its negation are read separately, and no filter is ever negated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlglot import exp

from neve.predicate.comparisons import ComparisonBuilder, Rules
from neve.predicate.filters import NEVER, Test, all_of, any_of
from neve.predicate.values import UnknownValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.predicate.filters import Filter
    from neve.predicate.terms import Term
    from neve.predicate.values import Constant


OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
NEGATED_OPERATORS = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED_OPERATORS = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
UNUSUAL_LISTS = ("query", "unnest", "is_global")


class Terms(Protocol):
    """Finder of the columns of one table in a condition."""

    def term(self, node: exp.Expr) -> Term | None:
        """Return the term of a node; `None` if it is not a column of the table alone."""

    def other(self, node: exp.Expr) -> Filter | None:
        """Return the filter of an expression that is not understood."""


class Constants(Protocol):
    """Evaluator of expressions without columns."""

    def values(self, term: Term, nodes: Sequence[exp.Expr]) -> list[Constant]:
        """Return values that are compared with a term, all in one type. Raises `UnknownValue`."""

    def truth(self, node: exp.Expr) -> bool | None:
        """Return the truth of a condition. Raises `UnknownValue`."""


def may_filter(join: exp.Join, *, is_joined: bool) -> bool:
    """Return whether the ON of a join may remove rows of an item: of a side that must match, not of a preserved one.

    `is_joined` is true if the item is the one on the right of the join.
    """
    if str(join.args.get("method") or "").upper() == "ASOF":
        return False
    side = str(join.args.get("side") or "").upper()
    if is_joined:
        return side not in {"RIGHT", "FULL"}
    return side in {"", "RIGHT"} and str(join.args.get("kind") or "").upper() != "ANTI"


@dataclass(frozen=True)
class ConditionReader:
    """Reader of the conditions on one table."""

    terms: Terms
    constants: Constants
    rules: Rules

    def filter(self, node: exp.Expr) -> Filter | None:
        """Return the filter of a condition on the table; `None` if it doesn't restrict the table."""
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
        return found if found is not None else self._plain(node, truth=truth)

    def _plain(self, node: exp.Expr, *, truth: bool) -> Filter | None:
        """Return the filter of a column that is a condition by itself, of a constant, or of an unknown expression."""
        term = self.terms.term(node)
        if term is not None:
            return self._builder(term).flag(truth=truth)
        try:
            value = self.constants.truth(node)
        except UnknownValue:
            return self.terms.other(node)
        return None if value is not None and value == truth else NEVER

    def _compare(self, node: exp.Expr, truth: bool) -> Filter | None:
        operator = OPERATORS[type(node)] if truth else NEGATED_OPERATORS[OPERATORS[type(node)]]
        found = self._find_side(node)
        if found is None:
            return None
        term, other, is_flipped = found
        values = self._values(term, [other])
        if values is None:
            return None
        return self._builder(term).compare(FLIPPED_OPERATORS[operator] if is_flipped else operator, values[0])

    def _find_side(self, node: exp.Expr) -> tuple[Term, exp.Expr, bool] | None:
        """Return the side of a comparison that is a term, the other side, and whether the term is on the right."""
        for side, other, is_flipped in ((node.this, node.expression, False), (node.expression, node.this, True)):
            term = self.terms.term(side)
            if term is not None:
                return term, other, is_flipped
        return None

    def _values(self, term: Term, nodes: Sequence[exp.Expr]) -> list[Constant] | None:
        try:
            return self.constants.values(term, nodes)
        except UnknownValue:
            return None

    def _between(self, node: exp.Expr, truth: bool) -> Filter | None:
        term = self.terms.term(node.this)
        ends = self._values(term, [node.args["low"], node.args["high"]]) if term is not None else None
        if term is None or ends is None or node.args.get("symmetric"):
            return None
        builder = self._builder(term)
        low = builder.compare(">=" if truth else "<", ends[0])
        high = builder.compare("<=" if truth else ">", ends[1])
        if not truth:
            return any_of([low, high])
        return _merge_range(low, high) or all_of([low, high])

    def _in(self, node: exp.Expr, truth: bool) -> Filter | None:
        field = None if self.rules.is_exact else node.args.get("field")  # texts of an array have the type of text
        listed = node.expressions or (field.expressions if field is not None else [])
        term = self.terms.term(node.this)
        if term is None or not listed or any(node.args.get(key) for key in UNUSUAL_LISTS):
            return None
        values = self._values(term, listed)
        return None if values is None else self._builder(term).among(values, truth=truth)

    def _like(self, node: exp.Expr, truth: bool) -> Filter | None:
        escape = "\\" if self.rules.has_backslash_escapes else ""
        if isinstance(node, exp.Escape):
            escape, node = node.expression.name, node.this
        term = self.terms.term(node.this) if isinstance(node, exp.Like) else None
        pattern = node.expression.unnest() if term is not None else None
        if term is None or pattern is None or not pattern.is_string:
            return None
        prefix, rest = _split_pattern(pattern.name, escape)
        if bool(node.args.get("negate")) == truth:
            return self._builder(term).other() if rest else self._builder(term).unlike(prefix)
        return self._builder(term).like(prefix, whole=not rest)

    def _starts(self, node: exp.Expr, truth: bool) -> Filter | None:
        if isinstance(node, exp.Anonymous):
            is_prefix = node.name.lower() == "prefix" and len(node.expressions) == 2
            arguments = node.expressions if is_prefix else []
        else:
            arguments = [node.this, node.expression]
        term = self.terms.term(arguments[0]) if arguments else None
        if term is None or not arguments[1].unnest().is_string:
            return None
        builder = self._builder(term)
        return builder.like(arguments[1].unnest().name, whole=False) if truth else builder.other()

    def _is(self, node: exp.Expr, truth: bool) -> Filter | None:
        if isinstance(node.expression, exp.Boolean) and truth:
            return self._filter(node.this, truth=bool(node.expression.this))
        term = self.terms.term(node.this)
        if term is None:
            return None
        builder = self._builder(term)
        return builder.null(truth=truth) if isinstance(node.expression, exp.Null) else builder.other()

    def _same(self, node: exp.Expr, truth: bool) -> Filter | None:
        """Return the filter of a null-safe comparison."""
        is_same = isinstance(node, exp.NullSafeEQ) == truth
        found = self._find_side(node)
        if found is None:
            return None
        term, other, _ = found
        builder, values = self._builder(term), self._values(term, [other])
        if values is None:
            return builder.other()
        if values[0].low is None:
            return builder.null(truth=is_same)
        if is_same:
            return builder.compare("=", values[0])
        return any_of([builder.compare("<>", values[0]), builder.null(truth=True)])

    def _builder(self, term: Term) -> ComparisonBuilder:
        return ComparisonBuilder(term, self.rules)


def _merge_range(low: Filter, high: Filter) -> Filter | None:
    """Merge both ends of one range into one test."""
    if not (isinstance(low, Test) and isinstance(high, Test)) or {low.kind, high.kind} != {"range"}:
        return None
    if low.high is not None or high.low is not None or low.column != high.column:
        return None
    return Test(low.column, "range", (), low.low, high.high, low.low_inclusive, high.high_inclusive, low.function)


def _split_pattern(pattern: str, escape: str) -> tuple[str, str]:
    """Return the text before the first wildcard of a pattern, and the rest."""
    text, place = "", 0
    while place < len(pattern):
        letter = pattern[place]
        if escape and letter == escape and place + 1 < len(pattern):
            text, place = text + pattern[place + 1], place + 2
            continue
        if letter in "%_":
            return text, pattern[place:]
        text, place = text + letter, place + 1
    return text, ""


_READERS: dict[type[exp.Expr], Callable[[ConditionReader, exp.Expr, bool], Filter | None]] = {
    **dict.fromkeys(OPERATORS, ConditionReader._compare),
    exp.Between: ConditionReader._between,
    exp.In: ConditionReader._in,
    exp.Like: ConditionReader._like,
    exp.Escape: ConditionReader._like,
    exp.StartsWith: ConditionReader._starts,
    exp.Anonymous: ConditionReader._starts,
    exp.Is: ConditionReader._is,
    exp.NullSafeEQ: ConditionReader._same,
    exp.NullSafeNEQ: ConditionReader._same,
}
