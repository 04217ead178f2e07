"""Which query a name of a WITH stands for, and where the one use of a query is."""

from __future__ import annotations

from collections import defaultdict

from sqlglot import exp

SCAN = "scan"


class Definitions:
    """The queries that WITH clauses of a statement name, with all places that read each."""

    def __init__(self, tree: exp.Expr) -> None:
        self._meant: dict[int, exp.CTE] = {}
        self._uses: dict[int, list[exp.Table]] = defaultdict(list)
        for table in tree.find_all(exp.Table):
            definition = None if SCAN in table.meta else _definition(table)
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


def _definition(table: exp.Table) -> exp.CTE | None:
    """The innermost definition of a table's name that is seen from where it stands."""
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return None
    node: exp.Expr = table
    seen: exp.With | None = None
    while node.parent is not None:
        defined = node.parent if isinstance(node.parent, exp.With) else node.parent.args.get("with_")
        if isinstance(defined, exp.With) and defined is not seen:
            visible = _before(defined, node) if defined is node.parent else defined.expressions
            found = _named(table.name.lower(), visible)
            if found is not None:
                return found
            seen = defined
        node = node.parent
    return None


def _before(defined: exp.With, node: exp.Expr) -> list[exp.CTE]:
    """The definitions that a definition sees: those before it, and itself where it may be recursive."""
    place = next(place for place, other in enumerate(defined.expressions) if other is node)
    return list(defined.expressions[: place + 1 if defined.args.get("recursive") else place])


def _named(name: str, definitions: list[exp.CTE]) -> exp.CTE | None:
    return next((definition for definition in reversed(definitions) if definition.alias.lower() == name), None)
