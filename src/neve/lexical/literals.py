"""Strings, numbers, times and durations as Go and Prometheus write them."""

from __future__ import annotations

import math
import re
from datetime import datetime

import numpy as np

__all__ = [
    "LiteralError",
    "UnknownEscape",
    "decode_escapes",
    "format_duration",
    "format_float",
    "format_general",
    "parse_duration",
    "parse_number",
    "parse_time",
    "quote",
    "scan_number",
    "scan_string",
    "unquote",
]

_NUMBER = re.compile(
    r"0[xX]_?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
    r"|(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+(?:_[0-9]+)*)(?:[eE][+-]?[0-9]+(?:_[0-9]+)*)?"
)
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+")
_DURATION_ORDER = re.compile(
    r"(?:([0-9]+)y)?(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?"
)
_UNITS_MS = (365 * 86_400_000, 7 * 86_400_000, 86_400_000, 3_600_000, 60_000, 1000, 1)
_UNIT_NAMES = ("y", "w", "d", "h", "m", "s", "ms")
_SPECIAL = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_MAX_SECONDS = 1e15  # far beyond any time of a sample
_MAX_DURATION_MS = (1 << 63) // 1_000_000  # the largest count of nanoseconds in 64 bits

_SIMPLE_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39}
_ESCAPE = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\\"'])|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<bad>.?))",
    re.DOTALL,
)


class LiteralError(ValueError):
    """Raised when a string, number or duration is malformed."""


class UnknownEscape(LiteralError):
    """Raised when a quoted string has an escape that Go does not have."""

    def __init__(self, escape: str) -> None:
        super().__init__(f"unknown escape sequence {escape}")
        self.escape = escape


def scan_string(text: str, start: int) -> int:
    """Return the end of the quoted string that begins at `start`, or raise `LiteralError` if it has none."""
    mark = text[start]
    at = start + 1
    while at < len(text):
        char = text[at]
        if char == mark:
            return at + 1
        if mark != "`":
            if char == "\n":
                break
            if char == "\\":
                at += 1
        at += 1
    raise LiteralError("unterminated raw string" if mark == "`" else "unterminated quoted string")


def unquote(quoted: str, *, keep_invalid: bool = False) -> str:
    r"""Return the text of a quoted string, or raise `LiteralError` for an escape that is unknown in Go.

    Bytes that are not UTF-8 are an error, or with `keep_invalid` become lone surrogates.

    >>> unquote('"a\\tb"')
    'a\tb'
    """
    mark, inside = quoted[0], quoted[1:-1]
    if mark == "`":
        return inside
    decoded = decode_escapes(inside, mark)
    try:
        return decoded.decode(errors="surrogateescape" if keep_invalid else "strict")
    except UnicodeDecodeError:
        raise LiteralError(f"error unquoting string {quoted}: invalid syntax") from None


def decode_escapes(inside: str, mark: str = '"') -> bytes:
    r"""Return the bytes of a string without its quotation marks. Raises `UnknownEscape`.

    >>> decode_escapes(r"a\tb\xff")
    b'a\tb\xff'
    """
    out, at = bytearray(), 0
    for found in _ESCAPE.finditer(inside):
        out += inside[at : found.start()].encode() + _bytes_of(found, mark)
        at = found.end()
    return bytes(out + inside[at:].encode())


def _bytes_of(escape: re.Match[str], mark: str) -> bytes:
    if escape["simple"] and (escape["simple"] not in "\"'" or escape["simple"] == mark):
        return bytes((_SIMPLE_ESCAPES[escape["simple"]],))
    if escape["byte"]:
        return bytes((int(escape["byte"], 16),))
    if escape["octal"]:
        return bytes((int(escape["octal"], 8),))
    code = escape["short"] or escape["long"]
    if code is None or not _is_character(int(code, 16)):
        raise UnknownEscape(escape[0])
    return chr(int(code, 16)).encode()


def _is_character(code: int) -> bool:
    return code <= 0x10FFFF and not 0xD800 <= code < 0xE000


def quote(text: str) -> str:
    r"""Return a text as a quoted string of Go.

    >>> quote('a"b')
    '"a\\"b"'
    """
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char.isprintable():
            out.append(char)
        else:
            out.append(_escape(char))
    return '"' + "".join(out) + '"'


def _escape(char: str) -> str:
    for name, code in _SIMPLE_ESCAPES.items():
        if code == ord(char):
            return "\\" + name
    if ord(char) < 0x80 or 0xDC80 <= ord(char) <= 0xDCFF:  # a lone surrogate stands for a byte that is not UTF-8
        return f"\\x{ord(char) & 0xFF:02x}"
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def scan_number(text: str, start: int) -> tuple[int, bool] | None:
    """Return the end of the number or duration at `start`, and whether it is a duration; `None` for neither."""
    for pattern, is_duration in ((_DURATION, True), (_NUMBER, False)):
        found = pattern.match(text, start)
        if found and not _continues(text, found.end()):
            return found.end(), is_duration
    return None


def _continues(text: str, at: int) -> bool:
    return at < len(text) and (text[at].isalnum() or text[at] == "_" or (text[at] == "." and text[at - 1] == "."))


def parse_number(text: str) -> float:
    """Return the value of a number: decimal, hexadecimal, octal with a leading 0, `Inf`, `NaN`, digits split by `_`.

    >>> parse_number("0x1F"), parse_number("1_000"), parse_number("017")
    (31.0, 1000.0, 15.0)
    """
    special = _SPECIAL.get(text.lower())
    if special is not None:
        return special
    digits = text.replace("_", "")
    try:
        if digits[:2].lower() == "0x":
            return float(int(digits, 16))
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit() and not set(digits) & {"8", "9"}:
            return float(int(digits, 8))
        return float(digits)
    except (ValueError, OverflowError):
        raise LiteralError(f"error parsing number: {text}") from None


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds. Units must be in order: y, w, d, h, m, s, ms.

    >>> parse_duration("1h30m"), parse_duration("0")
    (5400000, 0)
    """
    if text == "0":
        return 0
    found = _DURATION_ORDER.fullmatch(text)
    if not found or not text:
        raise LiteralError(f"not a valid duration string: {quote(text)}")
    total = sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS_MS, strict=True))
    if total > _MAX_DURATION_MS:
        raise LiteralError("duration out of range")
    return total


def parse_time(text: str) -> int | None:
    """Parse seconds since 1970, or a time of RFC 3339. Return milliseconds since 1970, or `None` if it is neither.

    >>> parse_time("1.5"), parse_time("1970-01-01T00:00:02Z"), parse_time("1970-01-01"), parse_time("inf")
    (1500, 2000, None, None)
    """
    try:
        seconds = float(text)
    except ValueError:
        return _parse_date(text)
    return round(seconds * 1000) if math.isfinite(seconds) and abs(seconds) < _MAX_SECONDS else None


def _parse_date(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def format_duration(milliseconds: int) -> str:
    """Return a duration as Prometheus writes it; years and weeks only where they divide it.

    >>> format_duration(5_400_000), format_duration(604_800_000), format_duration(0)
    ('1h30m', '1w', '0s')
    """
    if milliseconds == 0:
        return "0s"
    out, rest = [], milliseconds
    for name, unit in zip(_UNIT_NAMES, _UNITS_MS, strict=True):
        if name in "yw" and rest % unit:
            continue
        count, rest = divmod(rest, unit)
        if count:
            out.append(f"{count}{name}")
    return "".join(out)


def format_float(value: float) -> str:
    """Return a number in its shortest plain decimals, without an exponent.

    >>> format_float(1e21), format_float(0.1), format_float(float("inf"))
    ('1000000000000000000000', '0.1', '+Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(np.format_float_positional(value, unique=True, trim="-"))


def format_general(value: float) -> str:
    """Return a number as Go's `%g` does: shortest digits, an exponent below 1e-4 and from 1e21.

    >>> format_general(0.5), format_general(1e21), format_general(2.0)
    ('0.5', '1e+21', '2')
    """
    if not math.isfinite(value) or value == 0 or 1e-4 <= abs(value) < 1e21:
        return format_float(value) if value or math.isnan(value) else "0"
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="-").split("e")
    sign, digits = ("-", exponent[1:]) if exponent[0] == "-" else ("+", exponent.lstrip("+"))
    return f"{mantissa}e{sign}{int(digits):02d}"
