"""Functions of labels: replace, join, sort by them, and report absence by those of a selector."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.lexical.matchers import Matcher, MatchKind, RegexError, Template, TextTooLong, validate_regex
from neve.promql.functions.scalars import warn_ineffective_sort
from neve.promql.labels import Labels, get, is_valid_name, make_labels, set_label
from neve.promql.language.syntax import METRIC_NAME, Call, Node, RangeSelector, VectorSelector, strip_parens
from neve.promql.matrix import Matrix, Value, empty_matrix, merge_rows
from neve.promql.selectors import select_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from neve.promql.evaluator import Evaluator
    from neve.promql.series import Bools

__all__ = ["FUNCTIONS"]

MAX_VALUE_CHARS = 1 << 16  # of a label's value: functions of functions multiply its length
_CHUNK = re.compile(r"\d+|\D+")


def _is_encodable(text: str) -> bool:
    return text == "" or is_valid_name(text)


def _label_replace(evaluator: Evaluator, call: Call) -> Matrix:
    target, replacement, source, pattern = (evaluator.text(one) for one in call.arguments[1:])
    try:
        if not _is_encodable(pattern):
            raise RegexError(pattern)
        validate_regex(pattern)
    except RegexError:
        raise EvaluationFailed(f"invalid regular expression in label_replace(): {pattern}") from None
    if not is_valid_name(target):
        raise EvaluationFailed(f"invalid destination label name in label_replace(): {target}")
    if not _is_encodable(replacement):
        raise EvaluationFailed("invalid replacement in label_replace(): it is not UTF-8")
    matrix = evaluator.vector(call.arguments[0])
    texts = [get(labels, source) for labels in matrix.labels]
    try:
        return _relabel(evaluator, matrix, target, Template(pattern, replacement).expand_all(texts, MAX_VALUE_CHARS))
    except TextTooLong:
        raise _too_long(call) from None


def _label_join(evaluator: Evaluator, call: Call) -> Matrix:
    target, separator, *sources = (evaluator.text(one) for one in call.arguments[1:])
    for source in sources:
        if not is_valid_name(source):
            raise EvaluationFailed(f"invalid source label name in label_join(): {source}")
    if not is_valid_name(target):
        raise EvaluationFailed(f"invalid destination label name in label_join(): {target}")
    matrix = evaluator.vector(call.arguments[0])

    def join(labels: Labels) -> str:
        known = dict(labels)
        texts = [known.get(name, "") for name in sources]
        if sum(map(len, texts)) + len(separator) * len(texts) > MAX_VALUE_CHARS:
            raise _too_long(call)
        return separator.join(texts)

    return _relabel(evaluator, matrix, target, map(join, matrix.labels))


def _too_long(call: Call) -> EvaluationFailed:
    return EvaluationFailed(f"a label value in {call.function}() would have more than {MAX_VALUE_CHARS:,} characters")


def _relabel(evaluator: Evaluator, matrix: Matrix, target: str, values: Iterable[str | None]) -> Matrix:
    """Return the matrix with other values of a label. `None` leaves it as it is. A new metric name stays."""
    labels, changed = list(matrix.labels), np.zeros(len(matrix), np.bool_)
    for row, value in enumerate(values):
        evaluator.budget.visit()
        if value is not None:
            evaluator.budget.charge_labels(len(value))
            labels[row], changed[row] = set_label(labels[row], target, value), True
    dropped = matrix.name_dropped & ~changed if target == METRIC_NAME else matrix.name_dropped
    return merge_rows(replace(matrix, labels=labels, name_dropped=dropped))


def _natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts `a2` before `a10`."""
    chunks = _CHUNK.findall(text)
    return tuple((0, int(one), one) if one.isdigit() and one.isascii() else (1, 0, one) for one in chunks)


def _sort_by_label(evaluator: Evaluator, call: Call) -> Matrix:
    matrix = evaluator.vector(call.arguments[0])
    names = [evaluator.text(one) for one in call.arguments[1:]]
    warn_ineffective_sort(evaluator, call)

    def key(row: int) -> tuple[object, ...]:
        labels = matrix.labels[row]
        return (*(_natural_key(get(labels, name)) for name in names), labels)

    order = sorted(
        range(len(matrix)), key=functools.lru_cache(None)(key), reverse=call.function == "sort_by_label_desc"
    )
    return matrix.rows(np.array(order, np.int64))


def _absent_labels(node: Node) -> Labels:
    """Return the labels that a selector fixes by equality, each by one matcher."""
    inside = strip_parens(node)
    if isinstance(inside, RangeSelector):
        inside = inside.selector
    if not isinstance(inside, VectorSelector):
        return ()
    found: dict[str, str] = {}
    seen: set[str] = set()
    for matcher in inside.all_matchers:
        if matcher.name == METRIC_NAME:
            continue
        found[matcher.name] = matcher.value if _is_first_equality(matcher, seen) else ""
        seen |= {matcher.name} if matcher.kind is MatchKind.EQUAL else set()
    return make_labels(found)


def _is_first_equality(matcher: Matcher, seen: set[str]) -> bool:
    return matcher.kind is MatchKind.EQUAL and matcher.name not in seen


def _absence(evaluator: Evaluator, node: Node, there: Bools) -> Matrix:
    missing = ~there[None, :]
    if not missing.any():
        return empty_matrix(evaluator.steps)
    return Matrix([_absent_labels(node)], np.ones(missing.shape), missing, None, np.zeros(1, np.bool_))


def _absent(evaluator: Evaluator, call: Call) -> Matrix:
    matrix = evaluator.vector(call.arguments[0])
    return _absence(evaluator, call.arguments[0], np.any(matrix.present, axis=0))


def _absent_over_time(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[0])
    there: Bools = np.any(vector.floats.counts + vector.histogram_counts() > 0, axis=0)
    return _absence(evaluator, call.arguments[0], there)


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    "absent": _absent,
    "absent_over_time": _absent_over_time,
    "label_join": _label_join,
    "label_replace": _label_replace,
    "sort_by_label": _sort_by_label,
    "sort_by_label_desc": _sort_by_label,
}
