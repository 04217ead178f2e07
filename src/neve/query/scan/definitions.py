"""The queries of WITH, by the names that `query/sql/references.py` gave them, and where each is read."""

from __future__ import annotations

from collections import defaultdict

from sqlglot import exp

SCAN = "scan"


class Definitions:
    """The queries that WITH clauses of a statement name, with all places that read each."""

    def __init__(self, tree: exp.Expr) -> None:
        self._meant: dict[int, exp.CTE] = {}
        self._uses: dict[int, list[exp.Table]] = defaultdict(list)
        named = {definition.alias: definition for definition in tree.find_all(exp.CTE)}
        for table in tree.find_all(exp.Table):
            definition = None if SCAN in table.meta else named.get(table.name)
            if definition is not None:
                self._meant[id(table)] = definition
                self._uses[id(definition)].append(table)

    def body(self, table: exp.Table) -> exp.Expr | None:
        """The query that a table in FROM stands for, if it is a name of a WITH and keeps the query's columns."""
        definition = self._meant.get(id(table))
        return None if definition is None or _renames(definition) else definition.this

    def only_use(self, definition: exp.CTE) -> exp.Table | None:
        """The one place that reads a query; `None` where there are several, or where it reads itself."""
        uses = self._uses[id(definition)]
        if len(uses) != 1 or _renames(definition) or _is_within(uses[0], definition):
            return None
        return uses[0]


def _renames(definition: exp.CTE) -> bool:
    return bool(definition.args["alias"].columns)


def _is_within(node: exp.Expr, other: exp.Expr) -> bool:
    while node.parent is not None and node is not other:
        node = node.parent
    return node is other
