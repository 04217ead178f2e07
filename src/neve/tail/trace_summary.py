"""Trace summaries: the SQL that aggregates spans by trace and merges summaries, and their arrays for the policies.

The decision query is defined once here, for cycles, simulations and single traces.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.lake.span_size import span_size_sql
from neve.tail.policy.conditions import ot_number
from neve.tail.policy.evaluate.traces import Traces, derive_randomness
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Latency, RateLimit
from neve.tail.span_order import OrderedSpans, extents_sql, mark_extending_spans_sql

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.evaluate.traces import Bools, Integers, Unsigned
    from neve.tail.policy.tree import PolicySet


WORD_BITS = 63  # of a signed integer
NOT_ROOT = 1 << 62

SUM_COLUMNS = ("span_count", "spans_bytes")
MIN_COLUMNS = ("start_ns", "first_us")
MAX_COLUMNS = ("end_ns", "last_us", "root_us", "head_threshold", "randomness")
ENDED = "greatest(start_ns, end_ns) // 1000"


@dataclass(frozen=True)
class SummaryQuery:
    """SQL of one policy set, with the columns of a summary in the order of `columns`."""

    policies: PolicySet
    clock: Literal["arrival", "event"] = "arrival"
    has_root: bool = True
    columns: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        facts = [f"facts_{word}" for word in range(self.words)]
        keys = [f"key_{place}" for place in range(len(self.policies.keys))]
        names = (
            "organization_id",
            "trace_id",
            *SUM_COLUMNS,
            *MIN_COLUMNS,
            *MAX_COLUMNS,
            "has_error",
            "root",
            *facts,
            *keys,
            *(("extents",) if self.latencies else ()),
        )
        object.__setattr__(self, "columns", names)

    @cached_property
    def latencies(self) -> tuple[Latency, ...]:
        """Latency policies that are evaluated after each span."""
        return tuple(node for node in self.policies.nodes if isinstance(node, Latency) and node.running)

    @property
    def bits(self) -> int:
        """Number of bits of a trace."""
        return len(self.policies.facts)

    @property
    def words(self) -> int:
        """Number of integers that hold the bits."""
        return max(1, -(-self.bits // WORD_BITS))

    @cached_property
    def sizes(self) -> bool:
        """True if a policy depends on the size of traces."""
        return any(isinstance(node, RateLimit) and node.unit == "bytes" for node in self.policies.nodes)

    @cached_property
    def span_columns(self) -> tuple[str, ...]:
        """Columns of spans that are read, and no others."""
        needed = {"organization_id", "trace_id", "start_ns", "end_ns", "status_code", "service_name", "name"}
        needed |= {"trace_state"} | ({"arrived_us"} if self.clock == "arrival" else set())
        needed |= {"parent_span_id"} if self.has_root else set()
        needed |= {"span_id", "arrived_us", "arrival_order"} if self.latencies else set()
        needed |= {"dropped_repeats"} if self.counts_repeats else set()
        needed |= {column for fact in self.policies.facts for column in fact.columns}
        needed |= {column for key in self.policies.keys for column in key.columns}
        if self.sizes:
            needed |= {"attributes", "resource_attributes", "events", "status_message"}
        return tuple(sorted(needed))

    @property
    def counts_repeats(self) -> bool:
        """True if equal spans that ingestion dropped are counted, as the collector does."""
        return self.policies.semantics == Semantics.OTELCOL

    def of_spans(self, spans: str) -> str:
        """Return the summaries of the spans in `spans`."""
        arrived = f"coalesce(arrived_us, {ENDED})"
        seen = arrived if self.clock == "arrival" else ENDED
        root = "parent_span_id IS NULL" if self.has_root else "false"
        order = f"CASE WHEN {root} THEN 0 ELSE {NOT_ROOT} END + start_ns"
        parts = [
            "organization_id",
            "trace_id",
            f"{'sum(1 + coalesce(dropped_repeats, 0))::BIGINT' if self.counts_repeats else 'count(*)'} AS span_count",
            f"{self._size if self.sizes else '0::BIGINT'} AS spans_bytes",
            "min(start_ns) AS start_ns",
            f"min({seen}) AS first_us",
            "max(end_ns) AS end_ns",
            f"max({seen}) AS last_us",
            f"max({seen}) FILTER (WHERE {root}) AS root_us",
            f"coalesce(max({ot_number('th').text}), 0) AS head_threshold",
            f"max({ot_number('rv').text}) AS randomness",
            "bool_or(coalesce(status_code, 0) = 2) AS has_error",
            f"min({{place: {order}, service: service_name, operation: name}}) AS root",
        ]
        parts += [f"bit_or({self._word(word)}) AS facts_{word}" for word in range(self.words)]
        parts += [
            f"list_sort(list_distinct(list({key.sql}))) AS key_{place}" for place, key in enumerate(self.policies.keys)
        ]
        if self.latencies:
            parts.append(f"{extents_sql(arrived)} AS extents")
            spans = mark_extending_spans_sql(spans, arrived)
        return f"SELECT {', '.join(parts)} FROM {spans} GROUP BY organization_id, trace_id"

    def of_repeats(self, repeats: str) -> str:
        """Return what repeats of spans add to the summaries of their traces.

        Facts, keys and the root are those of the spans that they repeat, so they add none. A null `root` marks them.
        """
        arrived = f"coalesce(arrived_us, {ENDED})"
        seen = arrived if self.clock == "arrival" else ENDED
        parts = [
            "organization_id",
            "trace_id",
            "count(*) AS span_count",
            f"{'sum(span_bytes)::BIGINT' if self.sizes else '0::BIGINT'} AS spans_bytes",
            "min(start_ns) AS start_ns",
            f"min({seen}) AS first_us",
            "max(end_ns) AS end_ns",
            f"max({seen}) AS last_us",
            "NULL::BIGINT AS root_us",
            "0::BIGINT AS head_threshold",
            "NULL::BIGINT AS randomness",
            "false AS has_error",
            "NULL AS root",
        ]
        parts += [f"0::BIGINT AS facts_{word}" for word in range(self.words)]
        parts += [f"[]::VARCHAR[] AS key_{place}" for place in range(len(self.policies.keys))]
        if self.latencies:
            parts.append(f"{extents_sql(arrived)} AS extents")
            repeats = mark_extending_spans_sql(repeats, arrived)
        return f"SELECT {', '.join(parts)} FROM {repeats} GROUP BY organization_id, trace_id"

    def of_summaries(self, summaries: str) -> str:
        """Merge summaries of the same traces."""
        parts = ["organization_id", "trace_id"]
        parts += [f"sum({name})::BIGINT AS {name}" for name in SUM_COLUMNS]
        parts += [f"min({name}) AS {name}" for name in MIN_COLUMNS]
        parts += [f"max({name}) AS {name}" for name in MAX_COLUMNS]
        parts += ["bool_or(has_error) AS has_error", "min(root) AS root"]
        parts += [f"bit_or(facts_{word}) AS facts_{word}" for word in range(self.words)]
        parts += [
            f"list_sort(list_distinct(flatten(list(key_{place})))) AS key_{place}"
            for place in range(len(self.policies.keys))
        ]
        parts += ["flatten(list(extents)) AS extents"] if self.latencies else []
        return f"SELECT {', '.join(parts)} FROM {summaries} GROUP BY organization_id, trace_id"

    def _word(self, word: int) -> str:
        first = word * WORD_BITS
        conditions = [fact.sql for fact in self.policies.facts]
        bits = [
            f"CASE WHEN {condition} THEN {1 << place} ELSE 0 END"
            for place, condition in enumerate(conditions[first : first + WORD_BITS])
        ]
        return " | ".join(f"({bit})::BIGINT" for bit in bits) or "0::BIGINT"

    @property
    def _size(self) -> str:
        times = "(1 + coalesce(dropped_repeats, 0)) * " if self.counts_repeats else ""
        return f"sum({times}{span_size_sql({})})::BIGINT"


NANOS_PER_MS = 1_000_000
ID_BYTES = 16


def build_traces(rows: pa.Table, summary: SummaryQuery, ready_us: Integers) -> Traces:
    """Convert summaries to the arrays for policies."""
    ids = extract_id_bytes(rows.column("trace_id"))
    running, unordered = _evaluate_order(rows, summary)
    nanos = extract_integers(rows, "end_ns") - extract_integers(rows, "start_ns")
    return Traces(
        ids=ids,
        span_count=extract_integers(rows, "span_count"),
        bytes=extract_integers(rows, "spans_bytes"),
        duration_ms=(np.sign(nanos) * (np.abs(nanos) // NANOS_PER_MS)).astype(np.int64),
        running_latency=running,
        facts=_extract_bits(rows, summary),
        ready_us=ready_us,
        keys=tuple(_join_keys(rows.column(f"key_{place}")) for place in range(len(summary.policies.keys))),
        head_threshold=extract_integers(rows, "head_threshold").astype(np.uint64),
        randomness=_extract_randomness(rows, ids),
        unordered=unordered,
    )


def _evaluate_order(rows: pa.Table, summary: SummaryQuery) -> tuple[Bools, Bools | None]:
    """Evaluate the policies that depend on the order of arrival, and find the traces of which it is not known."""
    if not summary.latencies:
        return np.zeros((rows.num_rows, 0), np.bool_), None
    spans = OrderedSpans.of(rows.column("extents"))
    return spans.evaluate(summary.latencies), spans.find_unordered(
        summary.latencies, extract_integers(rows, "span_count")
    )


def extract_id_bytes(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """Return the last 16 bytes of each id as rows of 16, left-padded with zeros if an id is shorter."""
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if not len(array):
        return np.zeros((0, ID_BYTES), np.uint8)
    lengths = np.asarray(pc.binary_length(array))
    if (lengths == ID_BYTES).all():
        fixed = array.cast(pa.binary(ID_BYTES))
        return np.frombuffer(fixed.buffers()[1], np.uint8, len(fixed) * ID_BYTES, fixed.offset * ID_BYTES).reshape(
            -1, ID_BYTES
        )
    padded = b"".join(value.as_py()[-ID_BYTES:].rjust(ID_BYTES, b"\0") for value in array)
    return np.frombuffer(padded, np.uint8).reshape(-1, ID_BYTES)


def extract_integers(rows: pa.Table, name: str) -> Integers:
    """Return an integer column, with nulls as 0."""
    column = rows.column(name)
    return np.asarray(column.fill_null(0) if column.null_count else column, dtype=np.int64)


def _extract_bits(rows: pa.Table, summary: SummaryQuery) -> Bools:
    found = np.zeros((rows.num_rows, summary.bits), np.bool_)
    for place in range(summary.bits):
        word = extract_integers(rows, f"facts_{place // WORD_BITS}")
        found[:, place] = (word >> (place % WORD_BITS)) & 1
    return found


def _join_keys(column: pa.ChunkedArray) -> tuple[str, ...]:
    joined = pc.binary_join(column.cast(pa.list_(pa.string())), ",").fill_null("")
    return tuple(joined.to_pylist())


def _extract_randomness(rows: pa.Table, ids: npt.NDArray[np.uint8]) -> Unsigned:
    low = derive_randomness(ids)
    column = rows.column("randomness")
    if column.null_count == len(column):
        return low
    is_given = np.asarray(column.is_valid())
    return np.where(is_given, extract_integers(rows, "randomness").astype(np.uint64), low)
