"""Limits for the expanded size of a statement in the engine, and for the size of the values that it creates.

DuckDB's macros, BETWEEN, a CASE with an operand, lambdas and names of the same SELECT put copies of their arguments
into the statement. Nested, these grow without bound, and binding them can't be interrupted. So the expanded statement
is measured, not its text.

DuckDB does not count the memory of a single value, and can't be interrupted while it creates one. Sizes that are known
when a statement is parsed are checked then. Others are checked where they are used. That check is part of the argument,
since DuckDB computes calls with constant arguments before it knows whether they are needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.predicate.names import fold
from neve.query.sql.dialect import MAX_PARTS, call, integer, text, when
from neve.query.sql.identifiers import split_names
from neve.query.sql.type_inference import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator


# DuckDB's macros, BETWEEN, a CASE with an operand, lambdas and names of the same SELECT put copies of their arguments
# into the statement. Nested, these grow without bound, and binding them can't be interrupted. So the expanded statement
# is measured, not its text.

# Maximum copies of an argument in the expansion of a function: of DuckDB's macros, and of Neve's own rewrites.
REPEATS = {
    **dict.fromkeys(("array_pop_back", "array_to_string", "fmod", "nullif", "split_part", "weighted_avg"), 2),
    **dict.fromkeys(("json_group_array", "json_group_object", "json_group_structure"), 2),
    "round_even": 4,
    **dict.fromkeys(("has_term", "has_phrase"), 2),
    **dict.fromkeys(("damerau_levenshtein", "editdist3", "levenshtein", "regexp_replace", "replace"), 2),
    **dict.fromkeys(("lpad", "rpad"), 2),
    **dict.fromkeys(("array_resize", "generate_series", "list_resize", "range", "repeat"), 4),
}


def check_expanded_size(tree: exp.Expr) -> None:
    """Raise `QueryError` for a statement that has too many nodes after expansion."""
    sizes: dict[int, int] = {}
    names: dict[int, dict[str, int]] = {}  # by SELECT: the expanded size of each of its names
    todo: list[tuple[exp.Expr, exp.Expr | None, bool]] = [(tree, None, False)]
    while todo:
        node, select, is_done = todo.pop()
        if not is_done:
            inner = node if isinstance(node, exp.Select) else select
            todo.append((node, select, True))
            todo += [(child, inner, False) for child in reversed(list(node.iter_expressions()))]
            continue
        known = names.setdefault(id(select), {}) if select is not None else {}
        size = _expanded_size(node, sizes, known)
        if size > MAX_PARTS:
            raise _too_large(node)
        sizes[id(node)] = size
        if isinstance(node, exp.Alias) and node.parent is select:
            known[fold(node.alias)] = max(size, known.get(fold(node.alias), 0))  # names may be given twice


def _expanded_size(node: exp.Expr, sizes: dict[int, int], names: dict[str, int]) -> int:
    if isinstance(node, exp.Column) and not node.table:
        return 1 + names.get(fold(node.name), 0)
    return 1 + sum(sizes[id(child)] * _copies(node, child) for child in node.iter_expressions())


def _copies(node: exp.Expr, child: exp.Expr) -> int:
    """Return the number of copies of a child of a node."""
    if isinstance(node, exp.Case) and child is node.this:
        return len(node.args["ifs"])
    if isinstance(node, exp.Group):
        return _grouping_sets(node)
    return 2 if isinstance(node, exp.Between | exp.Lambda) else REPEATS.get(name_of(node), 1)


def _grouping_sets(node: exp.Group) -> int:
    """Return the number of grouping sets, each of which has a separate plan."""
    return prod(_ways(part) for part in node.iter_expressions())


def _ways(part: exp.Expr) -> int:
    count = len(part.expressions)
    if isinstance(part, exp.Cube):
        return int(2**count)
    if isinstance(part, exp.GroupingSets):
        return sum(_ways(inner) for inner in part.expressions) or 1
    return count + 1 if isinstance(part, exp.Rollup) else 1


def _too_large(node: exp.Expr) -> QueryError:
    repeating = next((name for part in node.walk() if (name := _repeating_part(part))), "")
    why = f", with the copies that {repeating} makes of what it is given" if repeating else ""
    return QueryError(
        f"the statement has more than {MAX_PARTS:,} parts{why}",
        hint="split it into several statements, or name its parts with WITH",
    )


def _repeating_part(node: exp.Expr) -> str:
    """Return the name of a node that copies its arguments."""
    if isinstance(node, exp.Group) and _grouping_sets(node) > 1:
        return "GROUP BY CUBE"
    if isinstance(node, exp.Between | exp.Lambda) or (isinstance(node, exp.Case) and node.this):
        return type(node).__name__.upper()
    name = name_of(node)
    return name if name in REPEATS else ""


# DuckDB does not count the memory of a single value, and can't be interrupted while it creates one. Sizes that are
# known when a statement is parsed are checked then. Others are checked where they are used. The check is part of the
# argument, since DuckDB computes calls with constant arguments before it knows whether they are needed.

LARGEST = 100_000  # characters of a text or elements of a list from one call; a batch has 2,048 such rows
LONGEST = 1_000  # characters of a text that is compared with all of another, or inserted in many places

LONG_TEXTS = {
    **dict.fromkeys(("damerau_levenshtein", "editdist3", "levenshtein"), (0, 1)),
    **dict.fromkeys(("regexp_replace", "replace"), (2,)),
}
# Separators must be constant in DuckDB, so that no check can be inserted there.
SEPARATORS = {
    **dict.fromkeys(("array_to_string", "group_concat", "listagg", "string_agg"), 1),
    **dict.fromkeys(("array_aggr", "array_aggregate", "list_aggr", "list_aggregate"), 2),
}
# The second argument is a size, and the argument at this position is repeated as often.
SIZES = {"array_resize": 2, "list_resize": 2, "lpad": None, "repeat": 0, "rpad": None}
SERIES = {"generate_series", "range"}
PATTERNS = {"format", "printf"}
GUARDED = {*LONG_TEXTS, *SIZES, *SERIES, *PATTERNS, *SEPARATORS}
STRUCTURES = split_names(
    "from_json from_json_strict json_transform json_transform_strict"
)  # the second argument is a type
PATHS = split_names(
    """json_array_length json_exists json_extract json_extract_path json_extract_path_text json_extract_string json_keys
    json_type json_value"""
)
DEEPEST = 64  # levels of a type as JSON; DuckDB binds them in cubic time, or crashes
WILDCARDS = {"..": 1, "*": 3}  # in a JSON path: each multiplies the work of those before
MOST_WILDCARDS = 100  # % and _ in a LIKE pattern: DuckDB tries them in nested loops
RANDOM_FUNCTIONS = split_names(
    "gen_random_uuid random uuid uuidv4 uuidv7"
)  # its value at execution differs from the checked one
DIGITS = re.compile(r"\d+")
WIDTH_ELSEWHERE = re.compile(r"\{[^{}]*\{|%[^%a-zA-Z]*\*")  # {:{}} and %*d take their width from an argument


@dataclass(frozen=True)
class _Check:
    """An argument with a bound: the counted unit, and the maximum."""

    name: str
    place: int
    counted: exp.Expr
    bound: int
    of: str

    @property
    def words(self) -> str:
        """Return the message for a larger value."""
        return f"{self.name} may make or take {self.of} at most {self.bound:,} long"


def check_sizes(tree: exp.Expr) -> None:
    """Raise `QueryError` for the first call that is known to be too large."""
    for node in _find_guarded_calls(tree):
        name = fold(node.name)
        if name in PATTERNS:
            _check_pattern(node, name)
        elif name in SEPARATORS:
            _check_separator(node, name)
        elif chance := next(
            (part for part in node.find_all(exp.Anonymous) if fold(part.name) in RANDOM_FUNCTIONS), None
        ):
            raise QueryError(f"{name} can't be given what {fold(chance.name)} makes: its size has a bound")
        for check in _find_checks(node, name):
            if (number := _literal_number(check.counted)) is not None and number > check.bound:
                raise QueryError(check.words, hint=_hint(name))
    _check_texts(tree)


def _check_texts(tree: exp.Expr) -> None:
    """Check texts that are types, paths or patterns: a short text can cause endless work or a crash in DuckDB."""
    for node in tree.find_all(exp.Anonymous):
        name = fold(node.name)
        if name in STRUCTURES:
            _check_structure(node, name)
        elif name in PATHS:
            _check_paths(node, name)
    for pattern in tree.find_all(exp.Like, exp.ILike):
        _check_like(pattern)


def add_runtime_checks(tree: exp.Expr) -> exp.Expr:
    """Add checks of sizes that are known only at execution. Inner calls are checked before outer ones."""
    for node in reversed(list(_find_guarded_calls(tree))):
        name = fold(node.name)
        for check in list(_find_checks(node, name)):
            if _literal_number(check.counted) is None:
                _guard(node, check.place, exp.GT(this=check.counted, expression=integer(check.bound)), check.words)
        if name in SERIES and not all(_literal_number(item) is not None for item in node.expressions):
            _guard_series(node, name)
    return tree


def _find_guarded_calls(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield calls that create a value. In FROM, a series is rows and uses no memory."""
    for node in tree.find_all(exp.Anonymous):
        if fold(node.name) in GUARDED and not isinstance(node.parent, exp.Table):
            yield node


def _find_checks(node: exp.Expr, name: str) -> Iterator[_Check]:
    given = node.expressions
    for place in LONG_TEXTS.get(name, ()):
        if place < len(given):
            yield _Check(name, place, _text_length(given[place]), LONGEST, "a text")
    if name in SIZES and len(given) > 1:
        repeated = SIZES[name]
        size = exp.paren(given[1].copy())
        yield _Check(name, 1, size, LARGEST, "a value")
        if repeated is not None and repeated < len(given):
            whole = exp.Mul(this=_text_length(given[repeated]), expression=size.copy())
            yield _Check(name, 1, whole, LARGEST, "a value")
    if name in SERIES and (count := _series_length(given)) is not None:
        yield _Check(name, 0, integer(count), LARGEST, "a list")


def _text_length(node: exp.Expr) -> exp.Expr:
    """Return the number of characters of a value of any type as a text."""
    return integer(len(node.name)) if node.is_string else call("len", exp.cast(node.copy(), exp.DType.TEXT))


def _literal_number(node: exp.Expr) -> int | None:
    """Return an integer that is written as a literal, or as a product of two."""
    if isinstance(node, exp.Paren | exp.Neg):
        inner = _literal_number(node.this)
        return -inner if inner is not None and isinstance(node, exp.Neg) else inner
    if isinstance(node, exp.Mul):
        left, right = _literal_number(node.this), _literal_number(node.expression)
        return left * right if left is not None and right is not None else None
    return int(node.name) if isinstance(node, exp.Literal) and node.name.isdecimal() and not node.is_string else None


def _series_length(given: list[exp.Expr]) -> int | None:
    """Return the number of values of a series if all of its arguments are literals."""
    numbers = [number for item in given if (number := _literal_number(item)) is not None]
    if len(numbers) != len(given) or not 1 <= len(numbers) <= 3:
        return None
    start, stop = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else 1
    return max(0, (stop - start) // step) if step else 0


def _guard_series(node: exp.Expr, name: str) -> None:
    """Check the length of a series.

    It is too long if its step, taken the maximum number of times, is still between its ends. This holds for times and
    intervals too.
    """
    given = node.expressions
    if not 1 <= len(given) <= 3:
        return
    start, stop = (integer(0), given[0]) if len(given) == 1 else (given[0], given[1])
    step = given[2] if len(given) == 3 else integer(1)
    far = exp.Add(
        this=exp.paren(start.copy()), expression=exp.Mul(this=exp.paren(step.copy()), expression=integer(LARGEST))
    )
    low, high = (call(of, start.copy(), stop.copy()) for of in ("least", "greatest"))
    words = f"{name} may make a list at most {LARGEST:,} long"
    _guard(node, 0 if len(given) == 1 else 1, exp.Between(this=exp.paren(far), low=low, high=high), words)


def _guard(node: exp.Expr, place: int, condition: exp.Expr, words: str) -> None:
    given = list(node.expressions)
    given[place] = when(condition, call("error", text(words)), given[place].copy())
    node.set("expressions", given)


def _check_pattern(node: exp.Expr, name: str) -> None:
    pattern = node.expressions[0] if node.expressions else None
    if pattern is None or not pattern.is_string:
        raise QueryError(f"{name} takes its pattern as a literal", hint=f"{name}('…', value)")
    if WIDTH_ELSEWHERE.search(pattern.name):
        raise QueryError(f"{name} takes widths within its pattern only", hint="write the width as a number")
    if any(int(digits[:12]) > LARGEST for digits in DIGITS.findall(pattern.name)):
        raise QueryError(f"{name} may make a value at most {LARGEST:,} long")


def _check_structure(node: exp.Expr, name: str) -> None:
    structure = node.expressions[1] if len(node.expressions) > 1 else None
    if structure is None or not structure.is_string:
        raise QueryError(f"{name} takes the type as a literal", hint=f'{name}(value, \'{{"a": "INT"}}\')')
    depth = deepest = 0
    for letter in structure.name:
        depth += (letter in "[{") - (letter in "]}")
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise QueryError(f"{name} takes a type of at most {DEEPEST} levels, got {deepest:,}")


def _check_paths(node: exp.Expr, name: str) -> None:
    for literal in node.find_all(exp.Literal):
        for sign, most in WILDCARDS.items():
            if literal.is_string and literal.name.startswith("$") and literal.name.count(sign) > most:
                raise QueryError(f"{name} takes a path with at most {most} {sign!r}, got {literal.name.count(sign):,}")


def _check_like(node: exp.Expr) -> None:
    pattern = node.args["expression"]
    count = sum(pattern.name.count(sign) for sign in "%_") if pattern.is_string else 0
    if count > MOST_WILDCARDS:
        raise QueryError(
            f"a pattern of LIKE may have {MOST_WILDCARDS} wildcards, got {count:,}", hint="use regexp_matches"
        )


def _check_separator(node: exp.Expr, name: str) -> None:
    separator = node.expressions[SEPARATORS[name]] if len(node.expressions) > SEPARATORS[name] else None
    if separator is None:
        return
    if len(separator.name) > LONGEST if separator.is_string else any(_find_guarded_calls(separator)):
        raise QueryError(f"{name} takes a separator of at most {LONGEST:,} characters", hint="write it as a literal")


def _hint(name: str) -> str:
    return f"read the rows of {name}(…) in FROM instead" if name in SERIES else "cut what it is given with left(…)"
