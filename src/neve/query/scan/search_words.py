"""Words that must be in a text for a condition to be true, for an index of words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyiceberg.types import StringType
from sqlglot import exp

from neve.lake.words import is_word_character, words_of
from neve.query.scan.constants import is_text
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.query.scan.predicates import Resolve

SEARCHES = ("has_term", "has_phrase")
WILDCARD = re.compile("[%_]")


def required_words(node: exp.Expr, resolve: Resolve) -> Iterator[tuple[str, frozenset[str]]]:
    """Columns, each with words that its text must have for a condition to be true."""
    node = node.unnest()
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from required_words(part, resolve)
        return
    found = _asked(node)
    if found is None:
        return
    column, words = found
    field = resolve(column)
    if field is not None and isinstance(field.field_type, StringType) and words:
        yield field.name, words


def words_of_pattern(pattern: str) -> frozenset[str]:
    """The whole words of a LIKE pattern: those that end within it, or where the text does.

    >>> sorted(words_of_pattern("%a pool b%")), sorted(words_of_pattern("pool %"))
    (['pool'], ['pool'])
    """
    parts = WILDCARD.split(pattern)
    whole = []
    for place, part in enumerate(parts):
        start = 0 if place == 0 else _first_gap(part)
        end = len(part) if place == len(parts) - 1 else len(part) - _first_gap(part[::-1])
        whole.append(part[start:end])
    return words_of(" ".join(whole))


def _first_gap(text: str) -> int:
    """How many characters stand before the first that is in no word."""
    return next((place for place, character in enumerate(text) if not is_word_character(character)), len(text))


def _asked(node: exp.Expr) -> tuple[exp.Column, frozenset[str]] | None:
    sides = [side.unnest() for side in _sides(node)]
    if len(sides) != 2 or node.args.get("negate"):
        return None
    if isinstance(node, exp.EQ) and is_text(sides[0]):
        sides.reverse()
    column, text = sides
    return (column, _words(node, text.name)) if isinstance(column, exp.Column) and is_text(text) else None


def _sides(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Anonymous) and fold(node.name) in SEARCHES:
        return list(node.expressions)
    return [node.this, node.expression] if isinstance(node, exp.EQ | exp.Like | exp.ILike) else []


def _words(node: exp.Expr, text: str) -> frozenset[str]:
    if isinstance(node, exp.ILike):
        # Which other characters are the same without regard to case is a matter of taste; of ASCII it is not.
        return words_of_pattern(text) if text.isascii() else frozenset()
    return words_of_pattern(text) if isinstance(node, exp.Like) else words_of(text)
