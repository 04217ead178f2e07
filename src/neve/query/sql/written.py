"""What DuckDB runs: a text in which every table has a name of Neve's, and what each of these names stands for.

The text is checked twice, by two parsers. `query/sql/references.py` walks the tree that the text is written from. Here
DuckDB's own parser reads the text, and every table and function that it finds has to be a known one: where the two
parsers disagree about a text, it is refused. Sources are put into their places after that; they are Neve's alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from neve.errors import QueryError
from neve.query.sql.functions import KNOWN, TABLE_FUNCTIONS, names
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import duckdb

DEFINED = "neve_with_"  # the queries of WITH are called so, with a number
OPERATORS = names("! & && * ** + - -> ->> / // < << <= <> <@ = > >= >> @> ^ ^@ | || ~ ~~ !~~ ~~* !~~* ~~~ @ % <->")
OWN_CALLS = names("error")  # what `query/sql/sizes.py` writes into a statement
# What the parser itself writes for a clause, where that is no function that a user may call.
PARSED = names("unpivot_list")
FUNCTIONS = KNOWN | OPERATORS | OWN_CALLS | PARSED
SCHEMAS, CATALOGS = ("", "main", "pg_catalog"), ("", "system")  # of functions; the parser names those of some clauses
READS = names("BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT SUBQUERY TABLE_FUNCTION")
PLACES_OF_READS = names("from_table source")
SERIALIZE = "SELECT json_serialize_sql(?::VARCHAR, skip_null := true, skip_empty := true, skip_default := true)"


@dataclass(frozen=True)
class Written:
    """A statement for DuckDB; `files` are all that it may open."""

    text: str
    sources: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def sql(self) -> str:
        """The text with every source in its place."""
        whole = self.text
        for name, source in self.sources.items():
            whole = whole.replace(f'"{name}"', source)
        return whole


def source_names(numbers: Iterable[int]) -> dict[int, str]:
    """Names that no statement can hold by chance or on purpose, since they are drawn anew for each."""
    drawn = token_hex(8)
    return {number: f"neve_source_{drawn}_{number}" for number in numbers}


def check_written(parser: duckdb.DuckDBPyConnection, written: Written) -> None:
    """Raise `QueryError` unless DuckDB's own parser finds nothing but known tables and functions in the text."""
    [found] = parser.execute(SERIALIZE, [written.text]).fetchall()
    tree = json.loads(found[0])
    if tree.get("error"):
        raise QueryError(f"can't read the statement: {tree.get('error_message', 'no reason given')}")
    if len(tree.get("statements", ())) != 1:
        raise QueryError("got several statements, expected one")
    for node in _nodes(tree):
        _check_node(node, written.sources)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            yield node
            todo += node.values()
        elif isinstance(node, list):
            todo += node


def _check_node(node: dict[str, Any], sources: Mapping[str, str]) -> None:
    for place in PLACES_OF_READS & node.keys():
        read = node[place]
        if isinstance(read, dict) and "class" not in read and read.get("type") not in READS:
            raise _refusal(f"it reads from {read.get('type')}")
    kind = node.get("type")
    if kind == "BASE_TABLE":
        name = str(node.get("table_name", ""))
        is_known = name in sources or (name.startswith(DEFINED) and name.removeprefix(DEFINED).isdecimal())
        if not is_known or node.get("schema_name") or node.get("catalog_name"):
            raise _refusal(f"it reads the table {name!r}")
    elif kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", ""))
        if fold(name) not in TABLE_FUNCTIONS:
            raise _refusal(f"it reads from the function {name!r}")
    elif node.get("class") in {"FUNCTION", "WINDOW"} and "function_name" in node:
        name = str(node["function_name"])
        is_elsewhere = node.get("schema", "") not in SCHEMAS or node.get("catalog", "") not in CATALOGS
        if fold(name) not in FUNCTIONS or is_elsewhere:
            raise _refusal(f"it calls the function {name!r}")
    elif kind == "SHOW_REF":
        raise _refusal("it describes a table")


def _refusal(why: str) -> QueryError:
    return QueryError(f"the statement can't be run: {why}", hint="ask the tables by their names")
