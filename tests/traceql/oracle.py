"""TraceQL in plain Python: queries that are tuples, evaluated over whole traces, span by span.

Nothing is shared with the package: neither its parser, nor its columns.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.traceql.plain_traces import MS, PlainSpan, span_id, trace_id
from tests.traceql.queries import write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.traceql.plain_traces import Value
    from tests.traceql.queries import Node, Typed

NIL: Typed = ("nil", None)
NUMBERS = ("int", "float", "duration")


def type_value(value: Any) -> Typed:
    """Return a value of an attribute with its type."""
    names = {bool: "bool", int: "int", float: "float", str: "string", list: "array"}
    return (names[type(value)], [type_value(one) for one in value] if isinstance(value, list) else value)


@dataclass
class Trace:
    """Spans of a trace, in order of time."""

    spans: list[PlainSpan]

    def parent(self, span: PlainSpan) -> PlainSpan | None:
        """Return the first span with the id of the parent, if it is another one."""
        found = next((one for one in self.spans if one.number == span.parent), None)
        return None if found is span else found

    def chain(self, span: PlainSpan) -> list[PlainSpan] | None:
        """Return the ancestors of a span, or `None` if they form a cycle."""
        found: list[PlainSpan] = []
        above = self.parent(span)
        while above is not None:
            if above is span or any(one is above for one in found):
                return None
            found.append(above)
            above = self.parent(above)
        return found

    def number(self) -> dict[int, tuple[int, int]]:
        """Return the nested set of each span by its identity."""
        found: dict[int, tuple[int, int]] = {}
        place = 1

        def visit(span: PlainSpan) -> None:
            nonlocal place
            left = place
            place += 1
            for one in self.spans:
                if self.parent(one) is span:
                    visit(one)
            found[id(span)] = (left, place)
            place += 1

        tops = [one for one in self.spans if self.parent(one) is None]
        for one in sorted(tops, key=lambda one: one.parent is not None):
            visit(one)
        return found

    def root(self) -> PlainSpan | None:
        """Return the first root."""
        return next((one for one in self.spans if one.parent is None), None)


def read_field(node: Node, span: PlainSpan, trace: Trace) -> list[Typed]:  # noqa: PLR0911  # one for each node
    """Return the values of a field: none, one, or several of events and links."""
    match node:
        case ("const", value):
            return [value]
        case ("attribute", scope, name):
            return read_attribute(scope, name, span)
        case ("intrinsic", name):
            return [one for one in read_intrinsic(name, span, trace) if one != NIL]
        case ("exists", inside, is_absent):
            return [("bool", (not read_field(inside, span, trace)) == is_absent)]
        case ("not", inside):
            value = first(read_field(inside, span, trace))
            return [("bool", value == ("bool", False))]
        case ("minus", inside):
            kind, value = first(read_field(inside, span, trace))
            return [(kind, -value)] if kind in NUMBERS else []
    symbol, left, right = node
    return combine(symbol, read_field(left, span, trace), read_field(right, span, trace))


def first(values: Sequence[Typed]) -> Typed:
    """Return the first value, or nil."""
    return values[0] if values else NIL


def combine(symbol: str, left: list[Typed], right: list[Typed]) -> list[Typed]:
    """Return the result of an operator."""
    if symbol in {"&&", "||"}:
        truths = [first(one) == ("bool", True) for one in (left, right)]
        return [("bool", all(truths) if symbol == "&&" else any(truths))]
    if symbol in "+-*/%^":
        found = compute(symbol, first(left), first(right))
        return [] if found == NIL else [found]
    pairs = [(one, first(right)) for one in left] + [(first(left), one) for one in right]
    return [("bool", any(compare(symbol, *pair) for pair in pairs))]


def compute(symbol: str, left: Typed, right: Typed) -> Typed:  # noqa: PLR0911  # one for each operator
    """Return the result of arithmetic."""
    if left[0] not in NUMBERS or right[0] not in NUMBERS:
        return NIL
    a, b = left[1], right[1]
    is_int = left[0] == right[0] == "int"
    kind = "int" if is_int else "float"
    if not is_int:
        a, b = float(a), float(b)
    match symbol:
        case "+":
            return (kind, a + b)
        case "-":
            return (kind, a - b)
        case "*":
            return (kind, a * b)
        case "^":
            return power(float(a), float(b), is_int=is_int)
    if is_int:
        if b == 0:
            return NIL
        quotient = int(math.copysign(abs(a) // abs(b), a * b)) if a * b else 0
        return ("int", quotient if symbol == "/" else a - b * quotient)
    return ("float", divide(a, b) if symbol == "/" else math.nan if b == 0 or math.isinf(a) else math.fmod(a, b))


def divide(a: float, b: float) -> float:
    """Divide as IEEE 754 does."""
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def power(a: float, b: float, *, is_int: bool) -> Typed:
    """Raise to a power: an integer of integers if it fits."""
    try:
        value = math.pow(a, b)
    except ValueError:
        value = math.inf if a == 0 else math.nan
    except OverflowError:
        value = math.inf
    return ("int", int(value)) if is_int and abs(value) < 2.0**63 else ("float", value)


def compare(symbol: str, left: Typed, right: Typed) -> bool:  # noqa: PLR0911  # one for each rule
    """Compare two values, elements of an array one by one."""
    if NIL in (left, right):
        return False
    arrays = [one[0] == "array" for one in (left, right)]
    if all(arrays):
        return False
    if any(arrays):
        pairs = [(one, right) for one in left[1]] if arrays[0] else [(left, one) for one in right[1]]
        matches = [compare(symbol, *pair) for pair in pairs]
        return all(matches) if symbol in {"!=", "!~"} else any(matches)
    if left[0] == right[0] == "string" and "~" in symbol:
        return (re.fullmatch(right[1], left[1], re.DOTALL) is not None) == (symbol == "=~")
    if not (left[0] == right[0] or (left[0] in NUMBERS and right[0] in NUMBERS)) or "~" in symbol:
        return False
    if symbol in {"=", "!="}:
        return bool(left[1] == right[1]) == (symbol == "=")
    if left[0] not in (*NUMBERS, "string"):
        return False
    a, b = left[1], right[1]
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[symbol])


def read_attribute(scope: str, name: str, span: PlainSpan) -> list[Typed]:
    """Return the values of an attribute in a scope, or in the first that has it."""
    found: dict[str, list[Mapping[str, Value]]] = {
        "span": [span.attributes],
        "resource": [{"service.name": span.service, **span.resource}],
        "event": [pairs for _, _, pairs in span.events],
        "link": [pairs for _, _, pairs in span.links],
        "instrumentation": [span.scope],
    }
    scopes = [scope] if scope else ["span", "resource", "event", "link", "instrumentation"]
    for one in scopes:
        values = [type_value(pairs[name]) for pairs in found[one] if name in pairs]
        if values:
            return values
    return []


def read_intrinsic(name: str, span: PlainSpan, trace: Trace) -> list[Typed]:
    """Return the values of an intrinsic."""
    left, right = trace.number().get(id(span), (0, 0))
    root, above = trace.root(), trace.parent(span)
    ends = [one.start + one.duration for one in trace.spans]
    parent_set = -1 if span.parent is None else 0 if above is None else trace.number().get(id(above), (0, 0))[0]
    found: dict[str, list[Typed]] = {
        "name": [("string", span.name)],
        "statusMessage": [("string", span.message)],
        "status": [("status", span.status)],
        "kind": [("kind", span.kind)],
        "duration": [("duration", span.duration * MS)],
        "traceDuration": [("duration", (max(ends) - trace.spans[0].start) * MS)],
        "rootName": [NIL if root is None else ("string", root.name)],
        "rootServiceName": [NIL if root is None else ("string", root.service)],
        "nestedSetLeft": [("int", left)],
        "nestedSetRight": [("int", right)],
        "nestedSetParent": [("int", parent_set)],
        "span:childCount": [("int", sum(trace.parent(one) is span for one in trace.spans))],
        "event:name": [("string", one) for _, one, _ in span.events],
        "event:timeSinceStart": [("duration", after * MS) for after, _, _ in span.events],
        "link:traceID": [("string", trace_id(one).hex()) for one, _, _ in span.links],
        "link:spanID": [("string", span_id(one).hex()) for _, one, _ in span.links],
        "instrumentation:name": [("string", span.scope_name)],
        "trace:id": [("string", trace_id(span.trace).hex())],
        "span:id": [("string", span_id(span.number).hex())],
        "span:parentID": [("string", "" if span.parent is None else span_id(span.parent).hex())],
    }
    return found[name]


@dataclass
class Group:
    """Spanset with its values."""

    spans: list[PlainSpan]
    labels: tuple[tuple[str, Typed], ...] = ()


def run(elements: Sequence[Node], groups: list[Group], trace: Trace) -> list[Group]:
    """Return the spansets after the elements of a pipeline."""
    for element in elements:
        match element:
            case ("by", node):
                groups = [new for one in groups for new in split(one, node, trace)]
            case ("coalesce",):
                spans = [one for group in groups for one in group.spans]
                groups = [Group(sorted(spans, key=lambda one: one.start))] if spans else []
            case ("aggregate", *_):
                groups = [new for one in groups for new in keep(one, element, trace)]
            case ("pipeline", inside):
                groups = run(inside, groups, trace)
            case _:
                groups = [Group(find(element, one.spans, trace), one.labels) for one in groups]
                groups = [one for one in groups if one.spans]
    return groups


def find(node: Node, spans: list[PlainSpan], trace: Trace) -> list[PlainSpan]:  # noqa: PLR0911  # as above
    """Return the spans of a spanset that an expression chooses."""
    match node:
        case ("filter", condition):
            return [one for one in spans if first(read_field(condition, one, trace)) == ("bool", True)]
        case ("pipeline", elements):
            return [span for group in run(elements, [Group(spans)], trace) for span in group.spans]
    symbol, left, right = node
    a, b = find(left, spans, trace), find(right, spans, trace)
    if symbol == "||":
        return [one for one in spans if contains(a, one) or contains(b, one)]
    if symbol == "&&":
        return [one for one in spans if contains(a, one) or contains(b, one)] if a and b else []
    relation = symbol.lstrip("!&")
    matches = [one for one in b if any(relates(relation, other, one, trace) for other in a)]
    if symbol.startswith("!"):
        return [one for one in b if not contains(matches, one)]
    if symbol.startswith("&"):
        others = [one for one in a if any(relates(relation, one, other, trace) for other in b)]
        return [one for one in spans if contains(matches, one) or contains(others, one)]
    return matches


def contains(spans: Sequence[PlainSpan], span: PlainSpan) -> bool:
    """Return whether a span itself is in a list."""
    return any(one is span for one in spans)


def relates(relation: str, a: PlainSpan, b: PlainSpan, trace: Trace) -> bool:
    """Return whether `a` relation `b` holds."""
    match relation:
        case ">":
            return trace.parent(b) is a
        case "<":
            return trace.parent(a) is b
        case ">>":
            return contains(trace.chain(b) or (), a)
        case "<<":
            return contains(trace.chain(a) or (), b)
    return a is not b and a.parent == b.parent


def split(group: Group, node: Node, trace: Trace) -> list[Group]:
    """Return a spanset for each value of a field."""
    found: dict[str, Group] = {}
    for span in group.spans:
        value = first(read_field(node, span, trace))
        label = (f"by({write(node)})", value)
        found.setdefault(repr(value), Group([], (*group.labels, label))).spans.append(span)
    return list(found.values())


def keep(group: Group, element: Node, trace: Trace) -> list[Group]:
    """Return a spanset if its aggregate compares with the number."""
    _, name, node, symbol, number = element
    if name == "count":
        value: Typed = ("int", len(group.spans))
    else:
        values = [first(read_field(node, one, trace)) for one in group.spans]
        value = reduce_values(name, [one for one in values if one[0] in NUMBERS])
    label = (f"{name}({'' if node is None else write(node)})", value)
    return [Group(group.spans, (*group.labels, label))] if compare(symbol, value, number) else []


def reduce_values(name: str, values: list[Typed]) -> Typed:
    """Return the aggregate of numbers."""
    if not values:
        return NIL
    if name in {"min", "max"}:
        return (min if name == "min" else max)(values, key=lambda one: one[1])
    kinds = {kind for kind, _ in values}
    kind = kinds.pop() if len(kinds) == 1 else "float"
    total = sum(float(one) if kind == "float" else one for _, one in values)
    if name == "sum":
        return (kind, total)
    if kind == "duration":
        return (kind, int(math.copysign(abs(total) // len(values), total)) if total else 0)
    return ("float", total / len(values))


def search(elements: Sequence[Node], spans: Sequence[PlainSpan], start: int, end: int) -> dict[int, list[Any]]:
    """Return the spansets of each trace, with the spans that start in [start, end)."""
    found: dict[int, list[Any]] = {}
    for number in {one.trace for one in spans}:
        trace = Trace(sorted((one for one in spans if one.trace == number), key=lambda one: one.start))
        for group in run(elements, [Group(trace.spans)], trace):
            inside = [(one.number, one.start_ns) for one in group.spans if start <= one.start_ns < end]
            if inside:
                found.setdefault(number, []).append((inside, group.labels))
    return found
