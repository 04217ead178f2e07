"""Comparisons and arithmetic of columns. A value that an operator can't be applied to gives false, or nil."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lexical.matchers import match_regex
from neve.traceql.evaluation.vectors import Vector
from neve.traceql.language.fields import Type

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from neve.traceql.evaluation.vectors import Ragged

__all__ = ["compare", "compute", "negate"]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARE_TEXTS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_ALL = frozenset({"!=", "!~"})  # of an array, all elements must fulfil these
_REGEX = frozenset({"=~", "!~"})
_LARGEST = 2.0**63


def compare(symbol: str, left: Vector, right: Vector) -> NDArray[np.bool_]:
    """Return where a comparison holds. Of several values of a span, any may fulfil it."""
    found = _compare_first(symbol, left, right)
    if left.more is not None:
        more = left.more
        found[more.rows[_compare_first(symbol, more.values, right.take(more.rows))]] = True
    if right.more is not None:
        more = right.more
        found[more.rows[_compare_first(symbol, left.take(more.rows), more.values)]] = True
    return found


def _compare_first(symbol: str, left: Vector, right: Vector) -> NDArray[np.bool_]:
    found = _compare_plain(symbol, left, right)
    arrays, others = left.is_type(Type.ARRAY), right.is_type(Type.ARRAY)
    if left.items is not None and arrays.any():
        items = left.items
        matches = _compare_plain(symbol, items.values, right.take(items.rows))
        _reduce_items(symbol, found, arrays & ~others & ~right.is_type(Type.NIL), items, matches)
    if right.items is not None and others.any():
        items = right.items
        matches = _compare_plain(symbol, left.take(items.rows), items.values)
        _reduce_items(symbol, found, others & ~arrays & ~left.is_type(Type.NIL), items, matches)
    return found


def _reduce_items(
    symbol: str, found: NDArray[np.bool_], rows: NDArray[np.bool_], items: Ragged, matches: NDArray[np.bool_]
) -> None:
    """Set rows with arrays: whether any element matches, or for negative operators all of them."""
    deciding = items.rows[matches != (symbol in _ALL)]
    is_decided = np.zeros(len(found), dtype=bool)
    is_decided[deciding] = True
    found[rows] = is_decided[rows] != (symbol in _ALL)


def _compare_plain(symbol: str, left: Vector, right: Vector) -> NDArray[np.bool_]:
    """Compare single values of the same type, numbers of any type among each other."""
    found = np.zeros(len(left), dtype=bool)
    texts = left.is_type(Type.STRING) & right.is_type(Type.STRING)
    if texts.any():
        found[texts] = _compare_texts(symbol, left, right, texts)
    if symbol in _REGEX:
        return found
    apply = _COMPARE[symbol]
    ints = left.is_type(Type.INT) & right.is_type(Type.INT)
    if symbol in {"=", "!="}:
        ints |= left.is_type(Type.BOOL, Type.STATUS, Type.KIND) & (left.types == right.types)
    if ints.any():
        found[ints] = apply(left.numbers[ints], right.numbers[ints])
    floats = left.is_number & right.is_number & ~ints
    if floats.any():
        found[floats] = apply(left.as_floats()[floats], right.as_floats()[floats])
    return found


def _compare_texts(symbol: str, left: Vector, right: Vector, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
    chosen = pa.array(rows)
    own, other = left.all_texts().filter(chosen), right.all_texts().filter(chosen)
    if symbol not in _REGEX:
        matches: NDArray[np.bool_] = _COMPARE_TEXTS[symbol](own, other).to_numpy(zero_copy_only=False)
        return matches
    encoded = own.dictionary_encode()  # the pattern is a constant
    of_word = np.array(match_regex(other[0].as_py(), encoded.dictionary.to_pylist()), dtype=bool)
    found: NDArray[np.bool_] = of_word[encoded.indices.to_numpy(zero_copy_only=False)] != (symbol == "!~")
    return found


def negate(operand: Vector) -> Vector:
    """Return numbers with the other sign, and nil for the rest."""
    types = np.where(operand.is_number, operand.types, np.uint8(Type.NIL))
    with np.errstate(over="ignore"):
        return Vector(types, -operand.numbers, -operand.floats)


def compute(symbol: str, left: Vector, right: Vector) -> Vector:
    """Return the result of arithmetic: integers of two integers, else floats."""
    ints = left.is_type(Type.INT) & right.is_type(Type.INT)
    floats = left.is_number & right.is_number & ~ints
    types = np.where(ints, np.uint8(Type.INT), np.where(floats, np.uint8(Type.FLOAT), np.uint8(Type.NIL)))
    with np.errstate(all="ignore"):
        values = _compute_floats(symbol, left.as_floats(), right.as_floats())
        if symbol == "^":
            fits = ints & (np.abs(values) < _LARGEST)
            types[ints & ~fits] = Type.FLOAT
            numbers = np.where(fits, values, 0.0).astype(np.int64)
        else:
            numbers = _compute_ints(symbol, left.numbers, right.numbers)
            if symbol in {"/", "%"}:
                types[ints & (right.numbers == 0)] = Type.NIL
    return Vector(types, numbers, values)


def _compute_floats(symbol: str, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "%":
            return np.fmod(left, right)
    return np.power(left, right)


def _compute_ints(symbol: str, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Compute in 64 bits. Division cuts towards zero, as Go's."""
    match symbol:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    divisor = np.where(right == 0, 1, right)
    rest = np.fmod(left, divisor)
    return rest if symbol == "%" else (left - rest) // divisor
