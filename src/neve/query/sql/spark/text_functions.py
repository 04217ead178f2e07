"""Functions of text for Spark, and regular expressions of RE2 (DuckDB) as Java reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.dialect import call, integer, search_pattern, text
from neve.query.sql.type_inference import NotPortable, kind, require_kind, require_literal, require_positive

if TYPE_CHECKING:
    from neve.query.sql.type_inference import Builder


# One token of a pattern: an escape, a group's opening, a counted repetition, a class, or one character.
PART = re.compile(
    r"\\p\{\w+\}|\\[pP]\w|\\.|\(\?[^)]*?[:)>]|\(\?|\{\d+(?:,\d*)?\}|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|.", re.DOTALL
)
SPACE = r"\t\n\f\r "
EDGE = r"(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))"
ESCAPES = {r"\s": f"[{SPACE}]", r"\S": f"[^{SPACE}]", r"\b": EDGE}
PORTABLE_ESCAPES = {r"\d", r"\D", r"\w", r"\W", r"\t", r"\n", r"\r", r"\f", r"\A", r"\z"}
QUANTIFIERS = {"*", "+", "?"}


def java_pattern(pattern: str, options: str = "") -> str:
    r"""Return the same pattern for Java. Raises `NotPortable` for syntax that the two interpret differently.

    >>> java_pattern("^a.c$"), java_pattern("x", "i")
    ('(?d)^a.c\\z', '(?diu)x')
    """
    if set(options) - {"i", "c", "s"}:
        raise NotPortable(f"regular expressions with the options {options!r}")
    flags = "d" + ("iu" if "i" in options else "") + ("s" if "s" in options else "")
    if pattern.startswith("(?i)"):
        flags, pattern = "diu", pattern[4:]
    return f"(?{flags})" + "".join(_translate_parts(pattern))


def _translate_parts(pattern: str) -> list[str]:
    parts = PART.findall(pattern)
    if "".join(parts) != pattern:
        raise NotPortable("this regular expression")
    repeated = False
    said = []
    for part in parts:
        quantifier = part in QUANTIFIERS or part.startswith("{")
        if quantifier and part == "+" and repeated:
            raise NotPortable("regular expressions with possessive repetitions")
        said.append(_translate_part(part))
        repeated = quantifier
    return said


def _translate_part(part: str) -> str:
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
    if part in PORTABLE_ESCAPES or part.startswith((r"\p", r"\P")) or not (part[1].isalnum() or part[1] == "_"):
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
    r"""Translate a replacement: RE2 has \1 where Java has $1.

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


def concatenate(*parts: exp.Expr) -> exp.Expr:
    """Translate `concat`: null counts as empty."""
    return call("CONCAT", *(call("COALESCE", _as_text(part), text("")) for part in parts))


def _as_text(node: exp.Expr) -> exp.Expr:
    if kind(node) == "null":
        return exp.cast(node.copy(), exp.DType.TEXT)
    require_kind(node, "text", "int", "bool")
    return node if kind(node) == "text" else exp.cast(node.copy(), exp.DType.TEXT)


def _substring(node: exp.Expr, start: exp.Expr, length: exp.Expr | None = None) -> exp.Expr:
    require_positive(start)
    if length is not None:
        require_positive(length, 0)
    return call("SUBSTRING", require_kind(node, "text"), start, *([length] if length is not None else []))


def _end(name: str) -> Builder:
    def build(node: exp.Expr, length: exp.Expr) -> exp.Expr:
        require_positive(length)
        return call(name, require_kind(node, "text"), length)

    return build


def _trim(side: str) -> Builder:
    def build(node: exp.Expr, letters: exp.Expr | None = None) -> exp.Expr:
        return exp.Trim(this=require_kind(node, "text"), expression=letters or text(" "), position=side)

    return build


def _split(node: exp.Expr, separator: exp.Expr) -> exp.Expr:
    between = require_literal(separator, "a separator")
    if not between or r"\E" in between:
        raise NotPortable("an empty separator")
    return call("SPLIT", require_kind(node, "text"), text(rf"\Q{between}\E"), exp.Neg(this=integer(1)))


def _split_part(node: exp.Expr, separator: exp.Expr, number: exp.Expr) -> exp.Expr:
    if not require_literal(separator, "a separator"):
        raise NotPortable("an empty separator")
    require_positive(number)
    return call("SPLIT_PART", require_kind(node, "text"), separator, number)


def _matches(node: exp.Expr, pattern: exp.Expr, options: exp.Expr | None = None) -> exp.Expr:
    said = java_pattern(require_literal(pattern, "a pattern"), require_literal(options, "an option") if options else "")
    return call("REGEXP_LIKE", node, text(said))


def _fully_matches(node: exp.Expr, pattern: exp.Expr, options: exp.Expr | None = None) -> exp.Expr:
    said = java_pattern(require_literal(pattern, "a pattern"), require_literal(options, "an option") if options else "")
    flags, _, rest = said.partition(")")
    return call("REGEXP_LIKE", node, text(rf"{flags})\A(?:{rest})\z"))


def _extract(name: str) -> Builder:
    def build(node: exp.Expr, pattern: exp.Expr, group: exp.Expr | None = None) -> exp.Expr:
        number = require_positive(group, 0) if group is not None else 0
        return call(name, node, text(java_pattern(require_literal(pattern, "a pattern"))), integer(number))

    return build


def _replace(node: exp.Expr, pattern: exp.Expr, by: exp.Expr, options: exp.Expr | None = None) -> exp.Expr:
    said = require_literal(options, "an option") if options is not None else ""
    if "g" not in said:
        raise NotPortable("regexp_replace of the first match only")
    java = java_pattern(require_literal(pattern, "a pattern"), said.replace("g", ""))
    return call("REGEXP_REPLACE", node, text(java), text(java_replacement(require_literal(by, "a replacement"))))


def _hex(node: exp.Expr) -> exp.Expr:
    return call("HEX", require_kind(node, "text", "blob", "int"))


def _unhex(node: exp.Expr) -> exp.Expr:
    said = require_literal(node, "hexadecimal text")
    if len(said) % 2 or set(said.lower()) - set("0123456789abcdef"):
        raise NotPortable("hexadecimal text that is none")
    return call("UNHEX", node)


def _search_words(name: str) -> Builder:
    def build(node: exp.Expr, wanted: exp.Expr) -> exp.Expr:
        return call("REGEXP_LIKE", exp.Lower(this=node), text(search_pattern(name, require_literal(wanted, "a word"))))

    return build


BUILDERS: dict[str, Builder] = {
    "has_term": _search_words("has_term"),
    "has_phrase": _search_words("has_phrase"),
    "concat": concatenate,
    **dict.fromkeys(("substr", "substring"), _substring),
    "left": _end("LEFT"),
    "right": _end("RIGHT"),
    "trim": _trim("BOTH"),
    "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    **dict.fromkeys(("string_split", "str_split", "split", "string_to_array"), _split),
    "split_part": _split_part,
    "replace": lambda node, old, new: call("REPLACE", node, text(require_literal(old, "a text to replace")), new),
    "regexp_matches": _matches,
    "regexp_full_match": _fully_matches,
    "regexp_extract": _extract("REGEXP_EXTRACT"),
    "regexp_extract_all": _extract("REGEXP_EXTRACT_ALL"),
    "regexp_replace": _replace,
    **dict.fromkeys(("hex", "to_hex"), _hex),
    **dict.fromkeys(("unhex", "from_hex"), _unhex),
    **dict.fromkeys(("base64", "to_base64"), lambda node: call("BASE64", require_kind(node, "blob"))),
    "sha256": lambda node: call("SHA2", node, integer(256)),
}
