"""Expressions of OTTL: each is a text and, beside it, what it means for a span, said in plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.tail.policy.ottl_values import Fails, Id, Time, index
from tests.tail.policy.plain import state

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.tail.policy.rows import Event, Span

KIND_NAMES = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")


@dataclass(frozen=True)
class Expression:
    """A text, and what it is for a span and one of its events."""

    text: str
    get: Callable[[Span, Event | None], Any]
    constant: bool | None = None  # of a condition that no span changes


def quoted(text: str) -> str:
    """A text in quotes, as Go writes it."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\x00": "\\x00"}
    return '"' + "".join(escapes.get(character, character) for character in text) + '"'


def written(value: Any) -> Expression:
    """A value that is written down."""
    if isinstance(value, bytes):
        text = "0x" + value.hex()
    elif isinstance(value, str):
        text = quoted(value)
    else:
        text = (
            {None: "nil", True: "true", False: "false"}[value]
            if value is None or value is True or value is False
            else repr(value)
        )
    return Expression(text, lambda _span, _event: value)


def attribute(place: str, key: str, more: tuple[str | int, ...]) -> Expression:
    """An attribute, or what stands within it."""
    getters: dict[str, Callable[[Span, Event | None], Any]] = {
        "span": lambda span, _event: span.attributes,
        "resource": lambda span, _event: span.resource,
        "spanevent": lambda _span, event: event.attributes if event else {},
    }

    def get(span: Span, event: Event | None) -> Any:
        found = getters[place](span, event)
        return index(found[key], more) if key in found else None

    keys = "".join(f"[{quoted(one) if isinstance(one, str) else one}]" for one in (key, *more))
    return Expression(f"{place}.attributes{keys}", get)


def state_value(span: Span, key: str) -> str | None:
    """The value of a key of the trace state."""
    found = state(span.state)
    return None if found is None else found.get(key, "")


def made(name: str, apply: Callable[..., Any], *arguments: Expression) -> Expression:
    """A function and its arguments."""
    text = f"{name}({', '.join(one.text for one in arguments)})"
    return Expression(text, lambda span, event: apply(*(one.get(span, event) for one in arguments)))


def short(parts: list[Expression], span: Span, event: Event | None, wanted: bool) -> bool:
    """Parts one after the other until one is as wanted."""
    return wanted if any(part.get(span, event) == wanted for part in parts) else not wanted


def holds(condition: Expression, span: Span, context: str) -> bool:
    """Whether a condition holds for a span, or for one of its events; one that fails does not."""
    for event in span.events if context == "spanevent" else (None,):
        try:
            if condition.get(span, event) if condition.constant is None else condition.constant:
                return True
        except Fails:
            continue
    return False


PATHS = {
    "span.name": lambda span, _event: span.name,
    "span.kind": lambda span, _event: span.kind,
    "span.kind.string": lambda span, _event: dict(enumerate(KIND_NAMES)).get(span.kind, ""),
    "span.status.code": lambda span, _event: span.status,
    "span.status.message": lambda span, _event: span.message,
    "span.start_time_unix_nano": lambda span, _event: span.start,
    "span.end_time_unix_nano": lambda span, _event: span.end,
    "span.start_time": lambda span, _event: Time("time", span.start),
    "span.end_time": lambda span, _event: Time("time", span.end),
    "span.trace_id": lambda span, _event: Id("trace", span.trace_id),
    "span.trace_id.string": lambda span, _event: span.trace_id.hex(),
    "span.span_id": lambda span, _event: Id("span", span.span_id),
    "span.span_id.string": lambda span, _event: span.span_id.hex(),
    "span.parent_span_id": lambda span, _event: Id("span", span.parent or bytes(8)),
    "span.parent_span_id.string": lambda span, _event: (span.parent or bytes(8)).hex(),
    "span.trace_state": lambda span, _event: span.state,
    'span.trace_state["a"]': lambda span, _event: state_value(span, "a"),
    'span.trace_state["b"]': lambda span, _event: state_value(span, "b"),
    "span.flags": lambda span, _event: span.flags,
    "scope.name": lambda span, _event: span.scope,
    "instrumentation_scope.version": lambda span, _event: span.version,
    "SPAN_KIND_SERVER": lambda _span, _event: 2,
    "STATUS_CODE_ERROR": lambda _span, _event: 2,
    "SpanID(0xabababababababab)": lambda _span, _event: Id("span", b"\xab" * 8),
    "TraceID(0xabababababababababababababababab)": lambda _span, _event: Id("trace", b"\xab" * 16),
    'Duration("3ns")': lambda _span, _event: Time("duration", 3),
}
EVENT_PATHS = {
    "spanevent.name": lambda _span, event: event.name,
    "spanevent.time_unix_nano": lambda _span, event: event.time,
    "spanevent.time": lambda _span, event: Time("time", event.time),
}
# In a condition of spans, what belongs to a span need not say so; in one of events, what belongs to an event.
OWN = {"span": "span.", "spanevent": "spanevent."}
