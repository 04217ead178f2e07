"""Catalog queries: `information_schema.tables` and `.columns`, DESCRIBE in FROM, SUMMARIZE, and SHOW.

BI tools ask for these first. They are answered from Neve's own tables, as literals in the place of the reference, and
never from the catalog of an engine. So a statement reads nothing that it could not read before, and no text of a user
stands in the place of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from neve.errors import QueryError
from neve.model.signals import NAMESPACE
from neve.predicate.names import fold
from neve.query.sql.identifiers import tables_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INFORMATION_SCHEMA = "information_schema"
CATALOG = "neve"  # name of the one database
TENANT = "organization_id"
TABLES = ("table_catalog", "table_schema", "table_name", "table_type")
COLUMNS = (*TABLES[:3], "column_name", "ordinal_position", "column_default", "is_nullable", "data_type")
ALL_TABLES = ("database", "schema", "name", "column_names", "column_types")
DESCRIBED = ("column_name", "column_type", "null")
SUMMARIZED = ("column_name", "column_type", "min", "max", "approx_unique", "avg", "count", "null_percentage")
SCALARS = {
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
}

Value = str | int | tuple[str, ...] | None


def expand_catalog_tables(tree: exp.Expression, tables: Mapping[str, pa.Schema]) -> exp.Expression:
    """Replace references to the catalog in a tree. Raises `QueryError` for others than the known ones."""
    if not any(map(_is_catalog_node, tree.walk())):
        return tree  # the columns of other tables are not read
    own = _own_tables(tables)
    for node in list(tree.find_all(exp.Table)):
        if fold(node.db) == INFORMATION_SCHEMA:
            node.replace(_information_schema(node, own))
    for described in list(tree.find_all(exp.Describe)):
        described.replace(_describe(_find_table(described.this, own), own))
    for summarized in reversed(list(tree.find_all(exp.Summarize))):  # the innermost first
        summarized.replace(
            summarize_query(summarized.this)
            if isinstance(summarized.this, exp.Query)
            else summarize(summarized.this, own)
        )
    for column in tree.find_all(exp.Column):
        if fold(column.db) == INFORMATION_SCHEMA:
            column.set("db", None)
    return tree


def show_catalog(words: Sequence[str], tables: Mapping[str, pa.Schema]) -> exp.Select | None:
    """Return the query of SHOW DATABASES, SHOW SCHEMAS and SHOW ALL TABLES, or `None` for other words."""
    match [word.upper() for word in words]:
        case ["SHOW", "DATABASES"]:
            return _values(("database_name",), [(CATALOG,)])
        case ["SHOW", "SCHEMAS"]:
            return _values(("database_name", "schema_name"), [(CATALOG, NAMESPACE)])
        case ["SHOW", "ALL", "TABLES"]:
            return _list_with_columns(_own_tables(tables))
    return None


def _is_catalog_node(node: exp.Expr) -> bool:
    if isinstance(node, exp.Table | exp.Column):
        return fold(node.db) == INFORMATION_SCHEMA
    return isinstance(node, exp.Describe | exp.Summarize)


def _own_tables(tables: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
    """Return the tables whose rows name their organization, sorted by name."""
    return {name: schema for name, schema in sorted(tables.items()) if TENANT in schema.names}


def _list_with_columns(tables: Mapping[str, pa.Schema]) -> exp.Select:
    rows = [
        (CATALOG, NAMESPACE, name, tuple(schema.names), tuple(format_type(field.type) for field in schema))
        for name, schema in tables.items()
    ]
    return _values(ALL_TABLES, rows)


def summarize(node: exp.Expr, tables: Mapping[str, pa.Schema]) -> exp.Select:
    """Return a query for statistics of each column of a table: one scan, and a row for each column."""
    name = _find_table(node, tables)
    rows = exp.Array(expressions=[_summary(field) for field in tables[name]])
    inner = exp.select(exp.alias_(exp.Explode(this=rows), "summary", quoted=True)).from_(exp.to_table(name))
    columns = [_alias(exp.Dot(this=_column("summary"), expression=_name(column)), column) for column in SUMMARIZED]
    return exp.select(*columns).from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=_name("summaries"))))


def summarize_query(query: exp.Query) -> exp.Select:
    """Return a query for statistics of each column of a query, with the columns of the statistics of a table.

    The columns of a query are known to the engine alone, so this is the engine's own SUMMARIZE of it.
    """
    double = exp.DataType.build("DOUBLE")
    columns: list[exp.Expr] = [_column(name) for name in SUMMARIZED]
    for name in ("avg", "null_percentage"):
        columns[SUMMARIZED.index(name)] = _alias(exp.TryCast(this=_column(name), to=double.copy()), name)
    inner = exp.Subquery(this=exp.Summarize(this=query), alias=exp.TableAlias(this=_name("summaries")))
    return exp.select(*columns).from_(inner)


def _summary(field: pa.Field) -> exp.Struct:
    """Return the statistics of one column as a struct."""
    column = _column(field.name)
    plain, number = not pa.types.is_nested(field.type), _is_number(field.type)
    text = exp.DataType.build("VARCHAR", dialect="duckdb")
    rows = exp.Count(this=exp.Star())
    missing = exp.Sub(this=rows.copy(), expression=exp.Count(this=column.copy()))
    share = exp.Div(this=exp.Mul(this=exp.Literal.number("100.0"), expression=exp.Paren(this=missing)), expression=rows)
    values: dict[str, exp.Expr] = {
        "column_name": exp.Literal.string(field.name),
        "column_type": exp.Literal.string(format_type(field.type)),
        "min": exp.Cast(this=_show_id(exp.Min(this=column.copy()), field) if plain else exp.Null(), to=text),
        "max": exp.Cast(this=_show_id(exp.Max(this=column.copy()), field) if plain else exp.Null(), to=text.copy()),
        "approx_unique": exp.Anonymous(this="approx_count_distinct", expressions=[column.copy()]),
        "avg": exp.Cast(this=exp.Avg(this=column.copy()) if number else exp.Null(), to=exp.DataType.build("DOUBLE")),
        "count": rows.copy(),
        "null_percentage": share,
    }
    return exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=value)
            for name, value in values.items()
        ]
    )


def _show_id(value: exp.Expr, field: pa.Field) -> exp.Expr:
    """Return a value of a binary column as the hexadecimal digits by which results show ids; others unchanged."""
    return (
        exp.Lower(this=exp.Anonymous(this="hex", expressions=[value])) if format_type(field.type) == "BLOB" else value
    )


def _information_schema(node: exp.Table, tables: Mapping[str, pa.Schema]) -> exp.Subquery:
    name = fold(node.name)
    if node.args.get("catalog") or name not in {"tables", "columns"} or not isinstance(node.this, exp.Identifier):
        raise QueryError(
            f"'{INFORMATION_SCHEMA}.{node.name}' can't be read", hint="there are information_schema.tables and .columns"
        )
    extra = [key for key, value in node.args.items() if value and key not in {"this", "db", "alias", "joins"}]
    if extra:
        raise QueryError(f"'{INFORMATION_SCHEMA}.{name}' can't be read that way")
    rows = _list_tables(tables) if name == "tables" else _list_columns(tables)
    found = _values(TABLES if name == "tables" else COLUMNS, rows)
    alias = node.args.get("alias") or exp.TableAlias(this=_name(name))
    return exp.Subquery(this=found, alias=alias, joins=node.args.get("joins"))


def _describe(name: str, tables: Mapping[str, pa.Schema]) -> exp.Select:
    rows = [(field.name, format_type(field.type), "YES" if field.nullable else "NO") for field in tables[name]]
    return _values(DESCRIBED, rows)


def _list_tables(tables: Mapping[str, pa.Schema]) -> list[tuple[Value, ...]]:
    return [(CATALOG, NAMESPACE, name, "BASE TABLE") for name in tables]


def _list_columns(tables: Mapping[str, pa.Schema]) -> list[tuple[Value, ...]]:
    return [
        (CATALOG, NAMESPACE, name, field.name, place, None, "YES" if field.nullable else "NO", format_type(field.type))
        for name, schema in tables.items()
        for place, field in enumerate(schema, 1)
    ]


def _find_table(node: exp.Expr, tables: Mapping[str, pa.Schema]) -> str:
    """Return the name of the table that a reference means; raises `QueryError` for anything else."""
    names = {fold(name): name for name in tables}
    extra = [key for key, value in node.args.items() if value and key not in {"this", "db"}]
    if not isinstance(node, exp.Table) or extra or (node.db and fold(node.db) not in {NAMESPACE, "main"}):
        raise QueryError("only tables of the lake can be described", hint="`SHOW TABLES` lists them")
    if fold(node.name) not in names:
        raise QueryError(f"{node.name!r} is not a table of the lake", hint=tables_hint(node.name, names.values()))
    return names[fold(node.name)]


def _values(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> exp.Select:
    """Return a query that gives rows of literals."""
    tuples = [exp.Tuple(expressions=[_literal(value) for value in row]) for row in rows]
    alias = exp.TableAlias(this=_name("listed"), columns=[_name(column) for column in columns])
    return exp.select(*map(_column, columns)).from_(exp.Values(expressions=tuples, alias=alias))


def _literal(value: Value) -> exp.Expr:
    if value is None:
        return exp.Null()
    if isinstance(value, tuple):
        return exp.Array(expressions=[exp.Literal.string(item) for item in value])
    return exp.Literal.number(value) if isinstance(value, int) else exp.Literal.string(value)


def _name(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _column(name: str) -> exp.Column:
    return exp.Column(this=_name(name))


def _alias(value: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=value, alias=_name(name))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def format_type(kind: pa.DataType) -> str:
    """Return the SQL name of a type.

    >>> format_type(pa.list_(pa.map_(pa.string(), pa.int64())))
    'MAP(VARCHAR, BIGINT)[]'
    """
    if pa.types.is_map(kind):
        return f"MAP({format_type(kind.key_type)}, {format_type(kind.item_type)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{format_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{field.name} {format_type(field.type)}' for field in kind)})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    return SCALARS.get(kind, str(kind).upper())
