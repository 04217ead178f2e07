"""Syntax tree of an OTTL condition, and the error for conditions that are invalid or not supported."""

from __future__ import annotations

from dataclasses import dataclass


class OttlError(ValueError):
    """Raised when a condition is invalid, or uses an unsupported feature, which `make_unsupported_error` names."""

    def __init__(self, message: str, *, unsupported: str = "", supported: str = "") -> None:
        super().__init__(message)
        self.unsupported = unsupported
        self.supported = supported

    def about(self, policy: str, condition: str) -> str:
        """Return the message with the policy's name and the condition."""
        if not self.unsupported:
            return f"OTTL condition of policy {policy!r}: {self}; got {condition!r}"
        supported = f"; supported: {self.supported}" if self.supported else ""
        return f"OTTL {self.unsupported} in policy {policy!r} is not supported{supported}; got {condition!r}"


def make_unsupported_error(what: str, supported: str = "") -> OttlError:
    """Build the error for a feature of OTTL that is not supported here."""
    return OttlError(f"{what} is not supported", unsupported=what, supported=supported)


class Node:
    """Part of a condition."""


@dataclass(frozen=True)
class Literal(Node):
    """Text, number, boolean, bytes, or nil as `None`."""

    value: str | int | float | bool | bytes | None


@dataclass(frozen=True)
class Enum(Node):
    """Name of a number, such as STATUS_CODE_ERROR."""

    name: str


@dataclass(frozen=True)
class Field(Node):
    """Step of a path, with its keys in brackets."""

    name: str
    keys: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Path(Node):
    """Location of a value in a span."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return ".".join(field.name + "[...]" * len(field.keys) for field in self.fields)


@dataclass(frozen=True)
class Argument(Node):
    """Argument of a function, with an empty `name` if it is positional."""

    name: str
    value: Node


@dataclass(frozen=True)
class Call(Node):
    """Call of a function that returns a value."""

    name: str
    arguments: tuple[Argument, ...] = ()
    keys: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Math(Node):
    """Arithmetic operation on two values: one of + - * /."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Negative(Node):
    """Value with a minus sign."""

    value: Node


@dataclass(frozen=True)
class Group(Node):
    """Expression in parentheses."""

    inner: Node


@dataclass(frozen=True)
class Comparison(Node):
    """Comparison of two values: one of == != < <= > >=."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Not(Node):
    """Negation of a condition."""

    part: Node


@dataclass(frozen=True)
class And(Node):
    """Conjunction of all parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or(Node):
    """Disjunction of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Unsupported(Node):
    """Feature of OTTL that this subset does not support."""

    what: str
