"""Selectors in memory whose clock stands where a test puts it, and destinations that are away when they are told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.model.tables import SPANS
from neve.tail.config import TailConfig
from neve.tail.export.destination import Delivery, DestinationUnavailable
from neve.tail.memory.selector import MemorySelector
from tests.tail.lakes import ERRORS, SLOW, START, policies, trace_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.memory.cycle import MemoryCycleResult
    from neve.tail.policy.tree import PolicySet
    from tests.tail.lakes import Span

NUMBERS = {trace_id(number): number for number in range(4000)}


@dataclass
class Place:
    """A destination that remembers what it got."""

    name: str = "place"
    away: bool = False
    after_seconds: float = 0.01
    got: list[tuple[str, pa.RecordBatch]] = field(default_factory=list)
    closed: bool = False

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Take a batch, or not."""
        if self.away:
            raise DestinationUnavailable("nobody is there", after_seconds=self.after_seconds)
        self.got.append((batch_id, batch))
        return Delivery(accepted=batch.num_rows, attempts=1)

    def close(self) -> None:
        """Remember that."""
        self.closed = True

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All spans that are there."""
        return [row for _id, batch in self.got for row in batch.to_pylist()]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Trace and number of each span."""
        return sorted((NUMBERS[row["trace_id"]], int.from_bytes(row["span_id"])) for row in self.rows)


class Desk:
    """A selector in memory that is asked at moments after `START`."""

    def __init__(self, of: PolicySet | None = None, *, most_remembered: int = 10_000, **settings: Any) -> None:
        self.at = 0.0
        self.places = [Place()]
        self.told: list[MemoryCycleResult] = []
        log, claims = settings.pop("log", None), settings.pop("claims", None)
        self.places = settings.pop("places", self.places)
        self.selector = MemorySelector(
            TailConfig.model_validate({"storage": "memory", **settings}),
            of or policies(ERRORS, SLOW),
            lambda: START + timedelta(seconds=self.at),
            claims,
            self.places,
            log=log,
            report=lambda result: self.told.append(result),  # noqa: PLW0108 - tests put another list there
            most_remembered=most_remembered,
        )

    @property
    def place(self) -> Place:
        """The first destination."""
        return self.places[0]

    def feed(self, spans: Sequence[Span]) -> None:
        """Feed some spans."""
        self.selector.feed(rows_of(spans))

    def run(self, at: float, **options: Any) -> MemoryCycleResult:
        """One cycle."""
        self.at = at
        return self.selector.cycle(**options)

    def decisions(self) -> list[dict[str, Any]]:
        """All decisions, in their order."""
        rows = [row for result in self.told for row in result.decisions.to_pylist()]
        return sorted(rows, key=lambda row: (row["cycle"], row["trace_id"], row["revision"]))

    def lines(self) -> dict[int, list[tuple[str, str, str | None]]]:
        """What was decided about each trace, one after the other: kind, decision and policy."""
        found: dict[int, list[tuple[str, str, str | None]]] = {}
        for row in self.decisions():
            found.setdefault(NUMBERS[row["trace_id"]], []).append((row["kind"], row["decision"], row["policy"]))
        return found


def rows_of(spans: Sequence[Span]) -> pa.Table:
    """Spans as rows of the table."""
    return pa.Table.from_pylist([span.row() for span in spans], SPANS.schema)
