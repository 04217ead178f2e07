"""Lakes with spans that are written out, and selectors whose clock stands where a test puts it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.decision_tables import DECISIONS, OPEN_TRACES
from neve.model.tables import SAMPLED_SPANS, SPANS
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from neve.tail.config import TailConfig
from neve.tail.policy.config.loader import read_policies
from neve.tail.selector import TailSelector
from tests.empty_tables import create_empty_tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from neve.tail.decisions import CycleResult
    from neve.tail.policy.tree import PolicySet

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACME, OTHER = "acme", "globex"
ERRORS = {"name": "errors", "type": "error"}
SLOW = {"name": "slow", "type": "latency", "latency": {"threshold_ms": 1000}}
_numbers = itertools.count()


@dataclass(frozen=True)
class Span:
    """A span by what matters here; times are seconds after `START`."""

    trace: int
    number: int = 0
    at: float = 0.0
    seconds: float = 0.1
    arrived: float | None = None
    error: bool = False
    root: bool = False
    service: str = "cart"
    organization: str = ACME
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def trace_id(self) -> bytes:
        """The id of its trace."""
        return trace_id(self.trace)

    def row(self) -> dict[str, Any]:
        """The span as a row of the table."""
        start = int(START.timestamp()) * 10**9 + round(self.at * 10**9)
        end = start + round(self.seconds * 10**9)
        arrived = self.at + self.seconds if self.arrived is None else self.arrived
        span_id = self.number.to_bytes(8, "big")
        return {
            "organization_id": self.organization,
            "timestamp": START + timedelta(seconds=self.at),
            "trace_id": self.trace_id,
            "span_id": span_id,
            "parent_span_id": None if self.root else b"\x01" * 8,
            "service_name": self.service,
            "operation_name": "GET /",
            "span_kind": 2,
            "status_code": 2 if self.error else 0,
            "duration_ms": self.seconds * 1000,
            "start_time_unix_nano": start,
            "end_time_unix_nano": end,
            "flags": 1,
            "attributes": list(self.attributes.items()),
            "attribute_types": [],
            "resource_attrs": [("service.name", self.service)],
            "record_id": self.trace_id[:8] + span_id,
            "ingested_at": START + timedelta(seconds=arrived),
        }


def trace_id(number: int) -> bytes:
    """An id that looks random, the same each time."""
    return (number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128).to_bytes(16, "big")


def tail_lake(folder: Path) -> Lake:
    """A lake with the tables of tail sampling, without a JVM."""
    lake = Lake(LakeConfig(warehouse=str(folder / "warehouse")), CatalogConfig(path=str(folder / "catalog.db")))
    create_empty_tables(lake, (SPANS, DECISIONS, OPEN_TRACES, SAMPLED_SPANS))
    return lake


def put(lake: Lake, spans: Sequence[Span]) -> None:
    """Commit some spans."""
    table = lake.table("spans")
    rows = pa.Table.from_pylist([span.row() for span in spans], SPANS.schema)
    append_once(table, write_files(Target.of(table), rows), batch_id=f"tail {next(_numbers)}", operation="test")


def policies(*some: dict[str, Any], **options: Any) -> PolicySet:
    """Policies as a file has them."""
    return read_policies({"policies": list(some), **options})


def percentage(share: float) -> dict[str, Any]:
    """A policy that keeps a share."""
    return {"name": "some", "type": "probabilistic", "probabilistic": {"sampling_percentage": share}}


@dataclass
class Desk:
    """A lake and a selector on it, which is asked at moments after `START`."""

    lake: Lake
    folder: Path
    policies: PolicySet = field(default_factory=lambda: policies(ERRORS, SLOW))
    config: TailConfig = field(default_factory=TailConfig)

    def selector(self, at: float) -> TailSelector:
        """The selector at a moment."""
        state = StateConfig(path=str(self.folder / "state.db"))
        return TailSelector(
            self.lake,
            self.lake,
            self.config,
            self.policies,
            SqlDocuments(StateStore(state)),
            clock=lambda: START + timedelta(seconds=at),
        )

    def run(self, at: float) -> CycleResult:
        """One cycle."""
        return self.selector(at).run()

    def set(self, **changes: Any) -> None:
        """Other settings."""
        self.config = TailConfig.model_validate({**self.config.model_dump(), **changes})

    def decisions(self) -> list[dict[str, Any]]:
        """All decisions, in their order."""
        rows = self.lake.table(DECISIONS.name).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: (row["cycle"], row["trace_id"], row["revision"]))

    def told(self) -> dict[int, list[tuple[str, str, str | None]]]:
        """What was decided about each trace, one after the other: kind, decision and policy."""
        numbers = {trace_id(number): number for number in range(2000)}
        found: dict[int, list[tuple[str, str, str | None]]] = {}
        for row in self.decisions():
            line = (row["kind"], row["decision"], row["policy"])
            found.setdefault(numbers[row["trace_id"]], []).append(line)
        return found

    def open(self) -> list[dict[str, Any]]:
        """The traces that are open."""
        rows: list[dict[str, Any]] = self.lake.table(OPEN_TRACES.name).scan().to_arrow().to_pylist()
        return rows


def moved(span: Span, **changes: Any) -> Span:
    """A span that is a little other."""
    return replace(span, **changes)
