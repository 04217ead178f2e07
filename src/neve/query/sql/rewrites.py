"""Rewrites of common syntax that the parser, or the list of allowed nodes, has in another form.

Standard SQL (FETCH FIRST, CURRENT_TIME), forms of other systems that have one equivalent (`date_bin`, RLIKE), and the
functions by which clients ask for the product: `version()`, `current_database()` and `current_schema()`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from neve import __version__
from neve.errors import QueryError
from neve.model.signals import NAMESPACE
from neve.predicate.names import fold
from neve.query.sql.catalog_tables import CATALOG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot.tokenizer_core import Token

RESHAPING = {"PIVOT", "UNPIVOT"}
ENDS = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH)
DEPTHS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
# Keywords without parentheses, with the functions of DuckDB.
CLOCK_KEYWORDS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.CurrentTime: ("current_time", "get_current_time"),
    exp.Localtime: ("localtime", "current_localtime"),
    exp.Localtimestamp: ("localtimestamp", "current_localtimestamp"),
}
WIDTH = re.compile(r"([0-9]{1,6}) *((?:second|minute|hour|day|week)s?)", re.IGNORECASE)
PRODUCT_FACTS = {"version": f"Neve {__version__}", "current_database": CATALOG, "current_schema": NAMESPACE}


def wrap_reshaping(sql: str, tokens: Sequence[Token]) -> str:
    """Return a PIVOT or UNPIVOT with ORDER BY or LIMIT as a query over it: the parser reads both only there.

    >>> from neve.query.sql.dialect import tokenize
    >>> text = "PIVOT t ON a IN (1) USING sum(b) ORDER BY c"
    >>> wrap_reshaping(text, tokenize(text))
    'FROM (PIVOT t ON a IN (1) USING sum(b) ) ORDER BY c'
    """
    if tokens[0].text.upper() not in {*RESHAPING, "WITH"}:
        return sql
    depth, start = 0, None
    for token in tokens:
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0 and start is None and token.text.upper() in RESHAPING:
            start = token.start
        elif depth == 0 and start is not None and token.token_type in ENDS:
            return f"{sql[:start]}FROM ({sql[start : token.start]}) {sql[token.start :]}"
    return sql


def fetch_to_limit(node: exp.Expr) -> exp.Limit:
    """Return FETCH FIRST as LIMIT. Raises `QueryError` for a share of the rows, and for ties."""
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        raise QueryError("FETCH with PERCENT or WITH TIES is not allowed in queries", hint="FETCH FIRST 10 ROWS ONLY")
    return exp.Limit(expression=node.args.get("count") or exp.Literal.number(1))


def rewrite_common_forms(tree: exp.Expression) -> exp.Expression:
    """Remove comments, and replace each node of a form above by its equivalent."""
    for node in list(tree.walk()):
        node.comments = None
        rewrite = _REWRITES.get(type(node))
        if rewrite is not None:
            rewrite(node)
    return tree


def _rewrite_call(node: exp.Expr) -> None:
    name, arguments = fold(node.name), node.expressions
    if name in PRODUCT_FACTS and not arguments:
        _replace(node, exp.Literal.string(PRODUCT_FACTS[name]), f"{name}()")
    elif name == "array" and len(arguments) == 1 and isinstance(arguments[0], exp.Query):
        node.replace(exp.Array(expressions=[arguments[0]]))
    elif name == "date_bin" and len(arguments) in {2, 3}:
        width, moment, *origin = arguments
        if width.is_string:
            width = _parse_interval(width)
        node.replace(exp.DateBin(this=width, expression=moment, unit=origin[0] if origin else None))


def _parse_interval(text: exp.Expr) -> exp.Expr:
    """Return a text such as `5 minutes` as an interval."""
    parts = WIDTH.fullmatch(text.name)
    if parts is None:
        return exp.cast(text, exp.DType.INTERVAL)
    return exp.Interval(this=exp.Literal.string(parts[1]), unit=exp.Var(this=parts[2].upper()))


def _rewrite_clock(node: exp.Expr) -> None:
    keyword, function = CLOCK_KEYWORDS[type(node)]
    _replace(node, exp.Anonymous(this=function), keyword)


def _replace(node: exp.Expr, other: exp.Expr, name: str) -> None:
    """Replace a node. A column of a result keeps the name that the user wrote."""
    is_column = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    node.replace(exp.alias_(other, name, quoted=True) if is_column else other)


def _rewrite_pattern(node: exp.Expr) -> None:
    flags = [node.args["flag"]] if node.args.get("flag") else []
    node.replace(exp.Anonymous(this="regexp_matches", expressions=[node.this, node.expression, *flags]))


_REWRITES: dict[type[exp.Expr], Callable[[exp.Expr], object]] = {
    exp.RawString: lambda node: node.replace(exp.Literal.string(node.name)),  # a dollar-quoted text
    exp.Fetch: lambda node: node.replace(fetch_to_limit(node)),
    exp.RegexpLike: _rewrite_pattern,
    exp.Anonymous: _rewrite_call,
    **dict.fromkeys(CLOCK_KEYWORDS, _rewrite_clock),
}
