"""Texts in quotes, as Go writes them."""

from __future__ import annotations

import re

from neve.tail.policy.ottl.errors import OttlError

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
_ESCAPE = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\\"])|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<bad>.?))",
    re.DOTALL,
)


def unquote(quoted: str) -> str:
    r"""The text that stands in quotes; raises `OttlError` for an escape that Go does not know.

    >>> unquote('"a\\tb"')
    'a\tb'
    """
    inside = quoted[1:-1]
    if "\n" in inside:
        raise OttlError("a text in quotes has a line break, expected \\n")
    out, at = bytearray(), 0
    for found in _ESCAPE.finditer(inside):
        out += inside[at : found.start()].encode() + _bytes_of(found)
        at = found.end()
    try:
        return (out + inside[at:].encode()).decode()
    except UnicodeDecodeError:
        raise OttlError(f"the text {quoted} is not UTF-8") from None


def _bytes_of(escape: re.Match[str]) -> bytes:
    if escape["simple"]:
        return bytes((_SIMPLE[escape["simple"]],))
    if escape["byte"]:
        return bytes((int(escape["byte"], 16),))
    if escape["octal"]:
        return bytes((int(escape["octal"], 8),))
    code = escape["short"] or escape["long"]
    if code is None or not _is_character(int(code, 16)):
        raise OttlError(f"unknown escape {escape[0]} in a text, expected \\\\ for a backslash")
    return chr(int(code, 16)).encode()


def _is_character(code: int) -> bool:
    return code <= 0x10FFFF and not 0xD800 <= code < 0xE000
