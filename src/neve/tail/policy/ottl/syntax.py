"""The syntax tree of a condition."""

from __future__ import annotations

from dataclasses import dataclass


class Node:
    """A part of a condition."""


@dataclass(frozen=True)
class Literal(Node):
    """A text, a number, true or false, bytes, or nil as None."""

    value: str | int | float | bool | bytes | None


@dataclass(frozen=True)
class Enum(Node):
    """A name for a number, such as STATUS_CODE_ERROR."""

    name: str


@dataclass(frozen=True)
class Field(Node):
    """A step of a path, with what stands in brackets behind it."""

    name: str
    keys: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Path(Node):
    """Where a value stands in a span."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return ".".join(field.name + "[...]" * len(field.keys) for field in self.fields)


@dataclass(frozen=True)
class Argument(Node):
    """What a function is given; `name` is empty where only the place tells which it is."""

    name: str
    value: Node


@dataclass(frozen=True)
class Call(Node):
    """A function that makes a value."""

    name: str
    arguments: tuple[Argument, ...] = ()
    keys: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Math(Node):
    """Two values and one of + - * / between them."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Negative(Node):
    """A value with a minus before it."""

    value: Node


@dataclass(frozen=True)
class Group(Node):
    """What stands in parentheses."""

    inner: Node


@dataclass(frozen=True)
class Comparison(Node):
    """Two values and one of == != < <= > >= between them."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Not(Node):
    """The opposite."""

    part: Node


@dataclass(frozen=True)
class And(Node):
    """All of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or(Node):
    """One of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Unsupported(Node):
    """What OTTL has and this subset has not."""

    what: str
