"""Prepared statements of Trino: the text with its values in their places."""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

DIALECT = "trino"
COMMAND = "EXECUTE"
OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}


def filled(text: str, prepared: str = "") -> str:
    """A statement as it was run: `EXECUTE name USING 1` and `EXECUTE IMMEDIATE 'text' USING 1` with their values.

    What is no such statement, or can't be read, stays as it is.

    >>> filled("EXECUTE IMMEDIATE 'SELECT ?' USING 7")
    'SELECT 7'
    >>> filled("EXECUTE daily USING DATE '2026-01-02', 3", "SELECT a FROM t WHERE d = ? AND n = ?")
    "SELECT a FROM t WHERE d = DATE '2026-01-02' AND n = 3"
    """
    if text.lstrip()[:7].upper() != COMMAND:
        return text
    rest = text.lstrip()[len(COMMAND) :]  # sqlglot takes what follows a command as one word
    try:
        words = sqlglot.tokenize(rest, dialect=DIALECT)
        template = _template(words) or prepared
        return _filled(template, _values(rest, words)) if template else text
    except SqlglotError:
        return text


def _template(words: list[Token]) -> str:
    is_immediate = len(words) > 1 and words[0].text.upper() == "IMMEDIATE" and words[1].token_type == TokenType.STRING
    return words[1].text if is_immediate else ""


def _values(text: str, words: list[Token]) -> list[str]:
    start = next((place for place, word in enumerate(words) if word.token_type == TokenType.USING), None)
    if start is None:
        return []
    depth, cuts = 0, [words[start].end]
    for word in words[start + 1 :]:
        depth += (word.token_type in OPENING) - (word.token_type in CLOSING)
        if depth == 0 and word.token_type == TokenType.COMMA:
            cuts.append(word.start)
    return [text[low + 1 : high].strip() for low, high in pairwise([*cuts, len(text)])]


def _filled(template: str, values: list[str]) -> str:
    marks = [word for word in sqlglot.tokenize(template, dialect=DIALECT) if word.token_type == TokenType.PLACEHOLDER]
    if len(marks) != len(values):
        return template
    said, at = [], 0
    for mark, value in zip(marks, values, strict=True):
        said += [template[at : mark.start], value]
        at = mark.end + 1
    return "".join([*said, template[at:]])
