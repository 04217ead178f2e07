"""Estimates from kept traces, against a plain computation over all of them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.model.decision_tables import DECISIONS
from neve.tail.simulate.analysis import MAX_SERVICES, QUANTILES, compute_estimates
from neve.tail.simulate.simulator import READ_COLUMNS, JudgedTraces, Period

HALF = 1 << 55  # T of a sender that left out every second trace


def row(number: int, **said: Any) -> dict[str, Any]:
    """A trace as it was judged: kept with a chance of one in `stands_for`, or not."""
    stands_for = said.pop("stands_for", 0.0)
    return {
        "organization_id": "acme",
        "trace_id": number.to_bytes(16, "big"),
        "decision": "sampled" if stands_for else "not_sampled",
        "policy": "rest" if stands_for else None,
        "span_count": 1,
        "has_error": False,
        "service_name": "cart",
        "operation_name": "GET",
        "duration_ms": 1.0,
        "head_threshold": 0,
        "adjusted_count": stands_for,
        "start_time_unix_nano": 0,
        **said,
    }


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """One DuckDB for all."""
    return duckdb.connect()


def judged(connection: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], batch: int = 7) -> JudgedTraces:
    """The table of judged traces, filled in batches."""
    schema = pa.schema([DECISIONS.schema.field(name) for name in READ_COLUMNS])
    connection.execute("DROP TABLE IF EXISTS judged")
    table = JudgedTraces(connection, "judged")
    table.begin()
    batches = (pa.Table.from_pylist(rows[first : first + batch], schema) for first in range(0, len(rows), batch))
    assert list(table.fill(batches, Period()))[-1:] == ([len(rows)] if rows else [])
    return table


def weighted_quantile(values: list[tuple[float, float]], share: float) -> float | None:
    """The least value that so large a part of the weight does not exceed."""
    whole, passed = sum(weight for _value, weight in values), 0.0
    for value, weight in sorted(values):
        passed += weight
        if whole and passed >= share * whole:
            return value
    return None


ROWS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        service_name=st.sampled_from(["cart", "search", None]),
        organization_id=st.sampled_from(["acme", "globex"]),
        has_error=st.booleans(),
        # weights that add up exactly, so that sums do not depend on their order
        stands_for=st.sampled_from([0.0, 0.0, 1.0, 2.0, 4.0, 10.0]),
        head_threshold=st.sampled_from([0, 0, HALF]),
        duration_ms=st.one_of(st.integers(-3, 40).map(float), st.floats(0, 1e6)),
    ),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=30)
@given(rows=ROWS)
def test_estimates_are_those_of_a_plain_computation(
    connection: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]]
) -> None:
    """By service, errors and latencies; with what senders left out on both sides."""
    rows = [row(number, **said) for number, said in enumerate(rows)]
    told = compute_estimates(judged(connection, rows))
    weight = {one["trace_id"]: 2.0 if one["head_threshold"] else 1.0 for one in rows}
    truth, sample = sum(weight.values()), sum(one["adjusted_count"] for one in rows)
    assert (told.traces.truth, told.traces.estimated) == (truth, sample)
    true_errors = sum(weight[one["trace_id"]] for one in rows if one["has_error"])
    errors = sum(one["adjusted_count"] for one in rows if one["has_error"])
    assert told.error_rate.truth == (true_errors / truth if truth else 0)
    assert told.error_rate.estimated == (errors / sample if sample else None)
    for name, share in QUANTILES.items():
        latencies = [(max(one["duration_ms"], 0.0), one) for one in rows]
        true = weighted_quantile([(value, weight[one["trace_id"]]) for value, one in latencies], share)
        assert told.latency_ms[name].truth == (true or 0.0)
        estimated = weighted_quantile([(value, one["adjusted_count"]) for value, one in latencies], share)
        assert told.latency_ms[name].estimated == estimated

    by_service: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in rows:
        by_service.setdefault((one["organization_id"], one["service_name"] or ""), []).append(one)
    apart = 0.0
    for line in told.services:
        some = by_service.pop((line.organization, line.service))
        assert (line.traces, line.kept) == (len(some), sum(one["decision"] == "sampled" for one in some))
        assert line.count.truth == sum(weight[one["trace_id"]] for one in some)
        estimated = sum(one["adjusted_count"] for one in some)
        assert line.count.estimated == estimated
        apart += abs(estimated - line.count.truth)
    assert not by_service
    assert told.mean_error == (pytest.approx(apart / truth) if truth else None)


def test_errors_have_a_sign(connection: duckdb.DuckDBPyConnection) -> None:
    """Too few is less than nothing, too many is more; what is not kept at all is all wrong."""
    rows = [row(0, stands_for=1.0), row(1), row(2, service_name="search", stands_for=4.0)]
    rows += [row(3, service_name="search"), row(4, service_name="web")]
    services = {one.service: one.count.error for one in compute_estimates(judged(connection, rows)).services}
    assert services == {"cart": -0.5, "search": 1.0, "web": -1.0}


def test_nothing_that_is_kept_tells_nothing(connection: duckdb.DuckDBPyConnection) -> None:
    """Latencies and rates are unknown then, not zero."""
    told = compute_estimates(judged(connection, [row(0), row(1, has_error=True)]))
    assert told.error_rate.estimated is None
    assert {one.estimated for one in told.latency_ms.values()} == {None}
    assert (told.traces.estimated, told.traces.error) == (0, -1)


def test_many_services_are_listed_in_part(connection: duckdb.DuckDBPyConnection) -> None:
    """Those with the most traces; the others are counted, and are in the mean."""
    rows = [row(number, service_name=f"service-{number:03d}", stands_for=1.0) for number in range(MAX_SERVICES + 5)]
    rows += [row(1000, service_name="service-104")]
    told = compute_estimates(judged(connection, rows, batch=50))
    assert (len(told.services), told.services_left) == (MAX_SERVICES, 5)
    assert (told.services[0].service, told.services[0].traces) == ("service-104", 2)
    assert told.mean_error == pytest.approx(1 / (MAX_SERVICES + 6))
