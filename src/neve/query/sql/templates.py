"""Parsed statements of programs, by their text.

A program sends a few texts with other parameters each time. Its text is parsed and checked once. Parameters are bound
to a copy and checked each time, as those of other statements are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.query.sql.statement import bind_template, find_lake_tables, parse_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from sqlglot import exp

    from neve.query.sql.parameters import Parameters
    from neve.query.sql.statement import Statement

__all__ = ["StatementTemplates"]

MOST_TEMPLATES = 128
MOST_CHARACTERS = 20_000  # of a text that is kept


@dataclass(frozen=True, slots=True)
class _Template:
    """A tree with placeholders, and the tables that it was checked against."""

    tree: exp.Expression
    schemas: Mapping[str, pa.Schema]

    def fits(self, tables: Mapping[str, pa.Schema]) -> bool:
        """Return whether its tables have the same columns as before."""
        return all(name in tables and tables[name].equals(schema) for name, schema in self.schemas.items())


class StatementTemplates:
    """The templates that were used last. A change of a table's columns parses a text anew."""

    def __init__(self, most: int = MOST_TEMPLATES) -> None:
        self._most = most
        self._templates: OrderedDict[str, _Template] = OrderedDict()
        self._lock = threading.Lock()

    def parse(self, sql: str, tables: Mapping[str, pa.Schema], parameters: Parameters = ()) -> Statement:
        """Parse a query, or bind parameters to a copy of it if the text is known. Raises `QueryError` as `parse`."""
        with self._lock:
            found = self._templates.get(sql)
        if found is None or not found.fits(tables):
            tree = parse_template(sql, tables)
            names = {table.name for table in find_lake_tables(tree).values()}
            found = _Template(tree, {name: tables[name] for name in names})
            self._keep(sql, found)
        return bind_template(found.tree, tables, parameters)

    def _keep(self, sql: str, template: _Template) -> None:
        if len(sql) > MOST_CHARACTERS:
            return
        with self._lock:
            self._templates[sql] = template
            self._templates.move_to_end(sql)
            if len(self._templates) > self._most:
                self._templates.popitem(last=False)
