"""Calls between services: the edges of the service map.

A call is a span whose parent, in the same trace, is a client or producer span or belongs to another service. A client
span without such a child called something that sends no spans: a database, a queue or another peer, named by its
attributes. A server span without a parent was called by a user. The table `service_edges` has the calls by minute.
Where the lake lacks it, all spans of a range are joined: above a number of spans a share of the traces is read, chosen
by the last byte of their ids, and the counts are scaled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.explore.services import aggregate_calls, read_range, spread_latency
from neve.explore.stored_edges import read_stored_edges
from neve.model.service_calls import USER, write_calls

if TYPE_CHECKING:
    from neve.explore.source import RecordSource

__all__ = ["MAX_EDGES", "MAX_JOINED_SPANS", "USER", "read_edges"]

MAX_EDGES = 1000
MAX_JOINED_SPANS = 2_000_000
SHARES = 256  # values of the last byte of a trace id
COUNTS = ("calls", "errors", "estimated_calls", "estimated_errors")
# ruff: noqa: S608 - statements are made of constants


def _write_statement(byte_below: int) -> str:
    share = f" WHERE right(hex(trace_id), 2) < '{byte_below:02X}'" if byte_below < SHARES else ""
    total = aggregate_calls("server_ms", "failed")
    return f"""
    WITH {write_calls(f"spans{share}")}
    SELECT client, server, connection, {total}, sum(weight) AS estimated_calls,
        coalesce(sum(weight) FILTER (WHERE failed), 0) AS estimated_errors FROM edges GROUP BY 1, 2, 3
    ORDER BY calls DESC, client, server, connection LIMIT {MAX_EDGES + 1}
    """


def read_edges(source: RecordSource, most: int = MAX_JOINED_SPANS) -> dict[str, Any]:
    """Return the edges with the most calls, the share of traces that they were counted in, and the table they are from.

    They come from the table of edges where the lake has it, by whole minutes.
    """
    span = read_range(source)
    stored = read_stored_edges(source, MAX_EDGES + 1) if source.has_service_edges else None
    if stored is not None:
        found = [_scale(one, 1.0) for one in stored[:MAX_EDGES]]
        return span | {
            "share": 1.0,
            "source": "service_edges",
            "edges": found,
            "more_edges": len(stored) > MAX_EDGES,
        }
    below = SHARES if span["spans"] <= most else max(SHARES * most // span["spans"], 1)
    edges = source.rows(_write_statement(below))
    share = below / SHARES
    return span | {
        "share": share,
        "source": "spans",
        "edges": [_scale(spread_latency(one), share) for one in edges[:MAX_EDGES]],
        "more_edges": len(edges) > MAX_EDGES,
    }


def _scale(edge: dict[str, Any], share: float) -> dict[str, Any]:
    return edge | {name: round(edge[name] / share) for name in COUNTS}
