"""The text of a statement as a tree, within bounds that no text can make slow or deep."""

from __future__ import annotations

import logging
from functools import lru_cache
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings quote the text, secrets and all

MAX_CHARACTERS = 200_000
MAX_DEPTH = 60  # of brackets and CASE: generated reports go to ten or twenty
MAX_TOKENS = 30_000
CACHED = 2_000  # trees; dashboards ask the same again and again

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
READING = (exp.Insert, exp.Create)  # statements with a query inside


class Unreadable(Exception):
    """Raised when a text can't be understood; its words hold nothing of the text. It never leaves this room."""


@lru_cache(maxsize=CACHED)
def trees_of(text: str, dialect: str) -> tuple[exp.Expr, ...]:
    """The trees of the statements in a text, which nobody may change; raises `Unreadable`."""
    try:
        return _trees(text, dialect)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None


def queries_of(text: str, dialect: str) -> list[exp.Expr]:
    """What the statements in a text read; raises `Unreadable`."""
    return [query for tree in trees_of(text, dialect) if (query := query_of(tree)) is not None]


def query_of(tree: exp.Expr) -> exp.Expr | None:
    """What a statement reads; `None` for one that reads nothing."""
    if isinstance(tree, READING):
        inner = tree.args.get("expression")
        is_stored = isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() != "TABLE"
        return inner if isinstance(inner, exp.Query) and not is_stored else None
    if isinstance(tree, exp.Delete | exp.Update) and isinstance(tree.this, exp.Table):
        where = tree.args.get("where")
        read = exp.select("*").from_(tree.this.copy())
        return read.where(where.this.copy()) if where is not None else read
    return tree if isinstance(tree, exp.Query) and not isinstance(tree, exp.Table) else None


def _trees(text: str, dialect: str) -> tuple[exp.Expr, ...]:
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"it has more than {MAX_CHARACTERS:,} characters")
    language = Dialect.get_or_raise(dialect)
    try:
        tokens = language.tokenize(text)
    except SqlglotError:
        raise Unreadable("a text or a name in it has no end") from None
    _check(tokens)
    try:
        trees = tuple(tree for tree in language.parser().parse(tokens, text) if tree is not None)
    except SqlglotError as error:
        raise Unreadable(_said(error)) from None
    if not trees:
        raise Unreadable("it is empty")
    return trees


def _check(tokens: list[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise Unreadable(f"it has more than {MAX_TOKENS:,} words")
    depth = chained = 0
    for before, token in pairwise(tokens):
        depth += (before.token_type in OPENING) - (before.token_type in CLOSING)
        chained += before.token_type == TokenType.R_BRACKET and token.token_type == TokenType.L_BRACKET  # a[1][1][1]
        if max(depth, chained) > MAX_DEPTH:
            raise Unreadable(f"it is nested more than {MAX_DEPTH} levels deep")


def _said(error: SqlglotError) -> str:
    """Where it failed; what stands there may be a secret."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if found.get("line"):
        return f"syntax error in line {found['line']}, column {found['col']}"
    return "syntax error"
