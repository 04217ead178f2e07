"""Redaction and fingerprints of queries.

Names of tables and columns stay, and so do map keys that act as columns (`attributes['http.route']`), because a
proposal is about them. Literals and comments are removed.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from neve.predicate.filters import AllOf, Filter, Test

PLACEHOLDER = "?"
LITERAL_TOKENS = {kind for kind in TokenType if "STRING" in kind.name} | {TokenType.NUMBER}
OPENING_MARKS, CLOSING_MARKS = {"(", "["}, {")", "]", ",", ".", ";"}
FINGERPRINT_DIGITS = 16
MAX_CHARACTERS = 200_000
MAX_WORDS = 60  # of a text that can't be parsed
NAME_TOKENS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.UNKNOWN}


@lru_cache(maxsize=4_000)
def redact_query(text: str, dialect: str) -> str:
    r"""Replace each value of a query, and each list of values, by a question mark, and remove comments.

    >>> redact_query("SELECT a /* mine */ FROM t WHERE b = 'x' AND c IN (1, 2, 3)", "trino")
    'SELECT a FROM t WHERE b = ? AND c IN (?)'
    """
    if len(text) > MAX_CHARACTERS:
        return f"(a text of {len(text):,} characters)"
    try:
        tokens = sqlglot.tokenize(text, dialect=dialect)
    except (SqlglotError, RecursionError):
        return f"(a text of {len(text):,} characters that can't be read)"
    return _join_words(_collapse_lists(_mask_tokens(tokens)))


def extract_skeleton(text: str, dialect: str) -> str:
    """Return the SQL keywords of a text that doesn't parse.

    Names are masked as well, because a misplaced quote may turn values into names.

    >>> extract_skeleton("SELECT 'it's mine' FROM t WHERE", "trino")
    "(a text of 31 characters that can't be read)"
    >>> extract_skeleton("SELECT mine FROM WHERE 5", "trino")
    'SELECT _ FROM WHERE ?'
    """
    try:
        tokens = sqlglot.tokenize(text[:MAX_CHARACTERS], dialect=dialect)
    except (SqlglotError, RecursionError):
        return f"(a text of {len(text):,} characters that can't be read)"
    known = [(_mask_word(token), True) for token in tokens[:MAX_WORDS]]
    return _join_words(_collapse_lists(known)) + (" …" if len(tokens) > MAX_WORDS else "")


def fingerprint_query(text: str, dialect: str) -> str:
    """Return a fingerprint that is equal for queries that differ only in values, whitespace and case of keywords."""
    return hashlib.sha256(redact_query(text, dialect).lower().encode()).hexdigest()[:FINGERPRINT_DIGITS]


def format_filter(found: Filter, *, allow_literals: bool = False) -> str:
    """Format a filter on one line.

    >>> format_filter(AllOf((Test("a", "eq", (5,)), Test("b", "range", low=1))))
    'a = ? AND b >= ?'
    """
    if isinstance(found, Test):
        return _format_test(found, allow_literals=allow_literals)
    joined = " AND " if isinstance(found, AllOf) else " OR "
    parts = [format_filter(part, allow_literals=allow_literals) for part in found.parts]
    bracketed = [one if isinstance(part, Test) else f"({one})" for one, part in zip(parts, found.parts, strict=True)]
    return joined.join(bracketed) or ("everything" if isinstance(found, AllOf) else "nothing")


def _format_test(test: Test, *, allow_literals: bool) -> str:
    column = f"{test.function}({test.column})" if test.function.isidentifier() else test.column

    def show(value: object) -> str:
        return repr(value) if allow_literals else PLACEHOLDER

    if test.kind == "range":
        low = f"{column} {'>=' if test.low_inclusive else '>'} {show(test.low)}" if test.low is not None else ""
        high = f"{column} {'<=' if test.high_inclusive else '<'} {show(test.high)}" if test.high is not None else ""
        return " AND ".join(one for one in (low, high) if one)
    values = ", ".join(dict.fromkeys(map(show, test.values)))
    words = {"eq": f"= {values}", "in": f"IN ({values})", "prefix": f"LIKE {values}%"}
    words |= {"is_null": "IS NULL", "not_null": "IS NOT NULL", "other": "(something)"}
    return f"{column} {words[test.kind]}"


def _mask_tokens(tokens: list[Token]) -> list[tuple[str, bool]]:
    """Return the tokens, and whether there was whitespace before each.

    A token that directly follows a value is part of the value.
    """
    words: list[tuple[str, bool]] = []
    end, was_value = -2, False
    for token in tokens:
        touches = token.start <= end + 1
        is_word = token.text[:1].isalnum() or token.text[:1] in {"_", "'", '"'} or token.start <= end
        is_value = _is_value(token) or (was_value and touches and is_word)
        if not (is_value and was_value and touches):
            words.append((PLACEHOLDER if is_value else _format_token(token), not touches))
        end, was_value = max(end, token.end), is_value
    return words


def _is_value(token: Token) -> bool:
    """Return whether a token is a value.

    ClickHouse allows names that begin with digits, and so do numbers that its tokenizer can't parse.
    """
    is_digits = token.token_type == TokenType.VAR and token.text[:1].isdigit()
    return token.token_type in LITERAL_TOKENS or is_digits


def _mask_word(token: Token) -> str:
    if _is_value(token):
        return PLACEHOLDER
    return "_" if token.token_type in NAME_TOKENS else token.text.upper()


def _format_token(token: Token) -> str:
    if token.token_type == TokenType.IDENTIFIER:
        return '"' + token.text.replace('"', '""') + '"'
    return token.text


def _collapse_lists(words: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Collapse a list of values to one value, however long it is."""
    kept: list[tuple[str, bool]] = []
    for word in words:
        kept.append(word)
        while len(kept) >= 3 and [words for words, _ in kept[-3:]] == [PLACEHOLDER, ",", PLACEHOLDER]:
            del kept[-2:]
    return kept


def _join_words(words: list[tuple[str, bool]]) -> str:
    text, before = "", ""
    for word, room in words:
        text += (" " if text and room and before not in OPENING_MARKS and word not in CLOSING_MARKS else "") + word
        before = word
    return text
