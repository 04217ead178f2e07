"""Evaluate fields for the spans of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.traceql.evaluation.operators import compare, compute, negate
from neve.traceql.evaluation.vectors import from_booleans, from_constant
from neve.traceql.language.fields import Attribute, Existence, Static, Type, Unary

if TYPE_CHECKING:
    from neve.traceql.evaluation.span_batch import SpanBatch
    from neve.traceql.evaluation.vectors import Vector
    from neve.traceql.language.fields import Field

__all__ = ["evaluate"]

_ARITHMETIC = frozenset("+-*/%^")


def evaluate(node: Field, spans: SpanBatch) -> Vector:
    """Return the value of a field for each span."""
    match node:
        case Static():
            return from_constant(node, len(spans))
        case Attribute():
            return spans.vector(node)
        case Existence():
            is_nil = evaluate(node.operand, spans).is_type(Type.NIL)
            return from_booleans(is_nil if node.is_absent else ~is_nil)
        case Unary():
            return _apply_sign(node, evaluate(node.operand, spans))
    return _apply_operator(node.operator, evaluate(node.left, spans), evaluate(node.right, spans))


def _apply_sign(node: Unary, operand: Vector) -> Vector:
    if node.operator == "-":
        return negate(operand)
    return from_booleans(operand.is_type(Type.BOOL) & ~operand.is_true)


def _apply_operator(symbol: str, left: Vector, right: Vector) -> Vector:
    if symbol == "&&":
        return from_booleans(left.is_true & right.is_true)
    if symbol == "||":
        return from_booleans(left.is_true | right.is_true)
    if symbol in _ARITHMETIC:
        return compute(symbol, left, right)
    return from_booleans(compare(symbol, left, right))
