"""Syntax tree of a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "Action",
    "Branch",
    "Call",
    "Chain",
    "Command",
    "Declaration",
    "Dot",
    "Escape",
    "Literal",
    "Loop",
    "Node",
    "Operand",
    "Pipeline",
    "Scope",
    "Text",
    "Variable",
]


@dataclass(frozen=True, slots=True)
class Literal:
    """Constant: text, number, boolean or nil."""

    value: Any


@dataclass(frozen=True, slots=True)
class Dot:
    """Current value, `.`."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Variable with its `$`."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """Name of a function. Its arguments are the other operands of its command."""

    name: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Fields of a value: `.Labels.job` or `(query "up" | first).Value`."""

    base: Operand
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """Value, or function with arguments. `position` is the offset in the template, for messages."""

    operands: tuple[Operand, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """Variables that a pipeline sets: new ones by `:=`, known ones by `=`."""

    names: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands in a row. The value of each is the last argument of the next."""

    commands: tuple[Command, ...]
    declaration: Declaration | None = None


Operand = Literal | Dot | Variable | Call | Chain | Pipeline


@dataclass(frozen=True, slots=True)
class Text:
    """Text between actions."""

    value: str


@dataclass(frozen=True, slots=True)
class Action:
    """Pipeline whose value is printed, unless it sets a variable."""

    pipeline: Pipeline


@dataclass(frozen=True, slots=True)
class Branch:
    """`if`: one of two lists of nodes."""

    condition: Pipeline
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """`with`: nodes for which the dot is another value."""

    value: Pipeline
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`range`: nodes for each element."""

    value: Pipeline
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Escape:
    """`break` or `continue`."""

    is_break: bool


Node = Text | Action | Branch | Scope | Loop | Escape
