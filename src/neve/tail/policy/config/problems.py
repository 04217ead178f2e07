"""Problems of a policy file, collected with path, value and expectation, so that one error reports all of them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

S = TypeVar("S", bound=BaseModel)

EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
}
MAX_VALUE_CHARS = 80


@dataclass
class ConfigProblems:
    """Problems of one file: path, value and expectation."""

    source: str
    lines: list[str] = field(default_factory=list)

    def add(self, path: str, what: str) -> None:
        """Add a problem at a path such as `policies[2].latency.threshold_ms`."""
        place = ": ".join(part for part in (self.source, path) if part)
        self.lines.append(f"{place}: {what}" if place else what)

    def wrong(self, path: str, value: object, expected: str) -> None:
        """Add a problem of an unexpected value."""
        self.add(path, f"got {format_value(value)}, expected {expected}")

    def unknown(self, path: str, key: object, known: Iterable[str]) -> None:
        """Add a problem of an unknown key."""
        self.add(path, f"unknown key {key!r}{suggest_key(key, known)}")

    def validate(self, shape: type[S], given: Any, path: str, known: Iterable[str] = ()) -> S | None:
        """Validate keys and values against a model, or return `None` and add each problem."""
        try:
            return shape.model_validate(given)
        except ValidationError as error:
            self._add_all(path, error, known or shape.model_fields)
        return None

    def _add_all(self, path: str, error: ValidationError, known: Iterable[str]) -> None:
        for detail in error.errors(include_url=False, include_context=False):
            *above, last = ("", *detail["loc"])
            place = join_path(path, *above[1:])
            if detail["type"] == "extra_forbidden":
                self.unknown(place, last, known if len(above) == 1 else ())
            elif detail["type"] == "missing":
                self.add(join_path(place, last), "missing, and it has no default")
            else:
                self.add(join_path(place, last), _describe_error(detail["type"], detail["msg"], detail["input"]))

    def raise_if_any(self) -> None:
        """Raise `ConfigError` with all problems, if there are any."""
        if self.lines:
            raise ConfigError("\n".join(self.lines))


def join_path(path: str, *parts: str | int) -> str:
    """Append parts to a path.

    >>> join_path("policies", 2, "latency")
    'policies[2].latency'
    """
    for part in parts:
        if part != "":
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def format_value(value: object) -> str:
    """Format a value for a message."""
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "..."


def suggest_key(key: object, known: Iterable[str]) -> str:
    """Return a hint with the nearest known word, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
    if near:
        return f", did you mean {near[0]!r}?"
    return f", expected one of {', '.join(known)}" if known else ""


def _describe_error(kind: str, message: str, value: object) -> str:
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    expected = EXPECTED.get(kind)
    if expected is None:
        expected = message.removeprefix("Input should be ").removeprefix("Input should ")
        expected = expected.removeprefix("String should have ").removeprefix("Value should have ")
    hint = "; put it in quotes" if kind == "string_type" and isinstance(value, bool | int | float) else ""
    return f"got {format_value(value)}, expected {expected}{hint}"
