"""Functions that every template has: comparisons, `index`, `len`, `print`, escapes."""

from __future__ import annotations

import html
import operator
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from neve.lexical.go_template.printf import format_printf, format_value, join_values, type_name

__all__ = ["BUILTIN_FUNCTIONS", "LAZY_FUNCTIONS", "is_true"]

# Functions that stop at the first argument that decides. The execution handles them.
LAZY_FUNCTIONS = frozenset({"and", "or"})
_JS_ESCAPES = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "<": "\\u003C",
    ">": "\\u003E",
    "&": "\\u0026",
    "=": "\\u003D",
}


def is_true(value: Any) -> bool:
    """Return the truth of a value in Go: false for zero, nil, and empty texts, maps and lists.

    >>> is_true(0.0), is_true("x"), is_true({}), is_true(float("nan"))
    (False, True, False, True)
    """
    if isinstance(value, str | Mapping | list):
        return len(value) > 0
    return value is not None and value is not False and not (isinstance(value, int | float) and value == 0)


def _check_kinds(first: Any, second: Any) -> None:
    if type(first) is not type(second) or not isinstance(first, bool | int | float | str):
        raise ValueError(f"incompatible types for comparison: {type_name(first)} and {type_name(second)}")


def _equals(first: Any, *others: Any) -> bool:
    if not others:
        raise ValueError("missing argument for comparison")
    for other in others:
        if first is None or other is None:
            if first is other:
                return True
            continue
        _check_kinds(first, other)
        if first == other:
            return True
    return False


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(first: Any, second: Any) -> bool:
        _check_kinds(first, second)
        if isinstance(first, bool):
            raise ValueError("invalid type for comparison: bool")
        return test(first, second)

    return compare


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, Mapping):
            if not isinstance(key, str):
                raise ValueError(f"a key of a map is {type_name(key)}, expected string")
            value = value.get(key, "")
        elif isinstance(value, list):
            if not isinstance(key, int) or isinstance(key, bool):
                raise ValueError(f"cannot index slice with type {type_name(key)}")
            if not 0 <= key < len(value):
                raise ValueError(f"index out of range: {key}")
            value = value[key]
        else:
            raise ValueError(f"can't index item of type {type_name(value)}")
    return value


def _slice(value: Any, *bounds: Any) -> Any:
    if not isinstance(value, str | list):
        raise ValueError(f"can't slice item of type {type_name(value)}")
    size = len(value.encode()) if isinstance(value, str) else len(value)
    start, end = (*bounds, *(0, size)[len(bounds) :])[:2]
    if not all(isinstance(one, int) for one in (start, end)) or not 0 <= start <= end <= size:
        raise ValueError(f"index out of range: {format_value(list(bounds))}")
    return value.encode()[start:end].decode(errors="replace") if isinstance(value, str) else value[start:end]


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    if isinstance(value, Mapping | list):
        return len(value)
    raise ValueError(f"len of type {type_name(value)}")


def _escape_html(*values: Any) -> str:
    return html.escape(join_values(values)).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


def _escape_js(*values: Any) -> str:
    return "".join(
        _JS_ESCAPES.get(char) or (f"\\u{ord(char):04X}" if ord(char) < 32 else char) for char in join_values(values)
    )


def _print_line(*values: Any) -> str:
    return " ".join(format_value(value) for value in values) + "\n"


BUILTIN_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "and": lambda *values: next((one for one in values if not is_true(one)), values[-1]),
    "or": lambda *values: next((one for one in values if is_true(one)), values[-1]),
    "not": lambda value: not is_true(value),
    "eq": _equals,
    "ne": lambda first, second: not _equals(first, second),
    "lt": _compare(operator.lt),
    "le": _compare(operator.le),
    "gt": _compare(operator.gt),
    "ge": _compare(operator.ge),
    "index": _index,
    "slice": _slice,
    "len": _length,
    "print": lambda *values: join_values(values),
    "printf": lambda form, *values: format_printf(form, values),
    "println": _print_line,
    "html": _escape_html,
    "js": _escape_js,
    "urlquery": lambda *values: quote_plus(join_values(values)),
}
