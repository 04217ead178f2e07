"""SQL statements: parse a text within limits on size and depth, and resolve the names of each SELECT."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings quote the text, including secrets

MAX_CHARACTERS = 200_000
MAX_DEPTH = 60  # of brackets and CASE: generated reports have ten or twenty
MAX_TOKENS = 30_000
CACHE_SIZE = 2_000  # trees; dashboards repeat the same queries

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
STATEMENTS_WITH_QUERY = (exp.Insert, exp.Create)  # statements that contain a query


class UnreadableSql(Exception):
    """Raised when a text can't be parsed; the message contains nothing of the text.

    It is never raised outside this package.
    """


@lru_cache(maxsize=CACHE_SIZE)
def parse_statements(text: str, dialect: str) -> tuple[exp.Expr, ...]:
    """Return the trees of the statements in a text, which must not be modified.

    Raises `UnreadableSql`.
    """
    try:
        return _parse_trees(text, dialect)
    except RecursionError:
        raise UnreadableSql("it is nested too deeply") from None


def parse_queries(text: str, dialect: str) -> list[exp.Expr]:
    """Return the queries of the statements in a text.

    Raises `UnreadableSql`.
    """
    return [query for tree in parse_statements(text, dialect) if (query := extract_query(tree)) is not None]


def extract_query(tree: exp.Expr) -> exp.Expr | None:
    """Return the query of a statement; `None` if it reads nothing."""
    if isinstance(tree, STATEMENTS_WITH_QUERY):
        inner = tree.args.get("expression")
        is_stored = isinstance(tree, exp.Create) and str(tree.args.get("kind")).upper() != "TABLE"
        return inner if isinstance(inner, exp.Query) and not is_stored else None
    if isinstance(tree, exp.Delete | exp.Update) and isinstance(tree.this, exp.Table):
        where = tree.args.get("where")
        read = exp.select("*").from_(tree.this.copy())
        return read.where(where.this.copy()) if where is not None else read
    return tree if isinstance(tree, exp.Query) and not isinstance(tree, exp.Table) else None


def _parse_trees(text: str, dialect: str) -> tuple[exp.Expr, ...]:
    if len(text) > MAX_CHARACTERS:
        raise UnreadableSql(f"it has more than {MAX_CHARACTERS:,} characters")
    language = Dialect.get_or_raise(dialect)
    try:
        tokens = language.tokenize(text)
    except SqlglotError:
        raise UnreadableSql("unterminated string or quoted name") from None
    _check_size(tokens)
    try:
        trees = tuple(tree for tree in language.parser().parse(tokens, text) if tree is not None)
    except SqlglotError as error:
        raise UnreadableSql(_format_error(error)) from None
    if not trees:
        raise UnreadableSql("it is empty")
    return trees


def _check_size(tokens: list[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise UnreadableSql(f"it has more than {MAX_TOKENS:,} words")
    depth = chained = 0
    for before, token in pairwise(tokens):
        depth += (before.token_type in OPENING) - (before.token_type in CLOSING)
        chained += before.token_type == TokenType.R_BRACKET and token.token_type == TokenType.L_BRACKET  # a[1][1][1]
        if max(depth, chained) > MAX_DEPTH:
            raise UnreadableSql(f"it is nested more than {MAX_DEPTH} levels deep")


def _format_error(error: SqlglotError) -> str:
    """Return the position of an error, without the text at that position, which may be a secret."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if found.get("line"):
        return f"syntax error in line {found['line']}, column {found['col']}"
    return "syntax error"


BARRIER_CLAUSES = ("limit", "offset", "qualify", "windows", "match", "connect", "pivots", "sample")
GROUPING_CLAUSES = ("cube", "rollup", "grouping_sets", "totals")


@dataclass(frozen=True, eq=False)
class DerivedBody:
    """Body of a derived item: one SELECT, or the branches of a UNION."""

    branches: tuple[exp.Select, ...]
    definitions: Mapping[str, DerivedBody]
    renamed: tuple[str, ...] = ()  # the columns, if WITH name (a, b) names them
    is_barred: bool = False  # no condition from outside may be pushed into it


@dataclass(frozen=True, eq=False)
class FromItem:
    """One item of FROM: a table of the lake, a derived item, or an unknown one."""

    alias: str
    written: tuple[str, ...] = ()
    table: str = ""
    body: DerivedBody | None = None
    columns: frozenset[str] | None = None  # in lower case, if they are known
    renamed: tuple[str, ...] = ()
    join: exp.Join | None = None
    is_bracketed: bool = False  # joined in its own brackets, before the others


@dataclass(frozen=True, eq=False)
class SelectScope:
    """A SELECT and its items."""

    select: exp.Select
    items: tuple[FromItem, ...]
    is_barred: bool = False
    outer: frozenset[str] = frozenset()  # names of outer items, which a subquery in an expression can use
    _found: dict[tuple[str, ...], tuple[FromItem, tuple[str, ...]] | None] = field(default_factory=dict, repr=False)

    def resolve(self, parts: Sequence[str]) -> tuple[FromItem, tuple[str, ...]] | None:
        """Return the item that a name belongs to, and the rest of the name: a column and its nested fields."""
        key = tuple(part.lower() for part in parts)
        if key not in self._found:
            self._found[key] = self._resolve_qualified(key, parts) or self._resolve_plain(parts)
        return self._found[key]

    def _resolve_qualified(self, key: tuple[str, ...], parts: Sequence[str]) -> tuple[FromItem, tuple[str, ...]] | None:
        for count in range(1, len(parts)):
            for item in self.items:
                names = (item.alias,) if count == 1 else item.written[-count:]
                if tuple(name.lower() for name in names) == key[:count]:
                    return item, tuple(parts[count:])
        return None

    def _resolve_plain(self, parts: Sequence[str]) -> tuple[FromItem, tuple[str, ...]] | None:
        name = parts[0].lower()
        having = [item for item in self.items if item.columns is not None and name in item.columns]
        if having:
            return having[0], tuple(parts)
        if len(parts) > 1 and name in self.outer:
            return None
        unknown = [item for item in self.items if item.columns is None]
        if len(unknown) == 1 and name not in self.computed_aliases:
            return unknown[0], tuple(parts)
        return None

    @cached_property
    def aliases(self) -> dict[str, exp.Expr]:
        """The expressions of the results by their names in lower case, without `*`."""
        return {one.alias_or_name.lower(): one.unalias() for one in self.select.expressions if not _is_star(one)}

    @cached_property
    def computed_aliases(self) -> dict[str, exp.Expr]:
        """The aliases that are not a column of the same name: other clauses may refer to them."""
        return {
            name: node
            for name, node in self.aliases.items()
            if not any(
                isinstance(one, exp.Column) and one.name.lower() == name for one in walk_without_subqueries(node)
            )
        }

    @cached_property
    def has_star(self) -> bool:
        """True if columns are passed on by `*`, without their names."""
        return any(_is_star(one) for one in self.select.expressions)

    def output(self, name: str, position: int | None) -> exp.Expr | None:
        """Return the expression of a result, by its name or its position."""
        if position is not None:
            given = self.select.expressions
            return given[position].unalias() if position < len(given) and not self.has_star else None
        found = self.aliases.get(name.lower())
        if found is None and self.has_star:
            return exp.column(name)
        return found

    @cached_property
    def is_closed(self) -> bool:
        """True if conditions from outside would change the result: it has a limit, or its rows depend on each other."""
        select = self.select
        if self.is_barred or any(select.args.get(key) for key in BARRIER_CLAUSES):
            return True
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            return True
        group = select.args.get("group")
        if group is not None and any(group.args.get(key) for key in GROUPING_CLAUSES):
            return True
        return any(_has(one, exp.Window) for one in select.expressions)

    @cached_property
    def is_aggregated(self) -> bool:
        """True if a row of the result aggregates several rows."""
        select = self.select
        return bool(select.args.get("group")) or any(_has(one, exp.AggFunc) for one in select.expressions)

    def passes(self, node: exp.Expr) -> bool:
        """Return whether an expression has the same value before and after the rows are grouped."""
        if not self.is_aggregated:
            return True
        group = self.select.args.get("group")
        keys = [self._ordinal(key) for key in group.expressions] if group is not None else []
        return node in keys or any(key.name and key.name == node.name for key in keys if isinstance(key, exp.Column))

    def order_expressions(self) -> list[exp.Expr]:
        """Return the expressions that the result is sorted by."""
        order = self.select.args.get("order")
        nodes = [one.this if isinstance(one, exp.Ordered) else one for one in order.expressions] if order else []
        return [self._ordinal(node) for node in nodes]

    def _ordinal(self, node: exp.Expr) -> exp.Expr:
        """Resolve an ordinal: `1` is the first result."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return self.output("", int(node.name) - 1) or node
        return node

    def may_be_null_row(self, item: FromItem, but: exp.Join | None = None) -> bool:
        """Return whether a join, other than `but`, may replace the item's rows by nulls."""
        if item.is_bracketed:
            return bool(self._outer_joins)
        place = self.place(item)
        for number, join in self._outer_joins:
            side = join.side.upper() if join is not but else ""
            if side == "FULL" and place <= number:
                return True
            if (side == "LEFT" and number == place) or (side == "RIGHT" and place < number):
                return True
        return False

    def place(self, item: FromItem) -> int:
        """Return the position of an item in FROM."""
        return self._places[id(item)]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {id(item): place for place, item in enumerate(self.items)}

    @cached_property
    def _outer_joins(self) -> list[tuple[int, exp.Join]]:
        joins = [(place, item.join) for place, item in enumerate(self.items) if item.join is not None]
        return [(place, join) for place, join in joins if join.side]


def split_name(node: exp.Expr) -> tuple[str, ...] | None:
    """Return the parts of a dotted name; `None` for anything else."""
    if isinstance(node, exp.Column):
        return None if isinstance(node.this, exp.Star) else tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot):
        before = split_name(node.this)
        return (*before, node.name) if before and isinstance(node.expression, exp.Identifier | exp.Var) else None
    return None


def walk_without_subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, without those of its subqueries."""
    return node.walk(prune=lambda one: isinstance(one, exp.Query))


def _has(node: exp.Expr, kind: type[exp.Expr]) -> bool:
    return any(isinstance(one, kind) for one in walk_without_subqueries(node))


def _is_star(node: exp.Expr) -> bool:
    return node.is_star
