"""How well kept traces tell of all: numbers of traces, the rate of errors, latencies; by their adjusted counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.tail.simulate.report import Estimate, Estimates, ServiceEstimate

if TYPE_CHECKING:
    from neve.tail.simulate.judged import Judged

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SERVICES = 100  # that are listed


def estimates(judged: Judged) -> Estimates:
    """The truth, and what the sample says."""
    ((truth, estimated, true_errors, errors),) = judged.ask(
        "SELECT coalesce(sum(weight), 0), coalesce(sum(adjusted), 0), coalesce(sum(weight) FILTER (has_error), 0), "
        f"coalesce(sum(adjusted) FILTER (has_error), 0) FROM {judged.name}"
    )
    services, left, mean_error = _services(judged)
    return Estimates(
        traces=Estimate(truth, estimated),
        error_rate=Estimate(true_errors / truth if truth else 0.0, errors / estimated if estimated else None),
        latency_ms=_latencies(judged),
        services=services,
        services_left=left,
        mean_error=mean_error,
    )


def _services(judged: Judged) -> tuple[tuple[ServiceEstimate, ...], int, float | None]:
    """The services with the most traces, how many others there are, and the error over all."""
    by_service = (
        "SELECT organization_id, service, count(*) AS traces, count(*) FILTER (kept) AS kept, "
        f"sum(weight) AS truth, sum(adjusted) AS estimated FROM {judged.name} GROUP BY organization_id, service"
    )
    ((count, mean_error),) = judged.ask(
        f"SELECT count(*), sum(abs(estimated - truth)) / sum(truth) FROM ({by_service})"
    )
    rows = judged.ask(f"{by_service} ORDER BY traces DESC, organization_id, service LIMIT {SERVICES}")
    listed = tuple(
        ServiceEstimate(organization, service, traces, kept, Estimate(truth, estimated))
        for organization, service, traces, kept, truth, estimated in rows
    )
    return listed, count - len(listed), mean_error


def _latencies(judged: Judged) -> dict[str, Estimate]:
    """Of each quantile the least latency that so large a part of all traces does not exceed."""
    within = "OVER (ORDER BY duration_ms)"
    running = (
        f"SELECT duration_ms, sum(sum(weight)) {within} AS truth, sum(sum(adjusted)) {within} AS estimated, "
        f"sum(sum(weight)) OVER () AS all_truth, sum(sum(adjusted)) OVER () AS all_estimated "
        f"FROM {judged.name} GROUP BY duration_ms"
    )
    asked = ", ".join(
        f"min(duration_ms) FILTER (truth >= {quantile} * all_truth), "
        f"min(duration_ms) FILTER (all_estimated > 0 AND estimated >= {quantile} * all_estimated)"
        for quantile in QUANTILES.values()
    )
    (row,) = judged.ask(f"SELECT {asked} FROM ({running})")
    pairs = zip(row[::2], row[1::2], strict=True)
    return {name: Estimate(truth or 0.0, told) for name, (truth, told) in zip(QUANTILES, pairs, strict=True)}
