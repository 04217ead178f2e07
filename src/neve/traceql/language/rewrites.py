"""Rewrite conditions to cheaper ones with the same meaning.

Traces Drilldown of Grafana puts `nestedSetParent < 0` into most queries: root spans. A root is known by its own row,
while numbers of nested sets need whole traces.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from neve.traceql.language.fields import Attribute, Binary, Field, Static, Type, Unary
from neve.traceql.language.syntax import Filter, MetricsQuery, Pipeline

__all__ = ["simplify"]

_PARENT = Attribute("intrinsic", "nestedSetParent")
_IS_ROOT = Binary("=", Attribute("intrinsic", "span:parentID"), Static(Type.STRING, ""))


def simplify(root: Pipeline | MetricsQuery) -> Any:
    """Return a query whose filters for roots look at one span at a time."""
    return _visit(root, is_condition=False)


def _visit(node: Any, *, is_condition: bool) -> Any:
    if isinstance(node, tuple):
        return tuple(_visit(one, is_condition=is_condition) for one in node)
    if isinstance(node, Static | Attribute) or not is_dataclass(node):
        return node
    if is_condition and isinstance(node, Binary) and _means_root(node):
        return _IS_ROOT
    inside = is_condition or isinstance(node, Filter)
    found = {one.name: _visit(getattr(node, one.name), is_condition=inside) for one in fields(node)}
    return replace(node, **found)  # type: ignore[type-var]  # an instance, not a class


def _means_root(node: Binary) -> bool:
    """Return whether a comparison holds for roots only. Their number is -1, those of all others are 0 or above."""
    number = _read_number(node.right)
    if node.left != _PARENT or number is None:
        return False
    return -1 < number <= 0 if node.operator == "<" else node.operator in {"<=", "="} and number == -1


def _read_number(node: Field) -> float | None:
    if isinstance(node, Unary) and node.operator == "-":
        inside = _read_number(node.operand)
        return None if inside is None else -inside
    return float(node.value) if isinstance(node, Static) and node.type.is_number else None
