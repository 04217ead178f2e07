"""The ground truth: what an investigator should find, counted from the simulation itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.demo.span import CLIENT, SERVER, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.demo.incident import Incident


@dataclass(frozen=True, slots=True)
class Record:
    """How a set of requests went."""

    requests: int
    failed: int
    median_ms: float
    p95_ms: float

    @property
    def error_rate(self) -> float:
        """Return the share of requests that failed."""
        return self.failed / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened inside the incident's window, by the start of the span, and outside it.

    `payment` and `checkout` are the server spans of those names: all of the service `payment`, and the frontend's
    `POST /checkout`. `payment_timeouts` and `payment_retries` count the client spans that called it in the window.
    """

    payment_in_window: Record
    payment_outside: Record
    checkout_in_window: Record
    checkout_outside: Record
    payment_timeouts: int
    payment_retries: int
    orders_placed: int
    errors_by_service: dict[str, int]
    failed_checkout_trace_id: str


def ground_truth(spans: Sequence[Span], incident: Incident) -> Truth:
    """Count the truth. The example is the first checkout that failed for want of a connection."""
    payments = [s for s in spans if s.service == incident.service and s.kind == SERVER]
    checkouts = [s for s in spans if s.operation == "POST /checkout" and s.kind == SERVER]
    orders = [s for s in spans if s.operation == "PlaceOrder" and s.kind == SERVER and s.failure is None]
    calls = [s for s in spans if s.kind == CLIENT and s.attributes.get("peer.service") == incident.service]
    suffered = [s for s in calls if incident.window.contains(s.start)]
    errors = Counter(
        s.service for s in spans if s.kind == SERVER and s.failure is not None and incident.window.contains(s.start)
    )
    return Truth(
        payment_in_window=_record([s for s in payments if incident.window.contains(s.start)]),
        payment_outside=_record([s for s in payments if not incident.window.contains(s.start)]),
        checkout_in_window=_record([s for s in checkouts if incident.window.contains(s.start)]),
        checkout_outside=_record([s for s in checkouts if not incident.window.contains(s.start)]),
        payment_timeouts=sum(s.failure is not None and s.failure.code == "DEADLINE_EXCEEDED" for s in suffered),
        payment_retries=sum("app.retry.attempt" in s.attributes for s in suffered),
        orders_placed=len(orders),
        errors_by_service=dict(errors.most_common()),
        failed_checkout_trace_id=next((s.trace_id.hex() for s in checkouts if _starved(s)), ""),
    )


def _starved(span: Span) -> bool:
    """Tell whether a request failed because the pool had no connection."""
    return span.failure is not None and "Connection is not available" in span.failure.message


def _record(spans: list[Span]) -> Record:
    """Sum up how requests went."""
    if not spans:
        return Record(0, 0, 0.0, 0.0)
    median, p95 = np.percentile([span.millis for span in spans], [50, 95]).tolist()
    return Record(len(spans), sum(span.failure is not None for span in spans), round(median, 3), round(p95, 3))
