"""`has_term` and `has_phrase`: whole words of a text, as a pattern that both engines read alike."""

from __future__ import annotations

from itertools import groupby

from sqlglot import exp

from neve.errors import QueryError
from neve.lake.words import is_word_character, lower
from neve.query.sql.identifiers import fold

BETWEEN = r"[^\p{L}\p{Nd}]"


def sequence_of(text: str) -> list[str]:
    """The words of a text in their order.

    >>> sequence_of("Über-Fehler 42, x_y")
    ['über', 'fehler', '42', 'x', 'y']
    """
    return [lower("".join(run)) for is_word, run in groupby(text, key=is_word_character) if is_word]


def pattern_of(name: str, text: str) -> str:
    """The regular expression that finds a word, or words in sequence, in a text in lower case."""
    words = sequence_of(text)
    if not words or (name == "has_term" and words != [lower(text)]):
        expected = "one word of letters and digits" if name == "has_term" else "words"
        raise QueryError(f"{name} got {text!r}, expected {expected}", hint="has_phrase finds several words in sequence")
    return f"(^|{BETWEEN}){(BETWEEN + '+').join(words)}($|{BETWEEN})"


def with_phrases(tree: exp.Expr) -> exp.Expr:
    """The tree with both functions as DuckDB's own."""
    for node in list(tree.find_all(exp.Anonymous)):
        name = fold(node.name)
        if name in {"has_term", "has_phrase"}:
            text, wanted = node.expressions
            if not wanted.is_string:
                raise QueryError(f"{name} takes what to look for as a text", hint=f"{name}(message, 'timeout')")
            node.replace(_found(exp.Lower(this=text), pattern_of(name, wanted.name), sequence_of(wanted.name)))
    return tree


def _found(text: exp.Expr, pattern: str, words: list[str]) -> exp.Expr:
    """A pattern is looked for only in texts that have the longest of its words: that is found much faster."""
    longest = exp.Literal.string(max(words, key=len))
    holds = exp.Anonymous(this="contains", expressions=[text.copy(), longest])
    matches = exp.Anonymous(this="regexp_matches", expressions=[text, exp.Literal.string(pattern)])
    return exp.Paren(this=exp.and_(holds, matches))
