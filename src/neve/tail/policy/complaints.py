"""All that is wrong with a policy file, gathered, so that a user mends it once."""

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
LONGEST_SHOWN = 80


@dataclass
class Complaints:
    """Lines about one file: where, what was found and what was expected."""

    source: str
    lines: list[str] = field(default_factory=list)

    def add(self, path: str, what: str) -> None:
        """Something is wrong at a path such as `policies[2].latency.threshold_ms`."""
        place = ": ".join(part for part in (self.source, path) if part)
        self.lines.append(f"{place}: {what}" if place else what)

    def wrong(self, path: str, value: object, expected: str) -> None:
        """A value is not what it should be."""
        self.add(path, f"got {shown(value)}, expected {expected}")

    def unknown(self, path: str, key: object, known: Iterable[str]) -> None:
        """A key that nobody reads."""
        self.add(path, f"unknown key {key!r}{nearest(key, known)}")

    def checked(self, shape: type[S], given: Any, path: str, known: Iterable[str] = ()) -> S | None:
        """Keys and values as the shape that they should have, or nothing and a line for each that is wrong."""
        try:
            return shape.model_validate(given)
        except ValidationError as error:
            self._add_all(path, error, known or shape.model_fields)
        return None

    def _add_all(self, path: str, error: ValidationError, known: Iterable[str]) -> None:
        for detail in error.errors(include_url=False, include_context=False):
            *above, last = ("", *detail["loc"])
            place = joined(path, *above[1:])
            if detail["type"] == "extra_forbidden":
                self.unknown(place, last, known if len(above) == 1 else ())
            elif detail["type"] == "missing":
                self.add(joined(place, last), "missing, and there is no default")
            else:
                self.add(joined(place, last), _what(detail["type"], detail["msg"], detail["input"]))

    def raise_if_any(self) -> None:
        """Raise `ConfigError` with every line."""
        if self.lines:
            raise ConfigError("\n".join(self.lines))


def joined(path: str, *parts: str | int) -> str:
    """A path with more parts.

    >>> joined("policies", 2, "latency")
    'policies[2].latency'
    """
    for part in parts:
        if part != "":
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def shown(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def nearest(key: object, known: Iterable[str]) -> str:
    """A hint: the nearest known word, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
    if near:
        return f", did you mean {near[0]!r}?"
    return f", expected one of {', '.join(known)}" if known else ""


def _what(kind: str, message: str, value: object) -> str:
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    expected = EXPECTED.get(kind)
    if expected is None:
        expected = message.removeprefix("Input should be ").removeprefix("Input should ")
        expected = expected.removeprefix("String should have ").removeprefix("Value should have ")
    hint = "; put it in quotes" if kind == "string_type" and isinstance(value, bool | int | float) else ""
    return f"got {shown(value)}, expected {expected}{hint}"
