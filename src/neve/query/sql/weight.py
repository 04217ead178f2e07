"""How large a statement is to an engine, which writes some of its parts more than once.

DuckDB's macros, BETWEEN, a CASE with an operand, lambdas and names of the same SELECT put copies of what they are given
into the statement; nested in each other these grow without bound, and what binds them can't be interrupted. So a
statement is weighed as it will be, not as it is written.
"""

from __future__ import annotations

from math import prod

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.dialect import MAX_PARTS
from neve.query.sql.function_kinds import name_of
from neve.query.sql.identifiers import fold

# How often a function has an argument in its place at most: DuckDB's macros, and what Neve writes for a call itself.
REPEATS = {
    **dict.fromkeys(("array_pop_back", "array_to_string", "fmod", "nullif", "split_part", "weighted_avg"), 2),
    **dict.fromkeys(("json_group_array", "json_group_object", "json_group_structure"), 2),
    "round_even": 4,
    **dict.fromkeys(("has_term", "has_phrase"), 2),
    **dict.fromkeys(("damerau_levenshtein", "editdist3", "levenshtein", "regexp_replace", "replace"), 2),
    **dict.fromkeys(("lpad", "rpad"), 2),
    **dict.fromkeys(("array_resize", "generate_series", "list_resize", "range", "repeat"), 4),
}


def check_weight(tree: exp.Expr) -> None:
    """Raise `QueryError` for a statement that has too many parts once all copies are made."""
    sizes: dict[int, int] = {}
    names: dict[int, dict[str, int]] = {}  # of each SELECT, what its names stand for
    todo: list[tuple[exp.Expr, exp.Expr | None, bool]] = [(tree, None, False)]
    while todo:
        node, select, is_done = todo.pop()
        if not is_done:
            inner = node if isinstance(node, exp.Select) else select
            todo.append((node, select, True))
            todo += [(child, inner, False) for child in reversed(list(node.iter_expressions()))]
            continue
        known = names.setdefault(id(select), {}) if select is not None else {}
        size = _size(node, sizes, known)
        if size > MAX_PARTS:
            raise _too_large(node)
        sizes[id(node)] = size
        if isinstance(node, exp.Alias) and node.parent is select:
            known[fold(node.alias)] = max(size, known.get(fold(node.alias), 0))  # names may be given twice


def _size(node: exp.Expr, sizes: dict[int, int], names: dict[str, int]) -> int:
    if isinstance(node, exp.Column) and not node.table:
        return 1 + names.get(fold(node.name), 0)
    return 1 + sum(sizes[id(child)] * _copies(node, child) for child in node.iter_expressions())


def _copies(node: exp.Expr, child: exp.Expr) -> int:
    """How often a part of a node is written."""
    if isinstance(node, exp.Case) and child is node.this:
        return len(node.args["ifs"])
    if isinstance(node, exp.Group):
        return _grouping_sets(node)
    return 2 if isinstance(node, exp.Between | exp.Lambda) else REPEATS.get(name_of(node), 1)


def _grouping_sets(node: exp.Group) -> int:
    """As many ways to group as there are, each of which is a plan of its own."""
    return prod(_ways(part) for part in node.iter_expressions())


def _ways(part: exp.Expr) -> int:
    count = len(part.expressions)
    if isinstance(part, exp.Cube):
        return int(2**count)
    if isinstance(part, exp.GroupingSets):
        return sum(_ways(inner) for inner in part.expressions) or 1
    return count + 1 if isinstance(part, exp.Rollup) else 1


def _too_large(node: exp.Expr) -> QueryError:
    repeating = next((name for part in node.walk() if (name := _repeating(part))), "")
    why = f", with the copies that {repeating} makes of what it is given" if repeating else ""
    return QueryError(
        f"the statement has more than {MAX_PARTS:,} parts{why}",
        hint="ask for less in one statement, or nest it less: name its parts with WITH",
    )


def _repeating(node: exp.Expr) -> str:
    """The name of a part that is written with copies."""
    if isinstance(node, exp.Group) and _grouping_sets(node) > 1:
        return "GROUP BY CUBE"
    if isinstance(node, exp.Between | exp.Lambda) or (isinstance(node, exp.Case) and node.this):
        return type(node).__name__.upper()
    name = name_of(node)
    return name if name in REPEATS else ""
