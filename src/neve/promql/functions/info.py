"""The function info: add labels of info metrics, such as target_info, to series of the same job and instance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.lexical.matchers import Matcher, MatchKind
from neve.promql.labels import Labels, format_labels, get, keep, make_labels, match_sets
from neve.promql.language.syntax import (
    METRIC_NAME,
    Call,
    Node,
    Number,
    Subquery,
    Timing,
    VectorSelector,
    children,
    strip_parens,
)
from neve.promql.matrix import Matrix, Value, empty_matrix, join_matrices, merge_rows
from neve.promql.selectors import Latest, find_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.promql.evaluator import Evaluator
    from neve.promql.series import Bools, Integers

__all__ = ["FUNCTIONS"]

_IDENTITY = frozenset({"instance", "job"})


def _name_matchers(matchers: Sequence[Matcher]) -> list[Matcher]:
    """Return the matchers of the info metrics' names: `target_info` unless others are given."""
    names = [one for one in matchers if one.name == METRIC_NAME]
    if any(one.kind in {MatchKind.EQUAL, MatchKind.REGEX} for one in names):
        return names
    if names:
        return [Matcher(METRIC_NAME, MatchKind.REGEX, ".+_info"), *names]
    return [Matcher(METRIC_NAME, MatchKind.EQUAL, "target_info")]


def _find_timing(evaluator: Evaluator, node: Node) -> Timing | None:
    """Return the modifiers of the first selector, with those of the subqueries around it."""
    stack: list[tuple[Node, list[Timing]]] = [(node, [])]
    while stack:
        one, path = stack.pop()
        if isinstance(one, VectorSelector):
            return _combine_timing(evaluator, [one.timing, *reversed(path)])
        inner = [*path, one.timing] if isinstance(one, Subquery) else path
        stack.extend((child, inner) for child in reversed(list(children(one))))
    return None


def _combine_timing(evaluator: Evaluator, timings: list[Timing]) -> Timing:
    offset, fixed = 0, Timing()
    for timing in timings:
        offset += 0 if timing.offset is None else evaluator.duration(timing.offset, may_be_negative=True)
        if timing.has_at:
            fixed = timing
            break
    return replace(fixed, offset=Number(offset / 1000))


@dataclass(frozen=True, slots=True)
class _Infos:
    """Info series: those present at each step, and the times of their samples."""

    labels: list[Labels]
    present: Bools
    times: Integers


def _fetch(evaluator: Evaluator, matchers: list[Matcher], timing: Timing | None) -> _Infos:
    times = evaluator.selection_times(timing or Timing())
    start = int(times.min()) - evaluator.options.lookback_ms + 1
    latest: Latest = find_latest(evaluator, evaluator.select(matchers, start, int(times.max())), times)
    if (latest.is_histogram & latest.present).any():
        raise EvaluationFailed("this should be an info metric, with float samples")
    return _Infos(latest.series.labels, latest.present, latest.times())


def _info(evaluator: Evaluator, call: Call) -> Matrix:
    matrix = evaluator.vector(call.arguments[0])
    selector = strip_parens(call.arguments[1]) if len(call.arguments) > 1 else None
    matchers = selector.matchers if isinstance(selector, VectorSelector) else ()
    names = _name_matchers(matchers)
    data = [one for one in matchers if one.name != METRIC_NAME]
    ignored = np.array(match_sets(matrix.labels, names), np.bool_)
    values = {
        name: sorted(
            {get(labels, name) for labels, skip in zip(matrix.labels, ignored, strict=True) if not skip} - {""}
        )
        for name in sorted(_IDENTITY)
    }
    infos = _Infos([], np.empty((0, evaluator.steps), np.bool_), np.empty((0, evaluator.steps), np.int64))
    if any(values.values()):
        identity = [Matcher(name, MatchKind.REGEX, _any_of(found)) for name, found in values.items() if found]
        infos = _fetch(evaluator, [*identity, *data, *names], _find_timing(evaluator, call.arguments[0]))
    return _join(evaluator, matrix, ignored, infos, data)


def _any_of(texts: list[str]) -> str:
    special = set("\\.+*?()|[]{}^$")
    return "|".join("".join(f"\\{char}" if char in special else char for char in text) for text in texts)


def _signature(labels: Labels, name: str) -> tuple[str, Labels]:
    return name, keep(labels, _IDENTITY)


def _join(evaluator: Evaluator, matrix: Matrix, ignored: Bools, infos: _Infos, data: list[Matcher]) -> Matrix:
    """Return the series with the labels of the info series that are valid at each step."""
    names = sorted({get(labels, METRIC_NAME) for labels in infos.labels})
    by_signature: dict[tuple[str, Labels], list[int]] = {}
    for row, labels in enumerate(infos.labels):
        by_signature.setdefault(_signature(labels, get(labels, METRIC_NAME)), []).append(row)
    winners = {key: _newest(infos, rows) for key, rows in by_signature.items()}
    keeps_unmatched = all(one.matches("") for one in data)
    result = matrix.rows(ignored)
    for row in np.flatnonzero(~ignored).tolist():
        evaluator.budget.visit(len(result))
        labels = matrix.labels[row]
        chosen = [winners[key] for name in names if (key := _signature(labels, name)) in winners]
        parts = _split(matrix, row, np.array(chosen).reshape(len(chosen), evaluator.steps))
        for part, winners_now in parts:
            found = [infos.labels[one] for one in winners_now if one >= 0]
            if found or keeps_unmatched:
                labels = _add_labels(matrix.labels[row], found, {one.name for one in data})
                result = join_matrices(result, replace(part, labels=[labels]))
    return merge_rows(result) if len(result) else empty_matrix(evaluator.steps)


def _newest(infos: _Infos, rows: list[int]) -> Integers:
    """Return the info series with the newest sample at each step, -1 where there is none."""
    times = np.where(infos.present[rows], infos.times[rows], -(1 << 62))
    newest = times.max(axis=0)
    ties = (times == newest[None, :]) & infos.present[rows]
    if (ties.sum(axis=0) > 1).any():
        step = int(np.argmax(ties.sum(axis=0) > 1))
        first, second = (rows[index] for index in np.flatnonzero(ties[:, step])[:2].tolist())
        at = int(newest[step])
        texts = [format_labels(infos.labels[one]) for one in (first, second)]
        raise EvaluationFailed(
            f"found duplicate series for info metric: existing {texts[0]} @ {at}, new {texts[1]} @ {at}"
        )
    winners = np.array(rows)[times.argmax(axis=0)]
    return np.where(infos.present[rows].any(axis=0), winners, -1)


def _split(matrix: Matrix, row: int, winners: Integers) -> Iterator[tuple[Matrix, list[int]]]:
    """Yield the parts of one series, one for each combination of info series over the steps."""
    single = matrix.rows(np.array([row]))
    unique, places = np.unique(winners, axis=1, return_inverse=True)
    for index in range(unique.shape[1]):
        part = single.mask((places.ravel() == index)[None, :])
        if len(part):
            yield part, unique[:, index].tolist()


def _add_labels(base: Labels, infos: list[Labels], wanted: set[str]) -> Labels:
    known = dict(base)
    added: dict[str, str] = {}
    for labels in infos:
        for name, value in labels:
            if name == METRIC_NAME or (wanted and name not in wanted):
                continue
            if added.get(name, value) != value:
                raise EvaluationFailed(f"conflicting label: {name}")
            if name not in known:
                added[name] = value
    return make_labels({**known, **added})


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {"info": _info}
