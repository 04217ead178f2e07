"""Syntax tree of fields: attributes, intrinsics, constants, and what is computed from them for a span.

`str` of a node is TraceQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from neve.lexical.literals import format_general, quote

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "COMPARISONS",
    "INTRINSICS",
    "KINDS",
    "STATUSES",
    "Attribute",
    "Binary",
    "Existence",
    "Field",
    "Static",
    "Type",
    "Unary",
    "format_nanoseconds",
]


class Type(IntEnum):
    """Type of a value. `ANY` is that of an attribute, which only its span decides."""

    NIL = 0
    INT = 1
    FLOAT = 2
    STRING = 3
    BOOL = 4
    DURATION = 5  # nanoseconds
    STATUS = 6
    KIND = 7
    ARRAY = 8
    ANY = 9

    @property
    def is_number(self) -> bool:
        """Return whether values of this type are compared as numbers."""
        return self in {Type.INT, Type.FLOAT, Type.DURATION}


STATUSES = {"unset": 0, "ok": 1, "error": 2}  # codes as in OTLP
KINDS = {"unspecified": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})

# Each intrinsic by its canonical name, and the type of its values.
INTRINSICS: dict[str, Type] = {
    "duration": Type.DURATION,
    "name": Type.STRING,
    "status": Type.STATUS,
    "statusMessage": Type.STRING,
    "kind": Type.KIND,
    "rootName": Type.STRING,
    "rootServiceName": Type.STRING,
    "traceDuration": Type.DURATION,
    "nestedSetLeft": Type.INT,
    "nestedSetRight": Type.INT,
    "nestedSetParent": Type.INT,
    "span:childCount": Type.INT,
    "span:id": Type.STRING,
    "span:parentID": Type.STRING,
    "trace:id": Type.STRING,
    "event:name": Type.STRING,
    "event:timeSinceStart": Type.DURATION,
    "link:traceID": Type.STRING,
    "link:spanID": Type.STRING,
    "instrumentation:name": Type.STRING,
    "instrumentation:version": Type.STRING,
    "parent": Type.NIL,
}

_ENDS = frozenset('{}()=~!<>&|^,"\\')  # characters that a name has only in quotes


@dataclass(frozen=True, slots=True)
class Static:
    """Constant of a query."""

    type: Type
    value: Any

    def __str__(self) -> str:
        if self.type in {Type.STATUS, Type.KIND}:
            names = STATUSES if self.type is Type.STATUS else KINDS
            return next(name for name, code in names.items() if code == self.value)
        return _WRITERS.get(self.type, str)(self.value)


def _write_float(value: float) -> str:
    text = format_general(value)
    return text if set(text) & set(".eNI") else f"{text}.0"


def format_nanoseconds(value: int) -> str:
    """Return a duration with the largest unit that divides it.

    >>> format_nanoseconds(1_500_000_000), format_nanoseconds(3_600_000_000_000), format_nanoseconds(-7)
    ('1500ms', '1h', '-7ns')
    """
    units = (("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1))
    name, size = next((name, size) for name, size in units if value % size == 0) if value else ("s", 1)
    return f"{value // size}{name}"


_WRITERS: dict[Type, Callable[[Any], str]] = {
    Type.STRING: quote,
    Type.BOOL: lambda value: "true" if value else "false",
    Type.DURATION: format_nanoseconds,
    Type.FLOAT: _write_float,
    Type.NIL: lambda _: "nil",
}


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute of a scope (`span`, `resource`, …, or `""` for any), or an intrinsic (scope `intrinsic`)."""

    scope: str
    name: str
    is_parent: bool = False

    @property
    def type(self) -> Type:
        """Return the type of its values."""
        return INTRINSICS[self.name] if self.scope == "intrinsic" else Type.ANY

    def __str__(self) -> str:
        if self.scope == "intrinsic":
            return self.name
        name = self.name
        if any(char in _ENDS or char.isspace() for char in name):
            name = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if self.is_parent:
            return f"parent.{self.scope}.{name}" if self.scope else f"parent.{name}"
        return f"{self.scope}.{name}"


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x` or `!x`."""

    operator: str
    operand: Field

    def __str__(self) -> str:
        return f"{self.operator}{_wrap(self.operand)}"


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic, comparison, `&&` or `||` of two values."""

    operator: str
    left: Field
    right: Field

    def __str__(self) -> str:
        return f"{_wrap(self.left)} {self.operator} {_wrap(self.right)}"


@dataclass(frozen=True, slots=True)
class Existence:
    """`x != nil`, or with `is_absent` `x = nil`."""

    operand: Field
    is_absent: bool

    def __str__(self) -> str:
        return f"{_wrap(self.operand)} {'=' if self.is_absent else '!='} nil"


Field = Static | Attribute | Unary | Binary | Existence


def _wrap(node: Field) -> str:
    return f"({node})" if isinstance(node, Binary | Existence) else str(node)
