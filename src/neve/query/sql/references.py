"""Which tables a statement reads: tables of the lake by their names, and what the statement itself defines.

Each reference to a table of the lake is marked with a number. Names of a WITH are not: within its reach such a name
hides the table that is called the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.model.tables import NAMESPACE
from neve.query.sql.suggestions import tables_hint

if TYPE_CHECKING:
    from collections.abc import Iterable

SCAN = "scan"
MAX_TABLES = 64  # of one statement: each is planned apart
SCHEMAS = {NAMESPACE, "main"}
TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins", "pivots", "sample", "laterals", "ordinality"})


def marked(tree: exp.Expr) -> dict[int, exp.Table]:
    """The references to tables of the lake, by their numbers."""
    found = {node.meta[SCAN]: node for node in tree.find_all(exp.Table) if SCAN in node.meta}
    return dict(sorted(found.items()))


def mark(tree: exp.Expr, tables: Iterable[str]) -> None:
    """Give every reference to a table of the lake its number; raise `QueryError` for any other."""
    marker = _Marker({name.lower(): name for name in tables})
    marker.visit(tree, frozenset())


def table_named(node: exp.Table, names: dict[str, str]) -> str | None:
    """The table of the lake that a reference means, if it can mean one."""
    if node.args.get("catalog") or (node.args.get("db") and node.db.lower() not in SCHEMAS):
        return None
    return names.get(node.name.lower()) if isinstance(node.this, exp.Identifier) else None


@dataclass
class _Marker:
    names: dict[str, str]
    number: int = 0

    def visit(self, start: exp.Expr, start_scope: frozenset[str]) -> None:
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

    def _definitions(
        self, defined: exp.With, scope: frozenset[str]
    ) -> tuple[frozenset[str], list[tuple[exp.Expr, frozenset[str]]]]:
        """What a WITH adds, and the queries in it, each with the names that it can see."""
        bodies: list[tuple[exp.Expr, frozenset[str]]] = []
        for definition in defined.expressions:
            name = definition.alias.lower()
            if defined.args.get("recursive") and isinstance(definition.this, exp.SetOperation):
                bodies += self._recursive(definition, name, scope)
            else:
                bodies.append((definition.this, scope))
            scope |= {name}
        return scope, bodies

    def _recursive(
        self, definition: exp.CTE, name: str, scope: frozenset[str]
    ) -> list[tuple[exp.Expr, frozenset[str]]]:
        """A recursive query sees itself on its right side only; its own parts outside both sides see neither."""
        if name in self.names:
            raise QueryError(f"a recursive WITH can't be called {name}, as a table is", hint="give it another name")
        body = definition.this
        if body.args.get("with_") or isinstance(body.this, exp.SetOperation):
            raise QueryError(f"can't tell what {name} means within itself", hint="write it as one UNION of two queries")
        rest = [child for child in body.iter_expressions() if child not in (body.this, body.expression)]
        return [(body.this, scope), (body.expression, scope | {name}), *((child, scope) for child in rest)]

    def _table(self, node: exp.Table, scope: frozenset[str]) -> None:
        extra = [key for key, value in node.args.items() if value and key not in TABLE_PARTS]
        if extra:
            raise QueryError(f"{_said(node)} can't be read that way", hint="ask the tables by their names")
        if isinstance(node.this, exp.Anonymous):
            _check_function(node.this.name)
            return
        if not node.args.get("db") and isinstance(node.this, exp.Identifier) and node.name.lower() in scope:
            return
        name = table_named(node, self.names)
        if name is None:
            hint = tables_hint(node.name, self.names.values())
            raise QueryError(f"{_said(node)} is not a table of the lake", hint=hint)
        node.set("this", exp.to_identifier(name, quoted=True))
        node.set("db", None)
        if not node.args.get("alias"):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        if self.number >= MAX_TABLES:
            raise QueryError(f"the statement reads more than {MAX_TABLES} tables", hint="ask in several statements")
        node.meta[SCAN] = self.number
        self.number += 1


def _check_function(name: str) -> None:
    if name.lower() not in TABLE_FUNCTIONS:
        raise QueryError(f"the function {name} can't be used in a query", hint="ask the tables by their names")


def _said(node: exp.Table) -> str:
    parts = [node.catalog, node.db, node.name]
    return repr(".".join(part for part in parts if part))
