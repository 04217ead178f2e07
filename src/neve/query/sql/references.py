"""Resolve the tables that a statement reads: tables of the lake by their names, and queries of its own WITH clauses.

Each reference to a table of the lake is marked with a number. Each query of a WITH gets a name of Neve's, and so does
each reference to it. The user's name stays as an alias. So no text of a user is ever in the place of a table: where
an engine resolves names in another way than this module does, it finds nothing, and not a file of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.model.signals import NAMESPACE
from neve.predicate.names import fold
from neve.query.sql.dialect import Source
from neve.query.sql.duckdb_statement import DEFINED
from neve.query.sql.hints import path_hint
from neve.query.sql.identifiers import TABLE_FUNCTIONS, function_error, tables_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Scope = Mapping[str, str]  # names that a WITH defines, as DuckDB folds them, with their replacements

SCAN = "scan"
MAX_TABLES = 64  # of one statement: each is planned separately
SCHEMAS = {NAMESPACE, "main"}
TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins", "pivots", "sample", "laterals", "ordinality"})


def find_lake_tables(tree: exp.Expr) -> dict[int, exp.Table]:
    """Return the references to tables of the lake, by their numbers."""
    found = {node.meta[SCAN]: node for node in tree.find_all(exp.Table) if SCAN in node.meta}
    return dict(sorted(found.items()))


def mark_lake_tables(tree: exp.Expr, tables: Iterable[str]) -> None:
    """Number every reference to a table of the lake. Raise `QueryError` for any other table."""
    marker = _Marker({fold(name): name for name in tables})
    marker.visit(tree, {})


def check_references(tree: exp.Expr) -> None:
    """Raise `QueryError` unless every table of a tree that is about to be written was replaced by Neve."""
    defined = {definition.alias for definition in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_function = isinstance(table.this, exp.Anonymous) and fold(table.this.name) in TABLE_FUNCTIONS
        is_defined = isinstance(table.this, exp.Identifier) and table.name in defined and table.name.startswith(DEFINED)
        if not (is_function or is_defined or isinstance(table.this, Source)) or table.db or table.catalog:
            raise QueryError(f"{_format_table(table)} can't be read", hint="write the name of a table")


def resolve_table(node: exp.Table, names: dict[str, str]) -> str | None:
    """Return the table of the lake that a reference means, if there is one."""
    if node.args.get("catalog") or (node.args.get("db") and fold(node.db) not in SCHEMAS):
        return None
    return names.get(fold(node.name)) if isinstance(node.this, exp.Identifier) else None


@dataclass
class _Marker:
    names: dict[str, str]
    number: int = 0
    defined: int = 0

    def visit(self, start: exp.Expr, start_scope: Scope) -> None:
        """Visit a tree with the names that are defined around it.

        There is no recursion, because statements may be deep.
        """
        todo = [(start, start_scope)]
        while todo:
            node, scope = todo.pop()
            if isinstance(node, exp.Table):
                self._table(node, scope)
            children = list(node.iter_expressions())
            defined = node.args.get("with_")
            if isinstance(defined, exp.With):
                inner, bodies = self._definitions(defined, scope)
                children = [child for child in children if child is not defined]
                todo += [(child, inner) for child in reversed(children)]
                todo += reversed(bodies)
            else:
                todo += [(child, scope) for child in reversed(children)]

    def _definitions(self, defined: exp.With, scope: Scope) -> tuple[Scope, list[tuple[exp.Expr, Scope]]]:
        """Rename the queries of a WITH. Return the names that it adds, and each query with the names in its scope."""
        bodies: list[tuple[exp.Expr, Scope]] = []
        for definition in defined.expressions:
            name, own = fold(definition.alias), self._next_name()
            if defined.args.get("recursive") and isinstance(definition.this, exp.SetOperation):
                bodies += self._recursive(definition, name, own, scope)
            else:
                bodies.append((definition.this, scope))
            definition.args["alias"].set("this", exp.to_identifier(own, quoted=True))
            scope = {**scope, name: own}
        return scope, bodies

    def _recursive(self, definition: exp.CTE, name: str, own: str, scope: Scope) -> list[tuple[exp.Expr, Scope]]:
        """Return the parts of a recursive query with their scopes: it is visible only on its right side.

        Its own parts outside both sides see neither.
        """
        if name in self.names:
            raise QueryError(f"a recursive WITH can't be called {name}, as a table is", hint="give it another name")
        body = definition.this
        if body.args.get("with_") or isinstance(body.this, exp.SetOperation):
            raise QueryError(f"the recursive WITH {name} is ambiguous", hint="write it as one UNION of two queries")
        rest = [child for child in body.iter_expressions() if child not in (body.this, body.expression)]
        return [(body.this, scope), (body.expression, {**scope, name: own}), *((child, scope) for child in rest)]

    def _next_name(self) -> str:
        self.defined += 1
        return f"{DEFINED}{self.defined - 1}"

    def _table(self, node: exp.Table, scope: Scope) -> None:
        extra = [key for key, value in node.args.items() if value and key not in TABLE_PARTS]
        if extra:
            raise QueryError(f"{_format_table(node)} can't be read that way", hint="write the name of a table")
        if isinstance(node.this, exp.Anonymous):
            _check_table_function(node.this.name)
            return
        if not node.args.get("db") and isinstance(node.this, exp.Identifier) and fold(node.name) in scope:
            _rename(node, scope[fold(node.name)], node.name)
            return
        name = resolve_table(node, self.names)
        if name is None:
            hint = path_hint(node.name) or tables_hint(node.name, self.names.values())
            raise QueryError(f"{_format_table(node)} is not a table of the lake", hint=hint)
        _rename(node, name, name)
        if self.number >= MAX_TABLES:
            raise QueryError(
                f"the statement reads more than {MAX_TABLES} tables", hint="split it into several statements"
            )
        node.meta[SCAN] = self.number
        self.number += 1


def _rename(node: exp.Table, name: str, alias: str) -> None:
    """Redirect a reference. Its old name stays as the alias, so that qualified columns still match."""
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("db", None)
    given = node.args.get("alias")
    if not given:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    elif not given.this:
        given.set("this", exp.to_identifier(alias, quoted=True))


def _check_table_function(name: str) -> None:
    if fold(name) not in TABLE_FUNCTIONS:
        raise function_error(name, TABLE_FUNCTIONS)


def _format_table(node: exp.Table) -> str:
    parts = [node.catalog, node.db, node.name]
    return repr(".".join(part for part in parts if part))
