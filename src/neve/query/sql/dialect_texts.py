"""Functions of text, for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.build import call, integer, text
from neve.query.sql.dialect_arguments import literal, need, positive
from neve.query.sql.dialect_regex import java_pattern, java_replacement
from neve.query.sql.kinds import kind
from neve.query.sql.phrases import pattern_of
from neve.query.sql.portable import NotPortable

if TYPE_CHECKING:
    from neve.query.sql.dialect_arguments import Builder


def concatenated(*parts: exp.Expr) -> exp.Expr:
    """`concat`: what is null counts as empty."""
    return call("CONCAT", *(call("COALESCE", _as_text(part), text("")) for part in parts))


def _as_text(node: exp.Expr) -> exp.Expr:
    if kind(node) == "null":
        return exp.cast(node.copy(), exp.DType.TEXT)
    need(node, "text", "int", "bool")
    return node if kind(node) == "text" else exp.cast(node.copy(), exp.DType.TEXT)


def _substring(node: exp.Expr, start: exp.Expr, length: exp.Expr | None = None) -> exp.Expr:
    positive(start)
    if length is not None:
        positive(length, 0)
    return call("SUBSTRING", need(node, "text"), start, *([length] if length is not None else []))


def _end(name: str) -> Builder:
    def build(node: exp.Expr, length: exp.Expr) -> exp.Expr:
        positive(length)
        return call(name, need(node, "text"), length)

    return build


def _trimmed(side: str) -> Builder:
    def build(node: exp.Expr, letters: exp.Expr | None = None) -> exp.Expr:
        return exp.Trim(this=need(node, "text"), expression=letters or text(" "), position=side)

    return build


def _split(node: exp.Expr, separator: exp.Expr) -> exp.Expr:
    between = literal(separator, "a separator")
    if not between or r"\E" in between:
        raise NotPortable("an empty separator")
    return call("SPLIT", need(node, "text"), text(rf"\Q{between}\E"), exp.Neg(this=integer(1)))


def _split_part(node: exp.Expr, separator: exp.Expr, number: exp.Expr) -> exp.Expr:
    if not literal(separator, "a separator"):
        raise NotPortable("an empty separator")
    positive(number)
    return call("SPLIT_PART", need(node, "text"), separator, number)


def _matches(node: exp.Expr, pattern: exp.Expr, options: exp.Expr | None = None) -> exp.Expr:
    said = java_pattern(literal(pattern, "a pattern"), literal(options, "an option") if options else "")
    return call("REGEXP_LIKE", node, text(said))


def _fully_matches(node: exp.Expr, pattern: exp.Expr, options: exp.Expr | None = None) -> exp.Expr:
    said = java_pattern(literal(pattern, "a pattern"), literal(options, "an option") if options else "")
    flags, _, rest = said.partition(")")
    return call("REGEXP_LIKE", node, text(rf"{flags})\A(?:{rest})\z"))


def _extracted(name: str) -> Builder:
    def build(node: exp.Expr, pattern: exp.Expr, group: exp.Expr | None = None) -> exp.Expr:
        number = positive(group, 0) if group is not None else 0
        return call(name, node, text(java_pattern(literal(pattern, "a pattern"))), integer(number))

    return build


def _replaced(node: exp.Expr, pattern: exp.Expr, by: exp.Expr, options: exp.Expr | None = None) -> exp.Expr:
    said = literal(options, "an option") if options is not None else ""
    if "g" not in said:
        raise NotPortable("regexp_replace of the first match only")
    java = java_pattern(literal(pattern, "a pattern"), said.replace("g", ""))
    return call("REGEXP_REPLACE", node, text(java), text(java_replacement(literal(by, "a replacement"))))


def _hex(node: exp.Expr) -> exp.Expr:
    return call("HEX", need(node, "text", "blob", "int"))


def _unhex(node: exp.Expr) -> exp.Expr:
    said = literal(node, "hexadecimal text")
    if len(said) % 2 or set(said.lower()) - set("0123456789abcdef"):
        raise NotPortable("hexadecimal text that is none")
    return call("UNHEX", node)


def _words(name: str) -> Builder:
    def build(node: exp.Expr, wanted: exp.Expr) -> exp.Expr:
        return call("REGEXP_LIKE", exp.Lower(this=node), text(pattern_of(name, literal(wanted, "a word"))))

    return build


BUILDERS: dict[str, Builder] = {
    "has_term": _words("has_term"),
    "has_phrase": _words("has_phrase"),
    "concat": concatenated,
    **dict.fromkeys(("substr", "substring"), _substring),
    "left": _end("LEFT"),
    "right": _end("RIGHT"),
    "trim": _trimmed("BOTH"),
    "ltrim": _trimmed("LEADING"),
    "rtrim": _trimmed("TRAILING"),
    **dict.fromkeys(("string_split", "str_split", "split", "string_to_array"), _split),
    "split_part": _split_part,
    "replace": lambda node, old, new: call("REPLACE", node, text(literal(old, "a text to replace")), new),
    "regexp_matches": _matches,
    "regexp_full_match": _fully_matches,
    "regexp_extract": _extracted("REGEXP_EXTRACT"),
    "regexp_extract_all": _extracted("REGEXP_EXTRACT_ALL"),
    "regexp_replace": _replaced,
    **dict.fromkeys(("hex", "to_hex"), _hex),
    **dict.fromkeys(("unhex", "from_hex"), _unhex),
    **dict.fromkeys(("base64", "to_base64"), lambda node: call("BASE64", need(node, "blob"))),
    "sha256": lambda node: call("SHA2", node, integer(256)),
}
