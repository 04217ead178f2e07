"""The condition of an erasure: an SQL condition on the columns of tables, texts to search for, or both.

A table with all columns of the condition is searched by it. Copies without these columns (rejected payloads, the query
log) are searched for the texts that the condition requires, such as the value of an equality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from neve.errors import ConfigError
from neve.lake.duckdb import quote_literal

if TYPE_CHECKING:
    from collections.abc import Iterable

DIALECT = "duckdb"
MIN_TEXT = 4  # characters: a shorter text would match too many unrelated records


@dataclass(frozen=True)
class TextTest:
    """Texts that a copy of a matching record contains: all of them, or any of them."""

    texts: tuple[str | TextTest, ...]
    needs_all: bool = False

    @property
    def leaves(self) -> tuple[str, ...]:
        """Return all texts."""
        return tuple(leaf for one in self.texts for leaf in ((one,) if isinstance(one, str) else one.leaves))

    @property
    def is_plain(self) -> bool:
        """Return whether each text alone identifies a copy."""
        return all(isinstance(one, str) or one.is_plain for one in self.texts) and not (
            self.needs_all and len(self.texts) > 1
        )

    def holds(self, content: str) -> bool:
        """Return whether a content passes the test."""
        found = (one in content if isinstance(one, str) else one.holds(content) for one in self.texts)
        return all(found) if self.needs_all else any(found)

    def to_sql(self, schema: pa.Schema) -> str:
        """Return the SQL condition that a row contains the texts, in any of its columns."""
        parts = [_contains_sql(one, schema) if isinstance(one, str) else one.to_sql(schema) for one in self.texts]
        return f"({(' AND ' if self.needs_all else ' OR ').join(parts)})"


def _contains_sql(text: str, schema: pa.Schema) -> str:
    # Values inside of maps and lists are printed with escapes.
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    tests = []
    for field in schema:
        column = '"' + field.name.replace('"', '""') + '"'
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            tests.append(f"contains({column}, {quote_literal(text)})")
        elif pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            tests.append(f"contains(hex({column}), {quote_literal(text.encode().hex().upper())})")
        elif pa.types.is_nested(field.type):
            tests += [f"contains({column}::VARCHAR, {quote_literal(one)})" for one in dict.fromkeys((text, escaped))]
    return f"coalesce({' OR '.join(f'coalesce({test}, false)' for test in tests) or 'false'}, false)"


@dataclass(frozen=True)
class Condition:
    """A checked condition. `where` may be empty if there are texts."""

    where: str
    texts: tuple[str, ...] = ()

    @property
    def shape(self) -> str:
        """Return the condition without its values, for records of the erasure.

        >>> Condition("attributes['user'] = 'ada@example.com'").shape
        'attributes[?] = ?'
        """
        if not self.where:
            return f"{len(self.texts)} texts"
        tree = parse_one(self.where, dialect=DIALECT)
        for literal in list(tree.find_all(exp.Literal)):
            literal.replace(exp.Placeholder())
        shown = tree.sql(dialect=DIALECT)
        return f"{shown} or {len(self.texts)} texts" if self.texts else shown

    @property
    def text_test(self) -> TextTest | None:
        """Return the test for copies without the columns; None if the condition requires no text."""
        if self.texts:
            return TextTest(self.texts)
        found = _find_texts(parse_one(self.where, dialect=DIALECT))
        return TextTest((found,)) if isinstance(found, str) else found

    def to_sql(self, schema: pa.Schema, *, is_bound: bool) -> str | None:
        """Return the SQL condition for the rows of a table; None if nothing can be searched for."""
        by_text = self.text_test.to_sql(schema) if self.text_test and (self.texts or not is_bound) else None
        exact = f"coalesce(({self.where}\n), false)" if self.where and is_bound else None
        return " OR ".join(part for part in (exact, by_text) if part) or None


def parse_condition(where: str, texts: Iterable[str] = ()) -> Condition:
    """Check a condition. Raises `ConfigError` if it is no condition, has a subquery, or a text is too short."""
    wanted = tuple(dict.fromkeys(texts))
    for text in wanted:
        if len(text) < MIN_TEXT:
            raise ConfigError(f"text has {len(text)} characters, expected {MIN_TEXT} or more")
    if not where.strip():
        if not wanted:
            raise ConfigError("an erasure needs a condition or a text", hint="pass --where or --text")
        return Condition("", wanted)
    try:
        tree = parse_one(where, dialect=DIALECT)
    except SqlglotError as error:
        reason = (str(error).splitlines() or [""])[0]
        raise ConfigError(f"where is not a condition of SQL: {reason}") from error
    if tree.find(exp.Query, exp.Command, exp.DDL) or not list(tree.find_all(exp.Column)):
        raise ConfigError("where has a subquery or no column, expected a condition on columns of one table")
    return Condition(where, wanted)


def _find_texts(node: exp.Expr) -> TextTest | str | None:
    """Return the texts that each matching record contains."""
    node = node.unnest()
    match node:
        case exp.And():
            parts = [part for part in map(_find_texts, (node.left, node.right)) if part is not None]
            return TextTest(tuple(parts), needs_all=True) if len(parts) > 1 else next(iter(parts), None)
        case exp.Or():
            either = [_find_texts(node.left), _find_texts(node.right)]
            return None if None in either else TextTest(tuple(part for part in either if part is not None))
        case exp.In():
            values = [_literal(value) for value in node.expressions]
            return TextTest(tuple(value for value in values if value)) if values and all(values) else None
        case exp.EQ():
            return _literal(node.right) or _literal(node.left)
    return _find_part(node)


def _find_part(node: exp.Expr) -> str | None:
    """Return the text that a value contains by a function or a pattern."""
    if isinstance(node, exp.Contains | exp.StartsWith | exp.EndsWith):
        return _literal(node.expression)
    return _find_fragment(node.expression) if isinstance(node, exp.Like) else None


def _literal(node: exp.Expr | None) -> str | None:
    found = isinstance(node, exp.Literal) and node.is_string and len(node.this) >= MIN_TEXT
    return str(node.this) if found and node is not None else None


def _find_fragment(node: exp.Expr) -> str | None:
    """Return the longest part of a pattern without wildcards."""
    pattern = _literal(node)
    if pattern is None:
        return None
    longest = max(pattern.replace("_", "%").split("%"), key=len)
    return longest if len(longest) >= MIN_TEXT else None
