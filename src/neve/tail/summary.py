"""The decision query, defined once: what is kept of a trace's spans, and how two such summaries become one.

Both are aggregates that DuckDB runs, in this process or inside the tasks of a Spark job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from neve.tail.policy.tree import All, Composite, Drop, Latency, Not, RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.tail.policy.tree import Node, PolicySet

BITS = 63  # of a number that has a sign
NOT_ROOT = 1 << 62
# Bytes of a span that its texts do not account for: ids, times, numbers and the wire's own.
SPAN_BYTES = 90

COUNTED = ("span_count", "spans_bytes")
EARLIEST = ("start_ns", "first_us")
LATEST = ("end_ns", "last_us", "root_us", "head_threshold", "randomness")
OTEL_STATE = r"(?:^|,)\s*ot=([^,]*)"


@dataclass(frozen=True)
class Summary:
    """The SQL of one set of policies. A summary's columns are `columns`, in that order."""

    policies: PolicySet
    clock: Literal["arrival", "event"] = "arrival"
    has_root: bool = True
    columns: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        facts = [f"facts_{word}" for word in range(self.words)]
        keys = [f"key_{place}" for place in range(len(self.policies.keys))]
        names = ("organization_id", "trace_id", *COUNTED, *EARLIEST, *LATEST, "has_error", "root", *facts, *keys)
        object.__setattr__(self, "columns", names)

    @cached_property
    def latencies(self) -> tuple[Latency, ...]:
        """Policies that ask after each span, each with a bit after those of the facts."""
        return tuple(
            node
            for policy in self.policies.policies
            for node in walk(policy)
            if isinstance(node, Latency) and node.running
        )

    @property
    def bits(self) -> int:
        """How many bits a trace has."""
        return len(self.policies.facts) + len(self.latencies)

    @property
    def words(self) -> int:
        """How many numbers hold them."""
        return max(1, -(-self.bits // BITS))

    @cached_property
    def sizes(self) -> bool:
        """Whether a policy asks how large traces are."""
        nodes = (node for policy in self.policies.policies for node in walk(policy))
        return any(isinstance(node, RateLimit) and node.unit == "bytes" for node in nodes)

    @cached_property
    def span_columns(self) -> tuple[str, ...]:
        """The columns of spans that are read, and no others."""
        needed = {"organization_id", "trace_id", "start_ns", "end_ns", "status_code", "service_name", "name"}
        needed |= {"trace_state"} | ({"arrived_us"} if self.clock == "arrival" else set())
        needed |= {"parent_span_id"} if self.has_root else set()
        needed |= {"span_id"} if self.latencies else set()
        needed |= {column for fact in self.policies.facts for column in fact.columns}
        needed |= {column for key in self.policies.keys for column in key.columns}
        if self.sizes:
            needed |= {"attributes", "resource_attributes", "events", "status_message"}
        return tuple(sorted(needed))

    def of_spans(self, spans: str) -> str:
        """Summaries of some spans, which `spans` names."""
        ended = "greatest(start_ns, end_ns) // 1000"
        seen = f"coalesce(arrived_us, {ended})" if self.clock == "arrival" else ended
        root = "parent_span_id IS NULL" if self.has_root else "false"
        order = f"CASE WHEN {root} THEN 0 ELSE {NOT_ROOT} END + start_ns"
        parts = [
            "organization_id",
            "trace_id",
            "count(*) AS span_count",
            f"{self._size if self.sizes else '0::BIGINT'} AS spans_bytes",
            "min(start_ns) AS start_ns",
            f"min({seen}) AS first_us",
            "max(end_ns) AS end_ns",
            f"max({seen}) AS last_us",
            f"max({seen}) FILTER (WHERE {root}) AS root_us",
            f"coalesce(max({_threshold('th')}), 0) AS head_threshold",
            f"max({_threshold('rv', exact=True)}) AS randomness",
            "bool_or(coalesce(status_code, 0) = 2) AS has_error",
            f"min({{place: {order}, service: service_name, operation: name}}) AS root",
        ]
        parts += [f"bit_or({self._word(word)}) AS facts_{word}" for word in range(self.words)]
        parts += [
            f"list_sort(list_distinct(list({key.sql}))) AS key_{place}" for place, key in enumerate(self.policies.keys)
        ]
        return f"SELECT {', '.join(parts)} FROM {self._ordered(spans)} GROUP BY organization_id, trace_id"

    def of_summaries(self, summaries: str) -> str:
        """Summaries of the same traces made one."""
        parts = ["organization_id", "trace_id"]
        parts += [f"sum({name})::BIGINT AS {name}" for name in COUNTED]
        parts += [f"min({name}) AS {name}" for name in EARLIEST]
        parts += [f"max({name}) AS {name}" for name in LATEST]
        parts += ["bool_or(has_error) AS has_error", "min(root) AS root"]
        parts += [f"bit_or(facts_{word}) AS facts_{word}" for word in range(self.words)]
        parts += [
            f"list_sort(list_distinct(flatten(list(key_{place})))) AS key_{place}"
            for place in range(len(self.policies.keys))
        ]
        return f"SELECT {', '.join(parts)} FROM {summaries} GROUP BY organization_id, trace_id"

    def _word(self, word: int) -> str:
        first = word * BITS
        conditions = [fact.sql for fact in self.policies.facts] + [f"latency_{i}" for i in range(len(self.latencies))]
        bits = [
            f"CASE WHEN {condition} THEN {1 << place} ELSE 0 END"
            for place, condition in enumerate(conditions[first : first + BITS])
        ]
        return " | ".join(f"({bit})::BIGINT" for bit in bits) or "0::BIGINT"

    def _ordered(self, spans: str) -> str:
        """Spans with what the policies ask after each of them, in the order in which they arrived."""
        if not self.latencies:
            return spans
        past = "PARTITION BY organization_id, trace_id ORDER BY {} ROWS UNBOUNDED PRECEDING".format(
            "arrived_us, start_ns, span_id" if self.clock == "arrival" else "start_ns, span_id"
        )
        duration = f"(max(end_ns) OVER past - min(start_ns) OVER past) // {1_000_000}"
        asked = ", ".join(
            f"{duration} > {one.threshold_ms} AND {duration} <= {one.upper_ms} AS latency_{place}"
            for place, one in enumerate(self.latencies)
        )
        return f"(SELECT *, {asked} FROM {spans} WINDOW past AS ({past}))"

    @property
    def _size(self) -> str:
        texts = ("name", "service_name", "status_message", "trace_state")
        maps = ("attributes", "resource_attributes")
        parts = [f"coalesce(strlen({column}), 0)" for column in texts]
        parts += [
            f"coalesce(list_sum(list_transform(map_keys({column}), lambda k: strlen(k) + 6)), 0)"
            f" + coalesce(list_sum(list_transform(map_values({column}), lambda v: strlen(v))), 0)"
            for column in maps
        ]
        parts.append("coalesce(strlen(events::VARCHAR), 0)")
        return f"sum({SPAN_BYTES} + {' + '.join(parts)})::BIGINT"


def walk(node: Node) -> Iterator[Node]:
    """A policy and all its parts, in order."""
    yield node
    match node:
        case All() | Drop():
            inner: tuple[Node, ...] = node.parts
        case Not():
            inner = (node.part,)
        case Composite():
            inner = tuple(share.part for share in node.shares)
        case _:
            inner = ()
    for part in inner:
        yield from walk(part)


def _threshold(name: str, *, exact: bool = False) -> str:
    """T or R of OpenTelemetry's part of the trace state: 14 hexadecimal digits, T without the zeros at its end."""
    member = f"regexp_extract(trace_state, '{OTEL_STATE}', 1)"
    digits = f"regexp_extract({member}, '(?:^|;){name}:([0-9a-f]{{{'14' if exact else '1,14'}}})(?:;|$)', 1)"
    return f"CASE WHEN trace_state IS NOT NULL AND {digits} <> '' THEN ('0x' || rpad({digits}, 14, '0'))::BIGINT END"
