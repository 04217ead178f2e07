"""Bounds for functions that make much of little, or that take a square of the length of what they are given.

DuckDB does not count the memory of a single value, and can't be interrupted while it makes one. What is known when a
statement is read is refused there; what is not is checked where it is used. The check stands within the argument, since
DuckDB computes calls with constant arguments before it knows whether they are needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.build import call, integer, text, when
from neve.query.sql.functions import names
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST = 100_000  # characters of a text or elements of a list that one call makes; a batch has 2,048 such rows
LONGEST = 1_000  # characters of a text that is compared with all of another, or put in many places

LONG_TEXTS = {
    **dict.fromkeys(("damerau_levenshtein", "editdist3", "levenshtein"), (0, 1)),
    **dict.fromkeys(("regexp_replace", "replace"), (2,)),
}
# Separators have to be constant to DuckDB, so that no check can be written there.
SEPARATORS = {
    **dict.fromkeys(("array_to_string", "group_concat", "listagg", "string_agg"), 1),
    **dict.fromkeys(("array_aggr", "array_aggregate", "list_aggr", "list_aggregate"), 2),
}
# The second argument is a size, and the one at this place is there as often.
SIZES = {"array_resize": 2, "list_resize": 2, "lpad": None, "repeat": 0, "rpad": None}
SERIES = {"generate_series", "range"}
PATTERNS = {"format", "printf"}
GUARDED = {*LONG_TEXTS, *SIZES, *SERIES, *PATTERNS, *SEPARATORS}
STRUCTURES = names("from_json from_json_strict json_transform json_transform_strict")  # the second argument is a type
PATHS = names(
    """json_array_length json_exists json_extract json_extract_path json_extract_path_text json_extract_string json_keys
    json_type json_value"""
)
DEEPEST = 64  # levels of a type that is written as JSON; DuckDB binds them in the cube of their number, or crashes
WILDCARDS = {"..": 1, "*": 3}  # in a path of JSON: each multiplies the work of those before
MOST_WILDCARDS = 100  # % and _ in a pattern of LIKE: DuckDB tries them one within the other
CHANCE = names("gen_random_uuid random uuid uuidv4 uuidv7")  # another value when it is used than when it is checked
DIGITS = re.compile(r"\d+")
WIDTH_ELSEWHERE = re.compile(r"\{[^{}]*\{|%[^%a-zA-Z]*\*")  # {:{}} and %*d take their width from an argument


@dataclass(frozen=True)
class _Check:
    """An argument that has a bound: what is counted of it, and how large that may be."""

    name: str
    place: int
    counted: exp.Expr
    bound: int
    of: str

    @property
    def words(self) -> str:
        """What is said when it is larger."""
        return f"{self.name} may make or take {self.of} at most {self.bound:,} long"


def check_sizes(tree: exp.Expr) -> None:
    """Raise `QueryError` for the first call that is known to be too large."""
    for node in _guarded(tree):
        name = fold(node.name)
        if name in PATTERNS:
            _check_pattern(node, name)
        elif name in SEPARATORS:
            _check_separator(node, name)
        elif chance := next((part for part in node.find_all(exp.Anonymous) if fold(part.name) in CHANCE), None):
            raise QueryError(f"{name} can't be given what {fold(chance.name)} makes: its size has a bound")
        for check in _checks(node, name):
            if (number := _known(check.counted)) is not None and number > check.bound:
                raise QueryError(check.words, hint=_hint(name))
    _check_texts(tree)


def _check_texts(tree: exp.Expr) -> None:
    """Texts that are types, paths or patterns: short to write, and endless work or a crash in DuckDB."""
    for node in tree.find_all(exp.Anonymous):
        name = fold(node.name)
        if name in STRUCTURES:
            _check_structure(node, name)
        elif name in PATHS:
            _check_paths(node, name)
    for pattern in tree.find_all(exp.Like, exp.ILike):
        _check_like(pattern)


def with_checks(tree: exp.Expr) -> exp.Expr:
    """The tree for DuckDB with checks of what is known only when it runs; inner calls are checked before outer ones."""
    for node in reversed(list(_guarded(tree))):
        name = fold(node.name)
        for check in list(_checks(node, name)):
            if _known(check.counted) is None:
                _guard(node, check.place, exp.GT(this=check.counted, expression=integer(check.bound)), check.words)
        if name in SERIES and not all(_known(item) is not None for item in node.expressions):
            _guard_series(node, name)
    return tree


def _guarded(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Calls that make a value; in FROM, a series is rows and takes no memory."""
    for node in tree.find_all(exp.Anonymous):
        if fold(node.name) in GUARDED and not isinstance(node.parent, exp.Table):
            yield node


def _checks(node: exp.Expr, name: str) -> Iterator[_Check]:
    given = node.expressions
    for place in LONG_TEXTS.get(name, ()):
        if place < len(given):
            yield _Check(name, place, _length(given[place]), LONGEST, "a text")
    if name in SIZES and len(given) > 1:
        repeated = SIZES[name]
        size = exp.paren(given[1].copy())
        yield _Check(name, 1, size, LARGEST, "a value")
        if repeated is not None and repeated < len(given):
            whole = exp.Mul(this=_length(given[repeated]), expression=size.copy())
            yield _Check(name, 1, whole, LARGEST, "a value")
    if name in SERIES and (count := _count(given)) is not None:
        yield _Check(name, 0, integer(count), LARGEST, "a list")


def _length(node: exp.Expr) -> exp.Expr:
    """Characters of a value as a text, of whatever type it is."""
    return integer(len(node.name)) if node.is_string else call("len", exp.cast(node.copy(), exp.DType.TEXT))


def _known(node: exp.Expr) -> int | None:
    """A whole number that is written as one, or as a product of two."""
    if isinstance(node, exp.Paren | exp.Neg):
        inner = _known(node.this)
        return -inner if inner is not None and isinstance(node, exp.Neg) else inner
    if isinstance(node, exp.Mul):
        left, right = _known(node.this), _known(node.expression)
        return left * right if left is not None and right is not None else None
    return int(node.name) if isinstance(node, exp.Literal) and node.name.isdecimal() and not node.is_string else None


def _count(given: list[exp.Expr]) -> int | None:
    """How many numbers a series has, where all that it is given is written out."""
    numbers = [number for item in given if (number := _known(item)) is not None]
    if len(numbers) != len(given) or not 1 <= len(numbers) <= 3:
        return None
    start, stop = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else 1
    return max(0, (stop - start) // step) if step else 0


def _guard_series(node: exp.Expr, name: str) -> None:
    """A series is too long when its step, so many times, is still between its ends; also for times and intervals."""
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
    if len(separator.name) > LONGEST if separator.is_string else any(_guarded(separator)):
        raise QueryError(f"{name} takes a separator of at most {LONGEST:,} characters", hint="write it as a literal")


def _hint(name: str) -> str:
    return f"read the rows of {name}(…) in FROM instead" if name in SERIES else "cut what it is given with left(…)"
