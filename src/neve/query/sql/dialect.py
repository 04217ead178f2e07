"""The SQL that users write: DuckDB's, read so that a function stays the function that was written.

sqlglot turns many functions into nodes of its own and writes them back in other words. That is help when a statement
moves to another engine and harm when it does not: so only a few functions become nodes here, and all others keep
their name. What Spark is to do for each of them is said in `query/sql/dialect_functions.py`.
"""

from __future__ import annotations

import logging
import sys
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from neve.errors import QueryError
from neve.query.sql.functions import names

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it warns of is refused here

VERSION = "1.5.5"
MAX_CHARACTERS = 100_000
MAX_DEPTH = 200
MAX_PARTS = 20_000
# A level of nesting takes sqlglot up to thirty calls, and Python's usual bound is a thousand. It holds for the process.
RECURSION = 12_000
sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))
OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
PUNCTUATION = {TokenType.COMMA, TokenType.SEMICOLON, *OPENING, *CLOSING}
# These repeat without a bracket, and each is a level: CASE CASE …, NOT NOT …, - - - ….
LINKS = {TokenType.NUMBER, TokenType.STRING, TokenType.R_BRACKET, TokenType.VAR}
PREFIXES = {TokenType.CASE, TokenType.NOT, TokenType.DASH, TokenType.TILDE}

QUESTION = "?"  # a question mark is kept with its place in the text: the nodes of a tree are in another order

NODES = names(
    """ABS AVG COALESCE COLUMNS COUNT DATE_TRUNC DATETRUNC FROM_HEX LOWER STARTS_WITH STRUCT_PACK SUM TIME_BUCKET
    TO_TIMESTAMP UNHEX UNNEST UPPER"""
)
SPECIAL = names("CAST EXTRACT MAX MIN POSITION SUBSTRING TRIM TRY_CAST")


class Source(exp.Expression):
    """Text that stands in the place of a table; it is made by Neve, never by a user."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class LakeSql(DuckDB):
    """DuckDB's dialect with few functions as nodes."""

    INDEX_OFFSET = 0  # an index stays as it was written

    class Tokenizer(DuckDB.Tokenizer):
        """Words; `?::INT` is a parameter with a cast, not an operator as it is elsewhere."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if not word.startswith("?")
        }

    class Parser(DuckDBParser):
        """What is read."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {
            name: build for name, build in DuckDBParser.FUNCTIONS.items() if name in NODES
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: read for name, read in DuckDBParser.FUNCTION_PARSERS.items() if name in SPECIAL
        }
        PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
            **DuckDBParser.PLACEHOLDER_PARSERS,
            TokenType.PLACEHOLDER: lambda self: exp.Placeholder(this=f"{QUESTION}{self._prev.start}"),
        }

        def _parse_expression(self) -> exp.Expr | None:
            """`SELECT :x` selects a parameter; DuckDB's `name: value` would make it an x that is called SELECT."""
            if self._curr.token_type == TokenType.SELECT:
                return super(DuckDBParser, self)._parse_expression()
            return super()._parse_expression()

    class Generator(DuckDBGenerator):
        """What is written for DuckDB."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **DuckDBGenerator.TRANSFORMS,
            Source: lambda _, node: node.args["this"],
            # DuckDB tries an arrow as a lambda too, which in a chain of arrows doubles with each.
            exp.JSONExtract: lambda self, node: self.func("json_extract", node.this, node.expression),
        }
        MULTI_ARG_DISTINCT = True

        def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
            """DuckDB wants the words among the arguments, also where they were written behind them."""
            return _within(self.sql(expression, "this"), expression.this, "IGNORE NULLS")

        def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
            """As `ignorenulls_sql`."""
            return _within(self.sql(expression, "this"), expression.this, "RESPECT NULLS")

        def withingroup_sql(self, expression: exp.WithinGroup) -> str:
            """As it was written; sqlglot would move the order among the arguments."""
            return f"{self.sql(expression, 'this')} WITHIN GROUP ({self.sql(expression, 'expression').lstrip()})"


class SparkSql(Spark):
    """Spark's dialect with sources."""

    class Generator(SparkGenerator):
        """What is written for Spark."""

        TRANSFORMS: ClassVar[dict[Any, Any]] = {**SparkGenerator.TRANSFORMS, Source: lambda _, node: node.args["this"]}

        def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
            """Behind the call, whatever function it is."""
            return f"{self.sql(expression, 'this')} IGNORE NULLS"

        def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
            """As `ignorenulls_sql`."""
            return f"{self.sql(expression, 'this')} RESPECT NULLS"

        def literal_sql(self, expression: exp.Literal) -> str:
            """Text with Spark's escapes; `$` as one, since Spark puts variables into `${…}` before it reads."""
            if not expression.is_string:
                return str(expression.this)
            said = str(expression.this).replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
            return f"'{said}'"


LAKE = LakeSql(version=VERSION)
SPARK = SparkSql()


def tokens_of(sql: str) -> list[Token]:
    """The words of a statement, within the bounds of what is read at all."""
    if len(sql) > MAX_CHARACTERS:
        raise QueryError(f"the statement has {len(sql):,} characters, at most {MAX_CHARACTERS:,} are read")
    if "\0" in sql or not _is_text(sql):
        raise QueryError("the statement has a character that is no text", hint="send bytes as a parameter")
    try:
        tokens = LAKE.tokenize(sql)
    except SqlglotError as error:
        raise QueryError(f"can't read the statement: {_said(error)}") from error
    for token, after in pairwise(tokens):
        if token.token_type == TokenType.NUMBER and after.token_type == TokenType.VAR and after.start == token.end + 1:
            raise QueryError(f"can't read the number {token.text}{after.text}", hint="write it in decimal digits")
    if sum(token.token_type not in PUNCTUATION for token in tokens) > MAX_PARTS:  # reading them would take seconds
        raise QueryError(f"the statement has more than {MAX_PARTS:,} parts", hint="ask for less in one statement")
    if _depth(tokens) > MAX_DEPTH:
        raise QueryError(f"the statement is nested more than {MAX_DEPTH} levels deep")
    return tokens


def read(sql: str) -> list[exp.Expression]:
    """The trees of the statements in a text; empty ones are left out."""
    try:
        trees = [tree for tree in LAKE.parse(sql) if isinstance(tree, exp.Expression)]
        return [tree for tree in trees if not isinstance(tree, exp.Semicolon)]  # a comment behind the last one
    except SqlglotError as error:
        raise QueryError(f"can't read the statement: {_said(error)}") from error
    except RecursionError as error:
        raise QueryError("the statement is nested too deeply", hint="name its parts with WITH") from error


def write(tree: exp.Expr, dialect: LakeSql | SparkSql = LAKE) -> str:
    """A tree as text: every name in quotes, no comments."""
    try:
        return dialect.generate(tree, identify=True, comments=False, copy=True, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise QueryError(f"can't write the statement: {_said(error)}") from error


def _within(said: str, node: exp.Expr, words: str) -> str:
    is_call = isinstance(node, exp.Func) and said.endswith(")")
    return f"{said[:-1]} {words})" if is_call else f"{said} {words}"


def _is_text(sql: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in sql)


def _said(error: SqlglotError) -> str:
    """Where it failed, in words; else the first line of what sqlglot says."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    if found.get("highlight"):
        return f"syntax error at or near {found['highlight']!r} (line {found['line']}, column {found['col']})"
    return (str(error).splitlines() or [""])[0].rstrip(".")


def _depth(tokens: list[Token]) -> int:
    """How deep brackets, and words that open a level without one, are nested at most."""
    deepest = depth = run = 0
    before = None
    for token in tokens:
        follows = token.token_type == TokenType.L_BRACKET and before == TokenType.R_BRACKET  # a[1][1][1]…
        if token.token_type in OPENING:
            depth += 1
        elif token.token_type in CLOSING:
            depth -= 1
        chained = token.token_type in PREFIXES or follows
        run = run + 1 if chained else run if token.token_type in LINKS else 0
        before = token.token_type
        deepest = max(deepest, depth + run)
    return deepest
