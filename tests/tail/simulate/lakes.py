"""Lakes with traces that tests know all about, made without a JVM."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.columns import TIMESTAMP
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from neve.tail.config import TailConfig
from neve.tail.policy.config.loader import read_policies
from neve.tail.selector import TailSelector

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.tail.policy.tree import PolicySet

START = datetime(2026, 2, 2, 9, tzinfo=UTC)
LATER = START + timedelta(hours=3)  # when all of them are complete
ACME, OTHER = "acme", "globex"
SERVICES = ("cart", "checkout", "search")
_numbers = itertools.count()

ERRORS = {"name": "errors", "type": "error"}
SLOW = {"name": "slow", "type": "latency", "latency": {"threshold_ms": 700}}
REST = {"name": "rest", "type": "probabilistic", "probabilistic": {"sampling_percentage": 20}}
LIMIT = {"name": "limit", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 2}}
FEW = {"name": "few", "type": "span_count", "span_count": {"min_spans": 1, "max_spans": 1}}
DROP = {"name": "no-search", "type": "drop", "drop": {"drop_sub_policy": [
    {"name": "search", "type": "ottl_condition", "ottl_condition": {"span": ['name == "GET /search"']}}
]}}  # fmt: skip
BY_SERVICE = {
    "name": "by-service",
    "type": "composite",
    "composite": {
        "max_total_spans_per_second": 4,
        "policy_order": ["one", "all"],
        "composite_sub_policy": [
            {"name": "one", "type": "span_count", "span_count": {"min_spans": 1, "max_spans": 1}},
            {"name": "all", "type": "always_sample"},
        ],
        "rate_allocation": [{"policy": "one", "percent": 50}, {"policy": "all", "percent": 50}],
    },
}


@dataclass(frozen=True)
class Trace:
    """A trace of spans that follow each other by a millisecond; the first is the root, and the longest."""

    number: int
    seconds: float = 0.0  # after START
    spans: int = 1
    duration_ms: int = 10
    error: bool = False
    owner: str = ACME
    state: str | None = None
    late: bool = False  # no root: more spans of a trace that was there before

    @property
    def id(self) -> bytes:
        """Its id."""
        return sha256(f"trace {self.number}".encode()).digest()[:16]

    @property
    def service(self) -> str:
        """The service that it begins with."""
        return SERVICES[self.number % len(SERVICES)]

    @property
    def start_ns(self) -> int:
        """When it began."""
        return int((START + timedelta(seconds=self.seconds)).timestamp() * 1_000_000) * 1000

    def rows(self, arrived: datetime) -> Iterable[dict[str, Any]]:
        """Its spans."""
        root = sha256(self.id).digest()[:8]
        for place in range(self.spans):
            start = self.start_ns + place * 1_000_000
            is_root = place == 0 and not self.late
            yield {
                "organization_id": self.owner,
                "timestamp": START + timedelta(microseconds=(start - Trace(0).start_ns) // 1000),
                "trace_id": self.id,
                "span_id": root if is_root else sha256(self.id + bytes([place, self.late])).digest()[:8],
                "parent_span_id": None if is_root else root,
                "service_name": self.service,
                "operation_name": f"GET /{self.service}" if is_root else "work",
                "span_kind": 2,
                "status_code": 2 if self.error and place == self.spans - 1 else 0,
                "start_time_unix_nano": start,
                "end_time_unix_nano": start + (self.duration_ms * 1_000_000 if place == 0 else 1000),
                "trace_state": self.state,
                "record_id": sha256(self.id + bytes([place, self.late, 1])).digest()[:16],
                "ingested_at": arrived,
            }


def some_traces(count: int = 150) -> list[Trace]:
    """Traces of ten minutes, a few of them slow or with an error, of two organizations."""
    return [
        Trace(
            number,
            seconds=number * 600 / count,
            spans=1 + number % 4,
            duration_ms=7 + number * 37 % 900,
            error=number % 11 == 0,
            owner=OTHER if number % 5 == 4 else ACME,
        )
        for number in range(count)
    ]


def put(lake: Lake, traces: Iterable[Trace], arrived: datetime | None = None) -> None:
    """Take spans in, in one commit; without a time each arrived a second after it began."""
    rows = [row for trace in traces for row in trace.rows(arrived or START + timedelta(seconds=trace.seconds + 1))]
    table = lake.table("spans")
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    kinds = {"timestamp": TIMESTAMP, "ingested_at": TIMESTAMP, "span_kind": pa.int32(), "status_code": pa.int32()}
    texts = {"trace_state": pa.string(), "parent_span_id": pa.binary()}
    told = pa.table({name: pa.array(values, (kinds | texts).get(name)) for name, values in columns.items()})
    append_once(table, write_files(Target.of(table), told), batch_id=f"tail {next(_numbers)}", operation="test")


def policies(*stated: dict[str, Any], semantics: Any = "documented", **options: Any) -> PolicySet:
    """Policies as a file would have them."""
    from neve.tail.policy.semantics import Semantics

    return read_policies({"policies": list(stated), **options}, Semantics(semantics))


def selector_of(lake: Lake, folder: Path, stated: PolicySet, now: datetime = LATER, **settings: Any) -> TailSelector:
    """A selector whose clock stands still."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    return TailSelector(lake, lake, TailConfig(**settings), stated, documents, clock=lambda: now)


def decided(lake: Lake, selector: str = "tail") -> dict[tuple[str, bytes], dict[str, Any]]:
    """What a selector decided, by organization and trace; the last revision."""
    rows = lake.table("trace_decisions").scan().to_arrow().to_pylist()
    mine = sorted((row for row in rows if row["selector"] == selector), key=lambda row: row["revision"])
    return {(row["organization_id"], row["trace_id"]): row for row in mine}
