"""Rewrites of standard syntax that the parser, or the list of allowed nodes, has in another form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

RESHAPING = {"PIVOT", "UNPIVOT"}
ENDS = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH)
DEPTHS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


def wrap_reshaping(sql: str, tokens: Sequence[Token]) -> str:
    """Return a PIVOT or UNPIVOT with ORDER BY or LIMIT as a query over it: the parser reads both only there.

    >>> from neve.query.sql.dialect import tokenize
    >>> text = "PIVOT t ON a IN (1) USING sum(b) ORDER BY c"
    >>> wrap_reshaping(text, tokenize(text))
    'FROM (PIVOT t ON a IN (1) USING sum(b) ) ORDER BY c'
    """
    if tokens[0].text.upper() not in RESHAPING:
        return sql
    depth = 0
    for token in tokens:
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0 and token.token_type in ENDS:
            return f"FROM ({sql[: token.start]}) {sql[token.start :]}"
    return sql


def fetch_to_limit(node: exp.Fetch) -> exp.Limit:
    """Return FETCH FIRST as LIMIT. Raises `QueryError` for a share of the rows, and for ties."""
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise QueryError("FETCH with PERCENT or WITH TIES can't be used in a query", hint="FETCH FIRST 10 ROWS ONLY")
    return exp.Limit(expression=node.args.get("count") or exp.Literal.number(1))
