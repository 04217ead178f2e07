"""Queries without their values: what may leave the machine, and what tells equal queries apart.

Names of tables and columns stay, and so do keys of maps where they stand for columns (`attributes['http.route']`): a
proposal is about them. Everything that a query compares with, counts by or says in a comment goes.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from neve.autopilot.workload import AllOf, AnyOf, Filter, Query, Test

MARK = "?"
LITERALS = {kind for kind in TokenType if "STRING" in kind.name} | {TokenType.NUMBER}
LEFT, RIGHT = {"(", "["}, {")", "]", ",", ".", ";"}
SHORTEST_FINGERPRINT = 16
MAX_CHARACTERS = 200_000
MOST_WORDS = 60  # of a text that nobody understood
NAMES = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.UNKNOWN}


@lru_cache(maxsize=4_000)
def redacted(text: str, dialect: str) -> str:
    r"""A query with a question mark for each value, one for a list of them, and no comments.

    >>> redacted("SELECT a /* mine */ FROM t WHERE b = 'x' AND c IN (1, 2, 3)", "trino")
    'SELECT a FROM t WHERE b = ? AND c IN (?)'
    """
    if len(text) > MAX_CHARACTERS:
        return f"(a text of {len(text):,} characters)"
    try:
        tokens = sqlglot.tokenize(text, dialect=dialect)
    except (SqlglotError, RecursionError):
        return f"(a text of {len(text):,} characters that can't be read)"
    return _spaced(_collapsed(_masked(tokens)))


def skeleton(text: str, dialect: str) -> str:
    """The words of SQL in a text that is no SQL: a quote in a wrong place may make names of what were values.

    >>> skeleton("SELECT 'it's mine' FROM t WHERE", "trino")
    "(a text of 31 characters that can't be read)"
    >>> skeleton("SELECT mine FROM WHERE 5", "trino")
    'SELECT _ FROM WHERE ?'
    """
    try:
        tokens = sqlglot.tokenize(text[:MAX_CHARACTERS], dialect=dialect)
    except (SqlglotError, RecursionError):
        return f"(a text of {len(text):,} characters that can't be read)"
    known = [(_plain(token), True) for token in tokens[:MOST_WORDS]]
    return _spaced(_collapsed(known)) + (" …" if len(tokens) > MOST_WORDS else "")


def fingerprint(text: str, dialect: str) -> str:
    """The same for queries that differ only in values, spacing and case of their words."""
    return hashlib.sha256(redacted(text, dialect).lower().encode()).hexdigest()[:SHORTEST_FINGERPRINT]


def without_values(query: Query, dialect: str) -> Query:
    """A query whose tests say which column and how, but not with what."""
    uses = tuple(replace(use, filter=_blank(use.filter), limit=None) for use in query.uses)
    return replace(query, text=redacted(query.text, dialect), uses=uses, implied=())


def described(found: Filter, *, allow_literals: bool = False) -> str:
    """A filter in one line.

    >>> described(AllOf((Test("a", "eq", (5,)), Test("b", "range", low=1))))
    'a = ? AND b >= ?'
    """
    if isinstance(found, Test):
        return _test(found, allow_literals=allow_literals)
    joined = " AND " if isinstance(found, AllOf) else " OR "
    parts = [described(part, allow_literals=allow_literals) for part in found.parts]
    bracketed = [one if isinstance(part, Test) else f"({one})" for one, part in zip(parts, found.parts, strict=True)]
    return joined.join(bracketed) or ("everything" if isinstance(found, AllOf) else "nothing")


def _test(test: Test, *, allow_literals: bool) -> str:
    column = f"{test.function}({test.column})" if test.function.isidentifier() else test.column

    def said(value: object) -> str:
        return repr(value) if allow_literals else MARK

    if test.kind == "range":
        low = f"{column} {'>=' if test.low_inclusive else '>'} {said(test.low)}" if test.low is not None else ""
        high = f"{column} {'<=' if test.high_inclusive else '<'} {said(test.high)}" if test.high is not None else ""
        return " AND ".join(one for one in (low, high) if one)
    values = ", ".join(dict.fromkeys(map(said, test.values)))
    words = {"eq": f"= {values}", "in": f"IN ({values})", "prefix": f"LIKE {values}%"}
    words |= {"is_null": "IS NULL", "not_null": "IS NOT NULL", "other": "(something)"}
    return f"{column} {words[test.kind]}"


def _blank(found: Filter) -> Filter:
    if isinstance(found, Test):
        return Test(found.column, found.kind, function=found.function)
    parts = tuple(dict.fromkeys(_blank(part) for part in found.parts))
    return AllOf(parts) if isinstance(found, AllOf) else AnyOf(parts)


def _masked(tokens: list[Token]) -> list[tuple[str, bool]]:
    """The words, and whether there was room before them; what touches a value from behind is part of it."""
    said: list[tuple[str, bool]] = []
    end, was_value = -2, False
    for token in tokens:
        touches = token.start <= end + 1
        is_word = token.text[:1].isalnum() or token.text[:1] in {"_", "'", '"'} or token.start <= end
        is_value = _is_value(token) or (was_value and touches and is_word)
        if not (is_value and was_value and touches):
            said.append((MARK if is_value else _word(token), not touches))
        end, was_value = max(end, token.end), is_value
    return said


def _is_value(token: Token) -> bool:
    """Whether a word is a value; ClickHouse lets names begin with digits, which numbers that it can't read do too."""
    is_digits = token.token_type == TokenType.VAR and token.text[:1].isdigit()
    return token.token_type in LITERALS or is_digits


def _plain(token: Token) -> str:
    if _is_value(token):
        return MARK
    return "_" if token.token_type in NAMES else token.text.upper()


def _word(token: Token) -> str:
    if token.token_type == TokenType.IDENTIFIER:
        return '"' + token.text.replace('"', '""') + '"'
    return token.text


def _collapsed(words: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """A list of values as one value, however long it is."""
    kept: list[tuple[str, bool]] = []
    for word in words:
        kept.append(word)
        while len(kept) >= 3 and [said for said, _ in kept[-3:]] == [MARK, ",", MARK]:
            del kept[-2:]
    return kept


def _spaced(words: list[tuple[str, bool]]) -> str:
    said, before = "", ""
    for word, room in words:
        said += (" " if said and room and before not in LEFT and word not in RIGHT else "") + word
        before = word
    return said
