"""One trace as columns: what a waterfall shows of every span. Attributes are requested for single spans.

Parents are indexes. Of a trace that is too large to show whole, the first levels are shown.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.explore.source import MAX_EXACT, to_json_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from neve.explore.source import RecordSource

__all__ = ["MAX_SPANS", "MISSING", "NO_PARENT", "find_parents", "read_trace", "select_levels"]

MAX_SPANS = 100_000  # of an answer
READ_SPANS = 1_000_000  # of which the first levels are chosen
SPAN_BYTES = 2000  # memory of a span while its level is found
NO_PARENT = -1  # a root span
MISSING = -2  # the span names a parent that is not stored
NAME_CHARACTERS, SERVICE_CHARACTERS = 300, 200
_COLUMNS = f"""
    span_id, parent_span_id, start_time_unix_nano AS start, end_time_unix_nano AS stop,
    left(service_name, {SERVICE_CHARACTERS}) AS service, left(operation_name, {NAME_CHARACTERS}) AS name,
    span_kind AS kind, status_code AS status, len(events) AS events, len(links) AS links
"""


def read_trace(trace_id: str, source: RecordSource, most: int = MAX_SPANS) -> dict[str, Any]:
    """Return a trace, found without a time range. Of a larger one than `most`, the first levels.

    Offsets and durations are nanoseconds. Numbers that a browser would round are text.
    """
    where = f"FROM spans WHERE trace_id = unhex('{trace_id}')"  # digits only: the caller has parsed the id
    limit = min(READ_SPANS, source.context.memory_bytes // SPAN_BYTES)
    spans = source.table(f"SELECT {_COLUMNS} {where} LIMIT {limit + 1}")
    count = spans.num_rows
    if count > limit:
        count = source.one(f"SELECT count(*) AS spans {where}")["spans"]
    spans = spans.sort_by([("start", "ascending"), ("stop", "descending"), ("span_id", "ascending")])
    parents = find_parents(spans["span_id"], spans["parent_span_id"])
    chosen = select_levels(parents, most)
    shown = spans.take(pa.array(chosen))
    return _describe(trace_id, shown, _renumber(parents, chosen)) | {
        "span_count": count,
        "left_out": count - shown.num_rows,
        "error_count": int(pc.sum(pc.equal(spans["status"], 2)).as_py() or 0),
    }


def _describe(trace_id: str, spans: pa.Table, parents: NDArray[np.int64]) -> dict[str, Any]:
    start, stop = _nanos(spans["start"]), _nanos(spans["stop"])
    known = start[start > 0]
    first = int(known.min()) if len(known) else 0
    ends = np.where(stop > 0, stop, start)
    services, service = _encode(spans["service"])
    names, name = _encode(spans["name"])
    return {
        "trace_id": trace_id,
        "start_unix_nano": str(first),
        "duration_nano": to_json_value(max(int(ends.max()) - first, 0) if len(ends) else 0),
        "services": services,
        "names": names,
        "spans": {
            "span_id": [None if one is None else one.hex() for one in spans["span_id"].to_pylist()],
            "parent": parents.tolist(),
            "start": _exact(start - first, start > 0),
            "duration": _exact(stop - start, (start > 0) & (stop > 0)),
            "service": service,
            "name": name,
            "kind": _counts(spans["kind"]),
            "status": _counts(spans["status"]),
            "events": _counts(spans["events"]),
            "links": _counts(spans["links"]),
        },
    }


def _renumber(parents: NDArray[np.int64], chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the parents of the chosen spans as indexes among them; a parent that is left out is missing."""
    place = np.full(len(parents), MISSING, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    own = parents[chosen]
    return np.where(own == NO_PARENT, NO_PARENT, np.where(own < 0, MISSING, place[np.maximum(own, 0)]))


def _nanos(column: pa.ChunkedArray) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy()
    return found


def _counts(column: pa.ChunkedArray) -> list[int]:
    found: list[int] = pc.fill_null(column, 0).to_pylist()
    return found


def _exact(values: NDArray[np.int64], is_known: NDArray[np.bool_]) -> list[int | str | None]:
    """Return numbers of nanoseconds: those that a browser would round as text, unknown ones as null."""
    if is_known.all() and (not len(values) or np.abs(values).max() <= MAX_EXACT):
        plain: list[int | str | None] = values.tolist()
        return plain
    return [to_json_value(one) if known else None for one, known in zip(values.tolist(), is_known, strict=True)]


def _encode(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    """Return the distinct texts, and for each row the place of its text."""
    encoded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_pylist()


def find_parents(span_ids: pa.ChunkedArray, parent_ids: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the index of each span's parent, `NO_PARENT` or `MISSING`. Of spans with the same id the first counts.

    >>> ids, parents = pa.chunked_array([[b"a", b"b", b"c"]]), pa.chunked_array([[None, b"a", b"z"]])
    >>> find_parents(ids, parents).tolist()
    [-1, 0, -2]
    """
    ids, wanted = span_ids.combine_chunks(), parent_ids.combine_chunks()
    places = pc.fill_null(pc.index_in(wanted, value_set=ids), MISSING)
    found: NDArray[np.int64] = places.to_numpy(zero_copy_only=False).astype(np.int64)
    has_none = pc.or_kleene(pc.is_null(wanted), pc.equal(pc.binary_length(wanted), 0))
    found[pc.fill_null(has_none, fill_value=True).to_numpy(zero_copy_only=False)] = NO_PARENT
    return found


def select_levels(parents: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the indexes of the `most` spans that are nearest to a root, in their order.

    Spans that no root reaches, because their parents form a cycle, come last.

    >>> select_levels(np.array([1, -1, 1, 0]), 3).tolist()
    [0, 1, 2]
    """
    if len(parents) <= most:
        return np.arange(len(parents))
    by_parent = np.argsort(parents, kind="stable")
    first = np.searchsorted(parents[by_parent], np.arange(len(parents) + 1))
    chosen: list[int] = []
    waiting: deque[int] = deque(np.flatnonzero(parents < 0)[:most].tolist())
    while waiting and len(chosen) < most:
        span = waiting.popleft()
        chosen.append(span)
        if len(chosen) + len(waiting) < most:
            waiting.extend(by_parent[first[span] : first[span + 1]].tolist())
    return np.sort(np.array([*chosen, *_others(chosen, len(parents), most)], dtype=np.int64))


def _others(chosen: Iterable[int], count: int, most: int) -> list[int]:
    """Return the first spans that are not chosen, to fill the rest."""
    is_chosen = np.zeros(count, dtype=bool)
    is_chosen[list(chosen)] = True
    free = most - int(is_chosen.sum())
    others: list[int] = np.flatnonzero(~is_chosen)[:free].tolist()
    return others
