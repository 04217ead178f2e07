"""A statement: parsed, checked, bound to its parameters, and written for an engine.

A statement only reads, only tables of the lake, and only with known functions. Anything else is rejected. Parameters
become literals of the tree, never text of the statement. The SQL for an engine is generated from the tree, with the
source of every table filled in, so no user text reaches an engine unchecked. Columns of the result have the same names
from both engines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from neve.errors import QueryError
from neve.predicate.names import fold
from neve.query.sql.catalog_tables import expand_catalog_tables
from neve.query.sql.dialect import (
    LAKE,
    MAX_DEPTH,
    QUESTION,
    SPARK,
    Source,
    expand_search_functions,
    read,
    tokenize,
    write,
)
from neve.query.sql.identifiers import VOLATILE, check_function
from neve.query.sql.references import SCAN, SCHEMAS, check_references, find_lake_tables, mark_lake_tables
from neve.query.sql.rewrites import fetch_to_limit, wrap_reshaping
from neve.query.sql.size_limits import add_runtime_checks, check_expanded_size, check_sizes
from neve.query.sql.spark.translator import to_spark
from neve.query.sql.syntax_rules import FUNCTIONS, check_nodes, check_shape
from neve.query.sql.type_inference import NotPortable, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from neve.query.sql.type_inference import TableKinds


Parameters = Sequence[Any] | Mapping[str, Any]


def bind(tree: exp.Expression, parameters: Parameters) -> exp.Expression:
    """Replace every `?`, `$1`, `$name` or `:name` in the tree. Each placeholder needs a value, and vice versa."""
    values = _values_by_name(parameters)
    places = list(tree.find_all(exp.Placeholder))
    numbers = _number_question_marks(places)
    for node in places:
        name = numbers.get(node.name, node.name)
        if name not in values:
            raise QueryError(
                f"there is no value for the parameter {_format_parameter(name)}", hint=_parameters_hint(values)
            )
        node.replace(literal_of(values[name], name))
    used = {numbers.get(node.name, node.name) for node in places}
    extra = [name for name in values if name not in used]
    if extra:
        raise QueryError(
            f"the statement does not ask for the parameter {_format_parameter(extra[0])}", hint="leave it out"
        )
    return tree


def literal_of(value: Any, name: str = "") -> exp.Expr:
    """Return a value as a literal node.

    >>> literal_of(b"a").sql("duckdb"), literal_of(-1.5).sql("duckdb")
    ("UNHEX('61')", '(-1.5e0)')
    """
    for kind, build in _BUILDERS:
        if isinstance(value, kind):
            return build(value)
    raise QueryError(
        f"the parameter {_format_parameter(name)} is a {type(value).__name__}, "
        "expected text, a number, a boolean, bytes or a time"
    )


def _number_question_marks(places: list[exp.Placeholder]) -> dict[str, str]:
    """Number question marks in the order of the text."""
    marks = sorted((node.name for node in places if node.name.startswith(QUESTION)), key=lambda name: int(name[1:]))
    return {mark: str(number) for number, mark in enumerate(marks, 1)}


def _values_by_name(parameters: Parameters) -> dict[str, Any]:
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    return {str(number): value for number, value in enumerate(parameters, 1)}


def _format_parameter(name: str) -> str:
    return f"${name}"


def _parameters_hint(values: dict[str, Any]) -> str:
    return f"given: {', '.join(map(_format_parameter, values))}" if values else "none was given"


def _text_literal(value: str) -> exp.Expr:
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise QueryError("a parameter has a character that is no text", hint="send bytes")
    return exp.Literal.string(value)


def _int_literal(value: int) -> exp.Expr:
    if not -(2**127) < value < 2**127:
        raise QueryError(f"the parameter {value} is too large for an integer")
    return _signed_literal(str(abs(value)), negative=value < 0)


def _float_literal(value: float) -> exp.Expr:
    """Return a literal with an exponent: a plain `1.5` would be a decimal."""
    if not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), exp.DType.DOUBLE)
    said = repr(abs(value))
    return _signed_literal(said if "e" in said else f"{said}e0", negative=math.copysign(1, value) < 0)


def _signed_literal(digits: str, *, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _time_literal(value: datetime) -> exp.Expr:
    """Return a time literal. A time without a zone is in UTC."""
    moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return exp.cast(exp.Literal.string(moment.isoformat(sep=" ")), exp.DType.TIMESTAMPTZ)


_BUILDERS: tuple[tuple[type, Callable[[Any], exp.Expr]], ...] = (
    (type(None), lambda _: exp.Null()),
    (bool, lambda value: exp.Boolean(this=value)),
    (int, _int_literal),
    (float, _float_literal),
    (str, _text_literal),
    (bytes, lambda value: exp.Unhex(this=exp.Literal.string(value.hex()))),
    (datetime, _time_literal),
    (date, lambda value: exp.cast(exp.Literal.string(value.isoformat()), exp.DType.DATE)),
)


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
    said = LAKE.generate(item, normalize_functions="lower", comments=False)
    return exp.alias_(item, said.replace("${", "$ {"), quoted=True)  # Spark would substitute a variable there


def _gives_many_columns(item: exp.Expr) -> bool:
    return item.is_star or item.find(exp.Columns, exp.Explode) is not None


def write_for_duckdb(statement: Statement, sources: Mapping[int, str]) -> str:
    """Write the statement for DuckDB. `sources` has a subquery in parentheses for each marked table."""
    # Tables are filled in first: the later steps may copy nodes that read one.
    tree = add_runtime_checks(expand_search_functions(_fill_sources(name_columns(statement.tree.copy()), sources)))
    check_references(tree)
    return write(tree, LAKE)


def write_for_spark(statement: Statement, sources: Mapping[int, str]) -> str:
    """Write the statement for Spark. Raises `QueryError` if Spark would give another result."""
    try:
        tree = to_spark(name_columns(statement.tree.copy()), statement.columns)
    except NotPortable as reason:
        raise QueryError(f"Spark can't answer this as DuckDB does: {reason}") from reason
    tree = _fill_sources(tree, sources)
    check_references(tree)
    return write(tree, SPARK)


def reason_against_spark(tree: exp.Expr, columns: Mapping[str, TableKinds]) -> str:
    """Return the reason why Spark can't give the same result, or an empty text if it can."""
    try:
        write(to_spark(name_columns(tree.copy()), columns), SPARK)
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

__all__ = ["Statement", "find_lake_tables", "parse"]

NODES_OF_A_LEVEL = 4  # nodes of a subquery in parentheses
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
CLOCKS = (exp.CurrentDate, exp.CurrentTimestamp)


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
    def normalised(self) -> str:
        """Return one text for all statements that differ only in whitespace, comments and the case of keywords."""
        return " ".join(filter(None, (self.kind, self.explain, self.described, write(self.tree))))


def parse(sql: str, tables: Mapping[str, pa.Schema], parameters: Parameters = ()) -> Statement:
    """Parse a statement. Raises `QueryError` for anything but one that reads the lake's tables."""
    tokens = tokenize(sql)
    first = tokens[0].text.upper() if tokens else ""
    if first in {"SHOW", "DESCRIBE", "DESC"}:
        return _parse_table_command(sql, tokens, tables)
    explain: Literal["", "plan", "analyze"] = ""
    if first == "EXPLAIN":
        explain, sql = _split_explain(sql[tokens[0].end + 1 :])
    tree = expand_catalog_tables(_parse_query(sql), tables)
    check_nodes(tree, MAX_DEPTH * NODES_OF_A_LEVEL)
    check_expanded_size(tree)
    for name in _function_names(tree):
        check_function(name)
    check_shape(tree)
    mark_lake_tables(tree, tables)
    tree = bind(tree, parameters)
    check_sizes(tree)
    return Statement(tree, "select", explain, volatile=_find_volatile(tree), schemas=tables)


def _split_explain(sql: str) -> tuple[Literal["plan", "analyze"], str]:
    tokens = tokenize(sql)
    if tokens and tokens[0].text.upper() == "ANALYZE":
        return "analyze", sql[tokens[0].end + 1 :]
    return "plan", sql


def _parse_query(sql: str) -> exp.Expression:
    tokens = tokenize(sql)
    first = tokens[0].text.upper() if tokens else ""
    if first in OTHER_STATEMENTS:
        raise QueryError(f"got a statement of type {first}, expected one that only reads")
    trees = read(wrap_reshaping(sql, tokens)) if tokens else []
    if len(trees) != 1:
        raise QueryError(f"got {len(trees)} statements, expected one")
    [tree] = trees
    if isinstance(tree, exp.Condition | exp.Alias) and not isinstance(tree, READING):
        raise QueryError(f"can't read a statement that begins with {tokens[0].text!r}", hint="begin with SELECT")
    if isinstance(tree, exp.Summarize):
        tree = exp.select("*").from_(exp.Subquery(this=tree))
    if not isinstance(tree, READING):
        raise QueryError(f"got a statement of type {type(tree).__name__.upper()}, expected one that only reads")
    for node in list(tree.walk()):
        node.comments = None
        if isinstance(node, exp.RawString):  # a dollar-quoted text
            node.replace(exp.Literal.string(node.name))
        elif isinstance(node, exp.Fetch):
            node.replace(fetch_to_limit(node))
    return tree


def _parse_table_command(sql: str, tokens: list[Token], tables: Mapping[str, pa.Schema]) -> Statement:
    """Parse SHOW TABLES, SHOW t and DESCRIBE t."""
    words = [token for token in tokens if token.token_type != TokenType.SEMICOLON]
    if [word.text.upper() for word in words] == ["SHOW", "TABLES"]:
        return Statement(exp.Show(this="TABLES"), "tables")
    trees = read("FROM " + sql[tokens[0].end + 1 :])
    node = trees[0].find(exp.Table) if len(trees) == 1 else None
    if node is None or trees[0] != exp.select("*").from_(node.copy()):
        raise QueryError("can't tell which table is to be described", hint="`SHOW TABLES` lists the tables")
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
