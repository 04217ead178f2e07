"""Regular expressions of DuckDB (RE2) as Java reads them, where both can mean the same."""

from __future__ import annotations

import re

from neve.query.sql.portable import NotPortable

# One thing of a pattern at a time: an escape, a group's opening, a counted repetition, a class, or one character.
PART = re.compile(
    r"\\p\{\w+\}|\\[pP]\w|\\.|\(\?[^)]*?[:)>]|\(\?|\{\d+(?:,\d*)?\}|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|.", re.DOTALL
)
SPACE = r"\t\n\f\r "
EDGE = r"(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))"
ESCAPES = {r"\s": f"[{SPACE}]", r"\S": f"[^{SPACE}]", r"\b": EDGE}
KEPT = {r"\d", r"\D", r"\w", r"\W", r"\t", r"\n", r"\r", r"\f", r"\A", r"\z"}
QUANTIFIERS = {"*", "+", "?"}


def java_pattern(pattern: str, options: str = "") -> str:
    r"""The same pattern for Java; raise `NotPortable` for what one of the two reads differently.

    >>> java_pattern("^a.c$"), java_pattern("x", "i")
    ('(?d)^a.c\\z', '(?diu)x')
    """
    if set(options) - {"i", "c", "s"}:
        raise NotPortable(f"regular expressions with the options {options!r}")
    flags = "d" + ("iu" if "i" in options else "") + ("s" if "s" in options else "")
    if pattern.startswith("(?i)"):
        flags, pattern = "diu", pattern[4:]
    return f"(?{flags})" + "".join(_parts(pattern))


def _parts(pattern: str) -> list[str]:
    parts = PART.findall(pattern)
    if "".join(parts) != pattern:
        raise NotPortable("this regular expression")
    repeated = False
    said = []
    for part in parts:
        quantifier = part in QUANTIFIERS or part.startswith("{")
        if quantifier and part == "+" and repeated:
            raise NotPortable("regular expressions with possessive repetitions")
        said.append(_part(part))
        repeated = quantifier
    return said


def _part(part: str) -> str:
    if part.startswith("\\"):
        return _escape(part)
    if part.startswith("[") and len(part) > 1:
        return _class(part)
    if part.startswith("(?") and part != "(?:":
        raise NotPortable(f"regular expressions with {part}")
    if part in {"{", "[", "\\"}:
        raise NotPortable(f"regular expressions with a lone {part}")
    return r"\z" if part == "$" else part


def _escape(part: str) -> str:
    if part in ESCAPES:
        return ESCAPES[part]
    if part in KEPT or part.startswith((r"\p", r"\P")) or not (part[1].isalnum() or part[1] == "_"):
        return part
    raise NotPortable(f"regular expressions with {part}")


def _class(part: str) -> str:
    inner = part[2:-1] if part.startswith("[^") else part[1:-1]
    if "[" in inner.replace(r"\[", "") or "&&" in inner or r"\S" in inner or inner.startswith("]"):
        raise NotPortable(f"regular expressions with the class {part}")
    for escape in re.findall(r"\\.", inner, re.DOTALL):
        if escape != r"\s":
            _escape(escape)
        if escape == r"\b":
            raise NotPortable(r"regular expressions with \b in a class")
    return part.replace(r"\s", SPACE)


def java_replacement(text: str) -> str:
    r"""What a match becomes: RE2 says \1, Java says $1.

    >>> java_replacement(r"<\1> $")
    '<$1> \\$'
    """
    said = []
    for part in re.findall(r"\\.|\\$|[^\\]", text, re.DOTALL):
        if re.fullmatch(r"\\\d", part):
            said.append(f"${part[1]}")
        elif part.startswith("\\") and part != "\\\\":
            raise NotPortable(f"replacements with {part}")
        else:
            said.append("\\$" if part == "$" else part)
    return "".join(said)
