"""Rewrites of common syntax that the parser, or the list of allowed nodes, has in another form.

Standard SQL (FETCH FIRST, CURRENT_TIME), forms of other systems that have one equivalent (`date_bin`, RLIKE), and the
functions by which clients ask for the product: `version()`, `current_database()` and `current_schema()`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from neve import __version__
from neve.errors import QueryError
from neve.model.signals import NAMESPACE
from neve.predicate.names import fold
from neve.query.sql.catalog_tables import CATALOG
from neve.query.sql.dialect import format_header
from neve.query.sql.references import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESHAPING = {TokenType.PIVOT, TokenType.UNPIVOT}
BEGINNINGS = {*RESHAPING, TokenType.SELECT, TokenType.FROM, TokenType.VALUES}
UNQUALIFIED = {"expressions", "using", "fields", "group"}  # parts of a PIVOT
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


def wrap_reshaping(tokens: list[Token]) -> list[Token]:
    """Return a PIVOT or UNPIVOT with ORDER BY or LIMIT as a query over it: the parser reads both only there.

    An added token has the place of the one that follows it, so that errors show places of the text as it was sent.

    >>> from neve.query.sql.dialect import tokenize
    >>> " ".join(token.text for token in wrap_reshaping(tokenize("PIVOT t ON a USING sum(b) ORDER BY c")))
    'FROM ( PIVOT t ON a USING sum ( b ) ) ORDER BY c'
    """
    if not tokens or tokens[0].token_type not in {*RESHAPING, TokenType.WITH}:
        return tokens
    outside = list(_number_outer_tokens(tokens))
    start = next(
        (number for number, token in outside if token.token_type in BEGINNINGS and _is_begun(tokens, number)), 0
    )
    end = next((number for number, token in outside if number > start and token.token_type in ENDS), None)
    first = tokens[start]
    if first.token_type not in RESHAPING or end is None:
        return tokens
    opening = [_token_at(first, TokenType.FROM, "FROM"), _token_at(first, TokenType.L_PAREN, "(")]
    closing = _token_at(tokens[end], TokenType.R_PAREN, ")")
    return [*tokens[:start], *opening, *tokens[start:end], closing, *tokens[end:]]


def _number_outer_tokens(tokens: list[Token]) -> Iterator[tuple[int, Token]]:
    depth = 0
    for number, token in enumerate(tokens):
        depth += DEPTHS.get(token.token_type, 0)
        if depth == 0:
            yield number, token


def _is_begun(tokens: list[Token], number: int) -> bool:
    """Return whether a statement begins at a token: the first, or the one after the queries of a WITH."""
    return number == 0 or tokens[number - 1].token_type == TokenType.R_PAREN


def _token_at(place: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end)


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
        header = format_header(node)
        _replace(node, exp.DateBin(this=width, expression=moment, unit=origin[0] if origin else None), header)


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


def _unqualify_pivot(node: exp.Expr) -> None:
    """Remove the name of the source from columns of a PIVOT, where DuckDB takes no qualified column.

    Other qualifiers stay, such as the name of a struct: DuckDB rejects them. UNPIVOT takes qualified columns.
    """
    source = node.args.get("this") or node.parent
    is_later = bool(node.index)  # of several after one table: its source has another name
    if source is None or source.args.get("joins") or node.args.get("unpivot") or is_later:
        return
    for part in (child for child in node.iter_expressions() if child.arg_key in UNQUALIFIED):
        for column in part.walk(prune=lambda inner: isinstance(inner, exp.Query | exp.Lambda)):
            if isinstance(column, exp.Column) and _is_named_after(column, source.alias_or_name):
                for key in ("table", "db", "catalog"):
                    column.set(key, None)


def _is_named_after(column: exp.Column, source: str) -> bool:
    return bool(column.table) and fold(column.table) == fold(source) and fold(column.db) in {"", *SCHEMAS}


_REWRITES: dict[type[exp.Expr], Callable[[exp.Expr], object]] = {
    exp.RawString: lambda node: node.replace(exp.Literal.string(node.name)),  # a dollar-quoted text
    exp.Fetch: lambda node: node.replace(fetch_to_limit(node)),
    exp.RegexpLike: _rewrite_pattern,
    exp.Anonymous: _rewrite_call,
    exp.Pivot: _unqualify_pivot,
    **dict.fromkeys(CLOCK_KEYWORDS, _rewrite_clock),
}
