"""Values as text: `print`, `printf` and `%v` of Go."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from neve.lexical.literals import quote

__all__ = ["GoDuration", "Record", "format_printf", "format_value", "join_values", "type_name"]

MAX_WIDTH = 10_000
_VERB = re.compile(r"%(?P<flags>[+\-# 0]*)(?P<width>[0-9]+)?(?:\.(?P<precision>[0-9]*))?(?P<verb>.)?", re.DOTALL)
_FLOAT_VERBS = frozenset("eEfFgG")
_INTEGER_VERBS = frozenset("dboxXcqU")


@dataclass(frozen=True, slots=True)
class Record:
    """Value with named fields, as a struct of Go."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GoDuration:
    """Duration of Go."""

    nanoseconds: int

    def __str__(self) -> str:
        sign, rest = "-" if self.nanoseconds < 0 else "", abs(self.nanoseconds)
        if rest < 1_000_000_000:
            units = (("ms", 1_000_000), ("µs", 1000), ("ns", 1))
            name, unit = next((one for one in units if rest >= one[1]), ("s", 1))
            return f"{sign}{format_float(rest / unit)}{name}"
        hours, rest = divmod(rest, 3_600_000_000_000)
        minutes, rest = divmod(rest, 60_000_000_000)
        seconds = f"{rest // 10**9}.{rest % 10**9:09d}".rstrip("0").rstrip(".") + "s"
        if hours:
            return f"{sign}{hours}h{minutes}m{seconds}"
        return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def type_name(value: Any) -> str:
    """Return the name of the type in Go, for messages."""
    if value is None:
        return "<nil>"
    names = {bool: "bool", int: "int", float: "float64", str: "string", dict: "map[string]string", list: "list"}
    return names.get(type(value), type(value).__name__)


def format_float(value: float) -> str:
    """Return a number with its shortest digits and an exponent below 1e-4 and from 1e6 on, as `%v` does.

    >>> format_float(1e6), format_float(100000.0), format_float(0.5), format_float(math.inf)
    ('1e+06', '100000', '0.5', '+Inf')
    """
    if not math.isfinite(value):
        return _special(value)
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="-").split("e")
    if -4 <= int(exponent) < 6:
        return str(np.format_float_positional(value, unique=True, trim="-"))
    return f"{mantissa}e{'-' if exponent[0] == '-' else '+'}{abs(int(exponent)):02d}"


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def format_value(value: Any) -> str:
    """Return a value as `%v` prints it. Maps are sorted by key.

    >>> format_value({"b": "2", "a": "1"}), format_value([1, 2.5]), format_value(None)
    ('map[a:1 b:2]', '[1 2.5]', '<nil>')
    """
    if isinstance(value, Mapping):
        return "map[" + " ".join(f"{key}:{format_value(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, Record):
        return "{" + " ".join(format_value(one) for one in value.fields.values()) + "}"
    if isinstance(value, list):
        return "[" + " ".join(format_value(one) for one in value) + "]"
    return _format_scalar(value)


def _format_scalar(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    return _format_time(value) if isinstance(value, datetime) else str(value)


def _format_time(value: datetime) -> str:
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{value:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def join_values(values: Sequence[Any]) -> str:
    """Return values as `print` does: with a space between two of which neither is a text."""
    out = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            out.append(" ")
        out.append(format_value(value))
    return "".join(out)


@dataclass(frozen=True, slots=True)
class _Format:
    """One directive of `printf`."""

    flags: str
    width: int
    precision: int | None
    verb: str

    def pad(self, text: str, *, is_number: bool = False) -> str:
        """Return a text with the least width. Zeros go between sign and digits."""
        if "-" in self.flags:
            return text.ljust(self.width)
        if "0" in self.flags and is_number:
            sign = text[:1] if text[:1] in {"+", "-", " "} else ""
            return sign + text[len(sign) :].rjust(self.width - len(sign), "0")
        return text.rjust(self.width)

    def sign(self, text: str) -> str:
        """Return a number with the sign that the flags ask for."""
        if text[:1] in {"+", "-"}:
            return text if "+" in self.flags or text[0] == "-" else text[1:]
        return ("+" if "+" in self.flags else " " if " " in self.flags else "") + text


def format_printf(form: str, arguments: Sequence[Any]) -> str:
    """Return a text with values in place of directives such as `%s` and `%.2f`.

    A directive that does not fit its value is printed as Go does it, for example `%!d(float64=1.5)`.

    >>> format_printf("%s is %.1f%%", ["x", 12.345]), format_printf("%d", [1.5])
    ('x is 12.3%', '%!d(float64=1.5)')
    """
    rest = list(arguments)

    def replace_one(found: re.Match[str]) -> str:
        verb = found["verb"]
        if verb is None:
            return "%!(NOVERB)"
        if verb == "%":
            return "%"
        if verb in "*[":
            raise ValueError(f"printf does not support {found[0]!r}: write the width and the order of values out")
        width = int(found["width"] or 0)
        precision = None if found["precision"] is None else int(found["precision"] or 0)
        if width > MAX_WIDTH or (precision or 0) > MAX_WIDTH:
            raise ValueError(f"printf has a width of more than {MAX_WIDTH:,}: {found[0]!r}")
        if not rest:
            return f"%!{verb}(MISSING)"
        flags = found["flags"].replace("+", "") if verb == "v" else found["flags"]  # %+v is about names of fields
        return _format_one(_Format(flags, width, precision, verb), rest.pop(0))

    text = _VERB.sub(replace_one, form)
    if rest:
        extra = ", ".join("<nil>" if one is None else f"{type_name(one)}={format_value(one)}" for one in rest)
        text += f"%!(EXTRA {extra})"
    return text


def _format_one(form: _Format, value: Any) -> str:
    if form.verb == "T":
        return form.pad(type_name(value))
    if value is None:
        return form.pad("<nil>") if form.verb == "v" else f"%!{form.verb}(<nil>)"
    writers: tuple[tuple[type, Callable[[_Format, Any], str | None]], ...] = (
        (bool, _format_boolean),
        (float, _format_float),
        (int, _format_integer),
        (str, _format_text),
    )
    for kind, write in writers:
        if isinstance(value, kind):
            text = write(form, value)
            return _format_mismatch(form, value) if text is None else text
    return form.pad(format_value(value)) if form.verb in {"v", "s"} else _format_mismatch(form, value)


def _format_mismatch(form: _Format, value: Any) -> str:
    text = _format_one(replace(form, verb="v"), value)
    return f"%!{form.verb}({type_name(value)}={text})"


def _format_boolean(form: _Format, value: bool) -> str | None:
    return form.pad("true" if value else "false") if form.verb in {"t", "v"} else None


def _format_float(form: _Format, value: float) -> str | None:
    if form.verb != "v" and form.verb not in _FLOAT_VERBS:
        return None
    if not math.isfinite(value):
        text = _special(value)
        text = text[1:] if value > 0 and "+" not in form.flags else text
        return replace(form, flags=form.flags.replace("0", "")).pad("+Inf" if text == "Inf" else text)
    if form.precision is None and form.verb in {"v", "g", "G"}:
        text = format_float(value)
    else:
        kind = "g" if form.verb == "v" else form.verb
        text = f"%.{6 if form.precision is None else form.precision}{kind}" % value
    text = text.upper() if form.verb == "G" else text
    return form.pad(form.sign(text), is_number=True)


def _format_integer(form: _Format, value: int) -> str | None:
    if form.verb in {"v", "d"}:
        return form.pad(form.sign(str(value)), is_number=True)
    if form.verb not in _INTEGER_VERBS:
        return None
    if form.verb in {"c", "q", "U"}:
        if not 0 <= value <= 0x10FFFF:
            value = 0xFFFD
        texts = {"c": chr(value), "q": f"'{chr(value)}'", "U": f"U+{value:04X}"}
        return form.pad(texts[form.verb])
    prefix = {"x": "0x", "X": "0X", "o": "0", "b": "0b"}[form.verb] if "#" in form.flags else ""
    sign = "-" if value < 0 else ""
    return form.pad(form.sign(f"{sign}{prefix}{abs(value):{form.verb}}"), is_number=True)


def _format_text(form: _Format, value: str) -> str | None:
    if form.verb in {"x", "X"}:
        data = value.encode(errors="replace")[: form.precision]
        return form.pad(data.hex().upper() if form.verb == "X" else data.hex())
    cut = value if form.precision is None else value[: form.precision]
    if form.verb in {"s", "v"}:
        return form.pad(cut)
    return form.pad(quote(cut)) if form.verb == "q" else None
