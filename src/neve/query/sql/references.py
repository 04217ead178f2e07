"""The tables that a statement reads: tables of the lake by their names, and what the statement itself defines.

Each reference to a table of the lake is marked with a number. Each query of a WITH gets a name of Neve's, and so does
each reference to it; the user's name stays as an alias. So no text of a user stands in the place of a table: where an
engine resolves names in another way than this module does, it finds nothing, and not a file of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.model.tables import NAMESPACE
from neve.query.sql.dialect import Source
from neve.query.sql.functions import TABLE_FUNCTIONS
from neve.query.sql.identifiers import fold
from neve.query.sql.suggestions import tables_hint
from neve.query.sql.written import DEFINED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Scope = Mapping[str, str]  # names that a WITH defines, as DuckDB folds them, with the names that Neve gives

SCAN = "scan"
MAX_TABLES = 64  # of one statement: each is planned apart
SCHEMAS = {NAMESPACE, "main"}
TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins", "pivots", "sample", "laterals", "ordinality"})


def marked(tree: exp.Expr) -> dict[int, exp.Table]:
    """The references to tables of the lake, by their numbers."""
    found = {node.meta[SCAN]: node for node in tree.find_all(exp.Table) if SCAN in node.meta}
    return dict(sorted(found.items()))


def mark(tree: exp.Expr, tables: Iterable[str]) -> None:
    """Give every reference to a table of the lake its number; raise `QueryError` for any other."""
    marker = _Marker({fold(name): name for name in tables})
    marker.visit(tree, {})


def check_references(tree: exp.Expr) -> None:
    """Raise `QueryError` unless every table of a tree that is about to be written has a place of Neve's making."""
    defined = {definition.alias for definition in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_function = isinstance(table.this, exp.Anonymous) and fold(table.this.name) in TABLE_FUNCTIONS
        is_defined = isinstance(table.this, exp.Identifier) and table.name in defined and table.name.startswith(DEFINED)
        if not (is_function or is_defined or isinstance(table.this, Source)) or table.db or table.catalog:
            raise QueryError(f"{_said(table)} can't be read", hint="ask the tables by their names")


def table_named(node: exp.Table, names: dict[str, str]) -> str | None:
    """The table of the lake that a reference means, if it can mean one."""
    if node.args.get("catalog") or (node.args.get("db") and fold(node.db) not in SCHEMAS):
        return None
    return names.get(fold(node.name)) if isinstance(node.this, exp.Identifier) else None


@dataclass
class _Marker:
    names: dict[str, str]
    number: int = 0
    defined: int = 0

    def visit(self, start: exp.Expr, start_scope: Scope) -> None:
        """Go through a tree with the names that are defined around it; no recursion, statements may be deep."""
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
        """Rename the queries of a WITH; return the names that it adds, and each query with the names that it sees."""
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
        """A recursive query sees itself on its right side only; its own parts outside both sides see neither."""
        if name in self.names:
            raise QueryError(f"a recursive WITH can't be called {name}, as a table is", hint="give it another name")
        body = definition.this
        if body.args.get("with_") or isinstance(body.this, exp.SetOperation):
            raise QueryError(f"can't tell what {name} means within itself", hint="write it as one UNION of two queries")
        rest = [child for child in body.iter_expressions() if child not in (body.this, body.expression)]
        return [(body.this, scope), (body.expression, {**scope, name: own}), *((child, scope) for child in rest)]

    def _next_name(self) -> str:
        self.defined += 1
        return f"{DEFINED}{self.defined - 1}"

    def _table(self, node: exp.Table, scope: Scope) -> None:
        extra = [key for key, value in node.args.items() if value and key not in TABLE_PARTS]
        if extra:
            raise QueryError(f"{_said(node)} can't be read that way", hint="ask the tables by their names")
        if isinstance(node.this, exp.Anonymous):
            _check_function(node.this.name)
            return
        if not node.args.get("db") and isinstance(node.this, exp.Identifier) and fold(node.name) in scope:
            _rename(node, scope[fold(node.name)], node.name)
            return
        name = table_named(node, self.names)
        if name is None:
            hint = tables_hint(node.name, self.names.values())
            raise QueryError(f"{_said(node)} is not a table of the lake", hint=hint)
        _rename(node, name, name)
        if self.number >= MAX_TABLES:
            raise QueryError(f"the statement reads more than {MAX_TABLES} tables", hint="ask in several statements")
        node.meta[SCAN] = self.number
        self.number += 1


def _rename(node: exp.Table, name: str, alias: str) -> None:
    """Let a reference read something else; what it was called stays the name that columns are qualified with."""
    node.set("this", exp.to_identifier(name, quoted=True))
    node.set("db", None)
    given = node.args.get("alias")
    if not given:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    elif not given.this:
        given.set("this", exp.to_identifier(alias, quoted=True))


def _check_function(name: str) -> None:
    if fold(name) not in TABLE_FUNCTIONS:
        raise QueryError(f"the function {name} can't be used in a query", hint="ask the tables by their names")


def _said(node: exp.Table) -> str:
    parts = [node.catalog, node.db, node.name]
    return repr(".".join(part for part in parts if part))
