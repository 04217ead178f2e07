"""A statement: parsed, checked, bound to its parameters, and written for an engine.

A statement only reads, only tables of the lake, and only with known functions. Anything else is rejected. Parameters
become literals of the tree, never text of the statement. The SQL for an engine is generated from the tree, with the
source of every table filled in, so no user text reaches an engine unchecked. Columns of the result have the same names
from both engines.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from neve.errors import QueryError
from neve.predicate.names import fold
from neve.query.sql.catalog_tables import CATALOG, expand_catalog_tables, show_catalog
from neve.query.sql.dialect import (
    LAKE,
    MAX_DEPTH,
    Source,
    expand_search_functions,
    format_header,
    read,
    tokenize,
    unlink,
    write,
    write_last,
)
from neve.query.sql.error_text import add_place, excerpt, other_language
from neve.query.sql.hints import find_language, keyword_hint, read_only_hint
from neve.query.sql.identifiers import KNOWN, VOLATILE, function_error
from neve.query.sql.parameters import bind
from neve.query.sql.pivots import find_open_pivots
from neve.query.sql.references import SCAN, SCHEMAS, check_references, find_lake_tables, mark_lake_tables
from neve.query.sql.rewrites import rewrite_common_forms, wrap_reshaping
from neve.query.sql.size_limits import add_runtime_checks, check_expanded_size, check_sizes
from neve.query.sql.syntax_rules import FUNCTIONS, check_nodes, check_shape
from neve.query.sql.text_ids import convert_text_ids
from neve.query.sql.type_inference import NotPortable, kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    import pyarrow as pa

    from neve.query.sql.parameters import Parameters
    from neve.query.sql.pivots import OpenPivot
    from neve.query.sql.type_inference import TableKinds


def name_columns(tree: exp.Expr) -> exp.Expr:
    """Give each column of the result that has no name the text of its expression.

    >>> from neve.query.sql.dialect import read, write
    >>> write(name_columns(read("SELECT count(*), a FROM t")[0]))
    'SELECT COUNT(*) AS "count(*)", "a" FROM "t"'
    """
    query = tree
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if isinstance(query, exp.Select):
        query.set("expressions", [_name_column(item) for item in query.expressions])
    return tree


def _name_column(item: exp.Expr) -> exp.Expr:
    if isinstance(item, exp.Alias | exp.Aliases | exp.Column | exp.Dot | exp.Explode) or _gives_many_columns(item):
        return item
    if isinstance(item, CLOCKS):
        return exp.alias_(item, FUNCTIONS[type(item)], quoted=True)
    name = item.meta.get(HEADER) or format_header(item)
    return exp.alias_(item, name, quoted=True, copy=False)


def remember_headers(tree: exp.Expr) -> None:
    """Store the names of columns that contain a subquery, before its tables are marked and get other names."""
    if isinstance(tree, exp.Select):
        for item in tree.expressions:
            if item.find(exp.Query) is not None:
                item.meta[HEADER] = format_header(item)


def _gives_many_columns(item: exp.Expr) -> bool:
    return item.is_star or item.find(exp.Columns, exp.Explode) is not None


def pin_clock(statement: Statement, moment: datetime) -> Statement:
    """Return the statement with the clock stopped at a moment, so that planning and every engine use the same time.

    Pruning would otherwise have to allow for the difference of two clocks, and read minutes of files more.
    """
    if not _reads_clock(statement.tree):
        return statement
    tree = statement.tree.copy()
    for query in tree.find_all(exp.Select):  # the names of its columns stay those of the clock
        query.set("expressions", [_name_column(one) if _reads_clock(one) else one for one in query.expressions])
    now = exp.cast(exp.Literal.string(moment.astimezone(UTC).isoformat()), "TIMESTAMPTZ")

    for clock in [node for node in tree.walk() if _is_clock(node)]:
        is_day = isinstance(clock, exp.CurrentDate) or fold(clock.name) == TODAY
        clock.replace(exp.cast(now.copy(), "DATE") if is_day else now.copy())  # the day of the session's time zone
    return replace(statement, tree=tree)


def _reads_clock(item: exp.Expr) -> bool:
    return any(map(_is_clock, item.walk()))


def _is_clock(node: exp.Expr) -> bool:
    if isinstance(node, CLOCKS):
        return not node.this
    return isinstance(node, exp.Anonymous) and fold(node.name) in CLOCK_FUNCTIONS and not node.expressions


def write_for_duckdb(statement: Statement, sources: Mapping[int, str]) -> str:
    """Write the statement for DuckDB. `sources` has a subquery in parentheses for each marked table."""
    if statement.open_pivots:
        raise QueryError("a PIVOT needs its values", hint="PIVOT … ON column IN ('a', 'b') USING …")
    # Tables are filled in first: the later steps may copy nodes that read one.
    tree = add_runtime_checks(expand_search_functions(_fill_sources(name_columns(statement.tree.copy()), sources)))
    check_references(tree)
    return write_last(tree, LAKE)


def write_for_spark(statement: Statement, sources: Mapping[int, str]) -> str:
    """Write the statement for Spark. Raises `QueryError` if Spark would give another result."""
    from neve.query.sql.spark.dialect import SPARK  # noqa: PLC0415 - only for large queries
    from neve.query.sql.spark.translator import to_spark  # noqa: PLC0415 - as above

    try:
        tree = to_spark(name_columns(statement.tree.copy()), statement.columns)
    except NotPortable as reason:
        raise QueryError(f"Spark can't answer this as DuckDB does: {reason}") from reason
    tree = _fill_sources(tree, sources)
    check_references(tree)
    return write_last(tree, SPARK)


def reason_against_spark(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> str:
    """Return the reason why Spark can't give the same result, or an empty text if it can."""
    from neve.query.sql.spark.dialect import SPARK  # noqa: PLC0415 - only for large queries
    from neve.query.sql.spark.translator import to_spark  # noqa: PLC0415 - as above

    try:
        write_last(to_spark(name_columns(tree.copy()), columns), SPARK)
    except NotPortable as reason:
        return str(reason)
    except QueryError as error:
        return error.message
    return ""


def _fill_sources(tree: exp.Expr, sources: Mapping[int, str]) -> exp.Expr:
    for number, table in find_lake_tables(tree).items():
        if number not in sources:
            raise QueryError(f"there is no source for table {number}, {table.name}")
        _unqualify(tree, table)
        table.set("db", None)
        table.set("this", Source(this=sources[number]))
    return tree


def _unqualify(tree: exp.Expr, table: exp.Table) -> None:
    """Remove qualifiers such as `telemetry.spans.x`: the source has only the name of the table."""
    for column in tree.find_all(exp.Column):
        if fold(column.db) in SCHEMAS and fold(column.table) == fold(table.name):
            column.set("db", None)
            column.set("catalog", None)


# Only the tree is passed on: the SQL for an engine is generated from it (`query/sql/statement.py`), so no user text
# reaches an engine without a check here. Unknown syntax is rejected.

__all__ = ["Statement", "bind_template", "find_lake_tables", "parse", "parse_template"]

NODES_OF_A_LEVEL = 4  # nodes of a subquery in parentheses
HEADER = "header"  # of the metadata of a node: the name of a column of the result
READING = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery, exp.Pivot)
# Keywords that begin other statements of DuckDB. sqlglot can't parse all of these.
OTHER_STATEMENTS = frozenset(
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
        *("MERGE", "PRAGMA", "PREPARE", "RESET", "ROLLBACK", "SET", "TRUNCATE", "UPDATE", "USE", "VACUUM"),
    )
)
SHOWN = {"tables", CATALOG, *SCHEMAS}  # last words of SHOW TABLES [FROM …]
CLOCKS = (exp.CurrentDate, exp.CurrentTimestamp)
TODAY = "today"
CLOCK_FUNCTIONS = ("now", "get_current_timestamp", "transaction_timestamp", TODAY)


@dataclass(frozen=True)
class Statement:
    """A statement that may run. `tree` is the query itself, also for EXPLAIN."""

    tree: exp.Expression
    kind: Literal["select", "describe", "tables"]
    explain: Literal["", "plan", "analyze"] = ""
    described: str = ""
    volatile: str = ""
    schemas: Mapping[str, pa.Schema] = field(default_factory=dict, compare=False, repr=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables of the lake that are read, in order of their numbers."""
        return tuple(table.name for table in find_lake_tables(self.tree).values())

    @cached_property
    def columns(self) -> Mapping[str, TableKinds]:
        """Return the kinds of the columns of these tables."""
        return {name: kinds_of(self.schemas[name]) for name in self.tables if name in self.schemas}

    @cached_property
    def not_portable(self) -> str:
        """Return the reason why Spark can't give the same result, or an empty text. It is computed on demand."""
        return reason_against_spark(self.tree, self.columns) if self.kind == "select" else ""

    @cached_property
    def open_pivots(self) -> list[OpenPivot]:
        """Return the PIVOT columns whose values have to be read first."""
        return find_open_pivots(self.tree)

    @cached_property
    def normalised_sql(self) -> str:
        """Return one text for all statements that differ only in whitespace, comments and the case of keywords."""
        headers = (one.meta.get(HEADER, "") for one in self.tree.args.get("expressions") or ())
        return " ".join(filter(None, (self.kind, self.explain, self.described, write(self.tree), *headers)))


def parse(sql: str, tables: Mapping[str, pa.Schema], parameters: Parameters = ()) -> Statement:
    """Parse a statement. Raises `QueryError` for anything but one that reads the lake's tables."""
    tokens = tokenize(sql)
    first = tokens[0].text.upper() if tokens else ""
    if first in {"SHOW", "DESCRIBE", "DESC"}:
        return _parse_table_command(sql, tokens, tables)
    explain: Literal["", "plan", "analyze"] = ""
    if first == "EXPLAIN":
        explain, sql = _split_explain(sql[tokens[0].end + 1 :])
        tokens = tokenize(sql)
    return _bind(_parse_checked(sql, tokens, tables), tables, parameters, explain)


def parse_template(sql: str, tables: Mapping[str, pa.Schema]) -> exp.Expression:
    """Parse a query whose placeholders have no values yet, as `parse` does."""
    return _parse_checked(sql, tokenize(sql), tables)


def bind_template(template: exp.Expression, tables: Mapping[str, pa.Schema], parameters: Parameters) -> Statement:
    """Return the statement of a template with values for its placeholders."""
    return _bind(template.copy(), tables, parameters)


def _parse_checked(sql: str, tokens: list[Token], tables: Mapping[str, pa.Schema]) -> exp.Expression:
    tree = expand_catalog_tables(_parse_query(sql, tokens), tables)
    with _unlinked_on_error(tree):
        check_nodes(tree, MAX_DEPTH * NODES_OF_A_LEVEL)
        check_expanded_size(tree)
        for name in _function_names(tree):
            if fold(name) not in KNOWN:
                raise add_place(function_error(name, KNOWN), sql, name)
        check_shape(tree)
        remember_headers(tree)
        mark_lake_tables(tree, tables)
    return tree


def _bind(
    tree: exp.Expression,
    tables: Mapping[str, pa.Schema],
    parameters: Parameters,
    explain: Literal["", "plan", "analyze"] = "",
) -> Statement:
    with _unlinked_on_error(tree):
        bind(tree, parameters)
        convert_text_ids(tree, tables)
        check_sizes(tree)
    return Statement(tree, "select", explain, volatile=_find_volatile(tree), schemas=tables)


@contextmanager
def _unlinked_on_error(tree: exp.Expression) -> Iterator[None]:
    """Unlink a tree that is refused."""
    try:
        yield
    except QueryError:
        unlink(tree)
        raise


def _split_explain(sql: str) -> tuple[Literal["plan", "analyze"], str]:
    tokens = tokenize(sql)
    if tokens and tokens[0].text.upper() == "ANALYZE":
        return "analyze", sql[tokens[0].end + 1 :]
    return "plan", sql


def _parse_query(sql: str, tokens: list[Token]) -> exp.Expression:
    first = tokens[0].text.upper() if tokens else ""
    if first in OTHER_STATEMENTS:
        raise _does_not_read(first, sql)
    trees = read(sql, wrap_reshaping(tokens)) if tokens else []
    if len(trees) != 1:
        raise QueryError(f"got {len(trees)} statements, expected one")
    [tree] = trees
    if isinstance(tree, exp.Condition | exp.Alias) and not isinstance(tree, READING):
        raise _not_a_statement(sql, tokens[0])
    if isinstance(tree, exp.Summarize):
        tree = exp.select("*").from_(exp.Subquery(this=tree))
    if not isinstance(tree, READING):
        raise _does_not_read(type(tree).__name__.upper(), sql)
    return rewrite_common_forms(tree)


def _does_not_read(kind: str, sql: str) -> QueryError:
    return QueryError(f"got a statement of type {kind}, expected one that only reads", hint=read_only_hint(kind, sql))


def _not_a_statement(sql: str, first: Token) -> QueryError:
    """Return the error of an expression without SELECT, or of another query language."""
    language = find_language(sql)
    if language is not None:
        return other_language(language)
    hint = keyword_hint([first.text]) or "begin with SELECT"
    return QueryError(f"syntax error near {first.text!r}{excerpt(sql, first.start)}", hint=hint)


def _parse_table_command(sql: str, tokens: list[Token], tables: Mapping[str, pa.Schema]) -> Statement:
    """Parse SHOW TABLES, SHOW DATABASES, SHOW t, SHOW COLUMNS FROM t and DESCRIBE t."""
    words = [token.text for token in tokens if token.token_type != TokenType.SEMICOLON]
    catalog = show_catalog(words, tables)
    if catalog is not None:
        return Statement(catalog, "select", schemas=tables)
    match [word.upper() for word in words]:
        case ["SHOW", "TABLES"] | ["SHOW", "TABLES", "FROM" | "IN", _] if fold(words[-1]) in SHOWN:
            return Statement(exp.Show(this="TABLES"), "tables")
        case ["SHOW", "COLUMNS" | "FIELDS", "FROM" | "IN", *_]:
            tokens = tokens[2:]
    trees = read("FROM " + sql[tokens[0].end + 1 :])
    node = trees[0].find(exp.Table) if len(trees) == 1 else None
    if node is None or trees[0] != exp.select("*").from_(node.copy()):
        raise QueryError("DESCRIBE needs the name of one table", hint="`SHOW TABLES` lists the tables")
    mark_lake_tables(trees[0], tables)
    if SCAN not in node.meta:
        raise QueryError("only tables of the lake can be described", hint="`SHOW TABLES` lists them")
    return Statement(trees[0], "describe", described=node.name)


def _function_names(tree: exp.Expression) -> Iterable[str]:
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            yield node.name
        elif type(node) in FUNCTIONS:
            yield FUNCTIONS[type(node)]


def _find_volatile(tree: exp.Expression) -> str:
    """Return the first expression whose value differs each time."""
    for node in tree.find_all(exp.Anonymous, exp.TableSample, *CLOCKS):
        if isinstance(node, exp.TableSample):
            return "sample"
        name = fold(node.name) if isinstance(node, exp.Anonymous) else FUNCTIONS[type(node)]
        if name in VOLATILE or isinstance(node, CLOCKS):
            return name
    return ""
