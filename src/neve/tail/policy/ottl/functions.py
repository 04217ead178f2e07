"""The functions of OTTL that can be asked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.policy import durations, regexes
from neve.tail.policy.ottl.errors import OttlError, unsupported
from neve.tail.policy.ottl.texts import like_text, size
from neve.tail.policy.ottl.values import Kind, Value
from neve.tail.policy.sql import FALSE, TRUE, Sql, any_of, blob, column, integer, sql, text

if TYPE_CHECKING:
    from collections.abc import Callable

ID_BYTES = {Kind.TRACE_ID: 16, Kind.SPAN_ID: 8}


@dataclass(frozen=True)
class Function:
    """A function: its parameters, how it is made, and where it may stand."""

    parameters: tuple[str, ...]
    make: Callable[..., Value]
    contexts: tuple[str, ...] = ("span", "spanevent")


def call(name: str, context: str, placed: list[Value], named: dict[str, Value]) -> Value:
    """What a function makes of its arguments; raises `OttlError`."""
    function = FUNCTIONS.get(name)
    if function is None or context not in function.contexts:
        known = ", ".join(one for one, made in sorted(FUNCTIONS.items()) if context in made.contexts)
        where = "" if function is None else " of an event"
        raise unsupported(f"function {name}{where}", known)
    given = dict(zip(function.parameters, placed, strict=False)) | named
    count = len(placed) + len(named)
    if count != len(function.parameters) or set(given) != set(function.parameters):
        raise OttlError(f"{name} was given {count} arguments, expected {', '.join(function.parameters) or 'none'}")
    return function.make(*(given[parameter] for parameter in function.parameters))


def _truth(condition: Sql, fails: Sql = FALSE) -> Value:
    """A boolean, which is null where it fails."""
    if fails == FALSE:
        return Value({Kind.BOOL: condition})
    return Value({Kind.BOOL: sql("CASE WHEN NOT {} THEN {} END", fails, condition)}, fails=fails)


def _written_text(value: Value, what: str) -> str:
    if not value.literal:
        raise unsupported(f"{what} that is not a text in quotes")
    if not isinstance(value.literal[0], str):
        raise OttlError(f"{what} is {value.literal[0]!r}, expected a text in quotes")
    return value.literal[0]


def _is_match(target: Value, pattern: Value) -> Value:
    wanted = _written_text(pattern, "pattern of IsMatch")
    complaint = regexes.complaint_of(wanted)
    if complaint is not None:
        raise OttlError(f"the pattern {wanted!r} is not a regular expression of RE2: {complaint}")
    if target.literal == (None,):
        return _truth(FALSE)
    asked, fails = like_text(target)
    return _truth(sql("coalesce(regexp_matches({}, {}), false)", asked, text(wanted)), fails)


def _is_kind(kind: Kind) -> Callable[[Value], Value]:
    def ask(target: Value) -> Value:
        if kind is Kind.MAP and target.size is not None and target.what.endswith("attributes"):
            return _truth(TRUE)
        if kind is Kind.LIST and target.what.endswith("events"):
            return _truth(TRUE)
        found = target.kinds.get(kind)
        if found is None:
            return _truth(FALSE, target.fails)
        return _truth(sql("({} IS NOT NULL)", found), target.fails)

    return ask


def _has(how: str, what: str) -> Callable[[Value, Value], Value]:
    """A text that begins or ends with another; anything that is not a text fails."""

    def ask(target: Value, part: Value) -> Value:
        wanted = text(_written_text(part, f"{what} of a text"))
        found = target.kinds.get(Kind.STRING)
        if found is None:
            raise OttlError(f"{target.what or 'this'} is not a text, which can't have a {what}")
        never_fails = set(target.kinds) == {Kind.STRING} and target.nil == FALSE
        fails = target.fails if never_fails else any_of([target.fails, sql("({} IS NULL)", found)])
        return _truth(sql(f"{how}({{}}, {{}})", found, wanted), fails)

    return ask


def _id(kind: Kind) -> Callable[[Value], Value]:
    def make(target: Value) -> Value:
        if not target.literal:
            raise unsupported(f"{kind} that is not written down")
        written, length = target.literal[0], ID_BYTES[kind]
        found = written if isinstance(written, bytes) else str(written).encode()
        if len(found) == 2 * length:
            try:
                found = bytes.fromhex(found.decode())
            except ValueError:
                raise OttlError(f"{written!r} is no {kind}, expected {2 * length} hexadecimal digits") from None
        if not isinstance(written, str | bytes) or len(found) != length:
            raise OttlError(f"{written!r} is no {kind}, expected {length} bytes or {2 * length} hexadecimal digits")
        return Value({kind: blob(found)})

    return make


def _duration(duration: Value) -> Value:
    try:
        length = durations.nanoseconds(_written_text(duration, "duration"))
    except ValueError as error:
        raise error if isinstance(error, OttlError) else OttlError(str(error)) from None
    return Value({Kind.DURATION: integer(length)})


def _is_root() -> Value:
    return _truth(sql("({} IS NULL)", column("parent_span_id")))


FUNCTIONS = {
    "IsMatch": Function(("target", "pattern"), _is_match),
    "IsString": Function(("target",), _is_kind(Kind.STRING)),
    "IsInt": Function(("target",), _is_kind(Kind.INT)),
    "IsDouble": Function(("target",), _is_kind(Kind.FLOAT)),
    "IsBool": Function(("target",), _is_kind(Kind.BOOL)),
    "IsMap": Function(("target",), _is_kind(Kind.MAP)),
    "IsList": Function(("target",), _is_kind(Kind.LIST)),
    "Len": Function(("target",), size),
    "HasPrefix": Function(("target", "prefix"), _has("starts_with", "prefix")),
    "HasSuffix": Function(("target", "suffix"), _has("ends_with", "suffix")),
    "SpanID": Function(("target",), _id(Kind.SPAN_ID)),
    "TraceID": Function(("target",), _id(Kind.TRACE_ID)),
    "Duration": Function(("duration",), _duration),
    "IsRootSpan": Function((), _is_root, ("span",)),
}
