"""What is asked, as a tree: one statement that reads, of tables of the lake only, with functions that are known.

The tree is all that goes on: what an engine gets is written anew from it (`query/sql/translate.py`), so nothing that a
user wrote reaches an engine without having been looked at here. What is not known is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from neve.errors import QueryError
from neve.query.sql.dialect import MAX_DEPTH, read, tokens_of, write
from neve.query.sql.functions import VOLATILE, check_function
from neve.query.sql.identifiers import fold
from neve.query.sql.kinds import kinds_of
from neve.query.sql.nodes import FUNCTIONS, check_nodes
from neve.query.sql.parameters import bind
from neve.query.sql.references import SCAN, mark, marked
from neve.query.sql.shape import check_shape
from neve.query.sql.sizes import check_sizes
from neve.query.sql.translate import reason_against_spark
from neve.query.sql.weight import check_weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from neve.query.sql.kinds import TableKinds
    from neve.query.sql.parameters import Parameters

__all__ = ["Statement", "marked", "parse"]

NODES_OF_A_LEVEL = 4  # a subquery in parentheses has as many
READING = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery, exp.Pivot)
# Words that begin a statement of DuckDB that does something else; sqlglot can't read all of these.
OTHER = frozenset(
    (
        *(
            "ALTER",
            "ANALYZE",
            "ATTACH",
            "BEGIN",
            "CALL",
            "CHECKPOINT",
            "COMMENT",
            "COMMIT",
            "COPY",
            "CREATE",
            "DEALLOCATE",
        ),
        *("DELETE", "DETACH", "DROP", "EXECUTE", "EXPLAIN", "EXPORT", "FORCE", "IMPORT", "INSERT", "INSTALL", "LOAD"),
        *("MERGE", "PRAGMA", "PREPARE", "RESET", "ROLLBACK", "SET", "SUMMARIZE", "TRUNCATE", "UPDATE", "USE", "VACUUM"),
    )
)
CLOCKS = (exp.CurrentDate, exp.CurrentTimestamp)


@dataclass(frozen=True)
class Statement:
    """A statement that may be answered; `tree` is the query itself, also where it is only to be explained."""

    tree: exp.Expression
    kind: Literal["select", "describe", "tables"]
    explain: Literal["", "plan", "analyze"] = ""
    described: str = ""
    volatile: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict, compare=False, repr=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables of the lake that are read, in order of their numbers."""
        return tuple(table.name for table in marked(self.tree).values())

    @cached_property
    def columns(self) -> Mapping[str, TableKinds]:
        """The kinds of the columns of these tables."""
        return {name: kinds_of(self.schemas[name]) for name in self.tables if name in self.schemas}

    @cached_property
    def not_portable(self) -> str:
        """Why Spark can't answer it in the same way; empty where it can. Most statements are never asked."""
        return reason_against_spark(self.tree, self.columns) if self.kind == "select" else ""

    @cached_property
    def normalised(self) -> str:
        """One text for all statements that differ in spacing, comments and the case of keywords only."""
        return " ".join(filter(None, (self.kind, self.explain, self.described, write(self.tree))))


def parse(sql: str, tables: Mapping[str, pa.Schema], parameters: Parameters = ()) -> Statement:
    """Read a statement; raise `QueryError` for anything but one that reads the lake's tables."""
    tokens = tokens_of(sql)
    first = tokens[0].text.upper() if tokens else ""
    if first in {"SHOW", "DESCRIBE", "DESC"}:
        return _about_tables(sql, tokens, tables)
    explain: Literal["", "plan", "analyze"] = ""
    if first == "EXPLAIN":
        explain, sql = _explained(sql[tokens[0].end + 1 :])
    tree = _one_query(sql)
    check_nodes(tree, MAX_DEPTH * NODES_OF_A_LEVEL)
    check_weight(tree)
    for name in _functions(tree):
        check_function(name)
    check_shape(tree)
    mark(tree, tables)
    tree = bind(tree, parameters)
    check_sizes(tree)
    return Statement(tree, "select", explain, volatile=_volatile(tree), schemas=tables)


def _explained(sql: str) -> tuple[Literal["plan", "analyze"], str]:
    tokens = tokens_of(sql)
    if tokens and tokens[0].text.upper() == "ANALYZE":
        return "analyze", sql[tokens[0].end + 1 :]
    return "plan", sql


def _one_query(sql: str) -> exp.Expression:
    tokens = tokens_of(sql)
    first = tokens[0].text.upper() if tokens else ""
    if first in OTHER:
        raise QueryError(f"got a statement of type {first}, expected one that only reads")
    trees = read(sql) if tokens else []
    if len(trees) != 1:
        raise QueryError(f"got {len(trees)} statements, expected one")
    [tree] = trees
    if isinstance(tree, exp.Condition | exp.Alias) and not isinstance(tree, READING):
        raise QueryError(f"can't read a statement that begins with {tokens[0].text!r}", hint="begin with SELECT")
    if not isinstance(tree, READING):
        raise QueryError(f"got a statement of type {type(tree).__name__.upper()}, expected one that only reads")
    for node in list(tree.walk()):
        node.comments = None
        if isinstance(node, exp.RawString):  # a text between dollars
            node.replace(exp.Literal.string(node.name))
    return tree


def _about_tables(sql: str, tokens: list[Token], tables: Mapping[str, pa.Schema]) -> Statement:
    """SHOW TABLES, SHOW t and DESCRIBE t."""
    words = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    if [word.text.upper() for word in words] == ["SHOW", "TABLES"]:
        return Statement(exp.Show(this="TABLES"), "tables")
    trees = read("FROM " + sql[tokens[0].end + 1 :])
    node = trees[0].find(exp.Table) if len(trees) == 1 else None
    if node is None or trees[0] != exp.select("*").from_(node.copy()):
        raise QueryError("can't tell which table is to be described", hint="`SHOW TABLES` lists the tables")
    mark(trees[0], tables)
    if SCAN not in node.meta:
        raise QueryError("only tables of the lake can be described", hint="`SHOW TABLES` lists them")
    return Statement(trees[0], "describe", described=node.name)


def _functions(tree: exp.Expression) -> Iterable[str]:
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            yield node.name
        elif type(node) in FUNCTIONS:
            yield FUNCTIONS[type(node)]


def _volatile(tree: exp.Expression) -> str:
    """The first thing whose value is another one each time."""
    for node in tree.find_all(exp.Anonymous, exp.TableSample, *CLOCKS):
        if isinstance(node, exp.TableSample):
            return "sample"
        name = fold(node.name) if isinstance(node, exp.Anonymous) else FUNCTIONS[type(node)]
        if name in VOLATILE or isinstance(node, CLOCKS):
            return name
    return ""
