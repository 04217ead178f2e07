"""Comparisons, by OTTL's rules.

Values of different types are never equal and never ordered, but for whole and floating-point numbers. Nil equals nil
alone. NaN equals nothing, which SQL sees differently.
"""

from __future__ import annotations

from neve.tail.policy.ottl.errors import unsupported
from neve.tail.policy.ottl.values import Kind, Value
from neve.tail.policy.sql import FALSE, Sql, all_of, any_of, joined, sql

ORDERED = (Kind.BOOL, Kind.BYTES, Kind.TIME, Kind.DURATION)
ONLY_EQUAL = (Kind.LIST, Kind.MAP, Kind.TRACE_ID, Kind.SPAN_ID)
NUMBERS = (Kind.INT, Kind.FLOAT)
# Texts come last: an attribute whose type nobody knows is a text besides what it looks like.
PAIRS = (
    *((left, right) for left in NUMBERS for right in NUMBERS),
    *((kind, kind) for kind in (*ORDERED, *ONLY_EQUAL, Kind.STRING)),
)
EQUAL = "=="
INCLUDING_EQUAL = (EQUAL, "<=", ">=")
SYMBOLS = {EQUAL: "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def compare(left: Value, right: Value, operator: str) -> Sql:
    """The comparison; null where one of the values fails."""
    if operator == "!=":
        return sql("(NOT {})", compare(left, right, EQUAL))
    for value, other in ((left, right), (right, left)):
        if value.size is not None and other.literal != (None,):
            raise unsupported(f"comparison of all of {value.what}", f"Len({value.what})")
    outcome = _outcome(left, right, operator)
    fails = any_of([left.fails, right.fails])
    return outcome if fails == FALSE else sql("CASE WHEN NOT {} THEN {} END", fails, outcome)


def _outcome(left: Value, right: Value, operator: str) -> Sql:
    """The first pair of types that both have decides; each comparison is null where one does not have its type."""
    chain = [
        _pair(left.kinds[one], right.kinds[other], one, other, operator)
        for one, other in PAIRS
        if one in left.kinds and other in right.kinds and (operator == EQUAL or one not in ONLY_EQUAL)
    ]
    if operator in INCLUDING_EQUAL and FALSE not in (left.nil, right.nil):
        chain.append(all_of([left.nil, right.nil]))
    if not chain:
        return FALSE
    return sql("coalesce({}, false)", joined(", ", chain))


def _pair(left: Sql, right: Sql, one: Kind, other: Kind, operator: str) -> Sql:
    if Kind.FLOAT not in (one, other):
        return sql(f"({{}} {SYMBOLS[operator]} {{}})", left, right)
    left, right = _as_float(left, one), _as_float(right, other)
    # SQL sorts NaN above all numbers and finds it equal to itself.
    largest = right if operator in ("<", "<=") else left
    return sql(f"({{}} {SYMBOLS[operator]} {{}} AND NOT isnan({{}}))", left, right, largest)


def _as_float(number: Sql, kind: Kind) -> Sql:
    return number if kind is Kind.FLOAT else sql("CAST({} AS DOUBLE)", number)
