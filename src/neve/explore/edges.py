"""Calls between services: the edges of the service map.

A call is a span whose parent, in the same trace, is a client or producer span or belongs to another service. A client
span without such a child called something that sends no spans: a database, a queue or another peer, named by its
attributes. A server span without a parent was called by a user. All spans of a range are joined, so above a number of
spans a share of the traces is read, chosen by the last byte of their ids, and the counts are scaled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.explore.services import ERROR, NAME_CHARACTERS, aggregate_calls, read_range, spread_latency

if TYPE_CHECKING:
    from neve.explore.source import RecordSource

__all__ = ["MAX_EDGES", "MAX_JOINED_SPANS", "read_edges"]

MAX_EDGES = 1000
MAX_JOINED_SPANS = 2_000_000
SHARES = 256  # values of the last byte of a trace id
USER = "user"
_CLIENTS, _SERVERS = "(3, 4)", "(2, 5)"
# Attributes that name a peer, in the order of the semantic conventions: the newest first.
_PEER = ("peer.service", "server.address", "net.peer.name", "network.peer.address", "net.peer.ip")
_DATABASE = ("db.namespace", "db.name", "db.system.name", "db.system")
_QUEUE = ("messaging.destination.name", "messaging.destination", "messaging.system")
# A sampler before Neve states how many spans one represents: by an attribute, or by its threshold in the trace state.
ADJUSTED_COUNT = "sampling.adjusted_count"
COUNTS = ("calls", "errors", "estimated_calls", "estimated_errors")
MAX_WEIGHT = 1e12
_THRESHOLD = "regexp_extract(trace_state, '(?:^|[,;])\\s*(?:ot=)?(?:[^,]*;)?th:([0-9a-f]{1,14})(?:[;,]|$)', 1)"
_DROPPED = f"CAST('0x' || rpad(nullif({_THRESHOLD}, ''), 14, '0') AS UBIGINT) / 72057594037927936.0"  # of 2^56
_STATED = f"coalesce(TRY_CAST(attributes['{ADJUSTED_COUNT}'] AS DOUBLE), 1 / (1 - {_DROPPED}))"
_WEIGHT = f"CASE WHEN {_STATED} BETWEEN 1 AND {MAX_WEIGHT} THEN {_STATED} ELSE 1.0 END"
# ruff: noqa: S608 - statements are made of constants


def _first_attribute(names: tuple[str, ...]) -> str:
    """Return the SQL of the first attribute that is not empty, or null."""
    values = ", ".join(f"nullif(attributes['{name}'], '')" for name in names)
    return f"left(coalesce({values}), {NAME_CHARACTERS})"


def _write_statement(byte_below: int) -> str:
    share = f"WHERE right(hex(trace_id), 2) < '{byte_below:02X}'" if byte_below < SHARES else ""
    total = aggregate_calls("duration_ms", "failed")
    return f"""
    WITH calls AS (
        SELECT trace_id, span_id, parent_span_id, left(coalesce(service_name, ''), {NAME_CHARACTERS}) AS service,
            span_kind AS kind, status_code = {ERROR} AS failed, duration_ms, {_WEIGHT} AS weight,
            {_first_attribute(_PEER)} AS peer, {_first_attribute(_DATABASE)} AS database,
            {_first_attribute(_QUEUE)} AS queue
        FROM spans {share}
    ),
    pairs AS (
        SELECT caller.trace_id AS trace_id, caller.span_id AS span_id,
            caller.service AS client, called.service AS server,
            CASE WHEN caller.kind = 4 OR called.kind = 5 THEN 'messaging_system' ELSE '' END AS connection,
            coalesce(caller.failed, false) OR coalesce(called.failed, false) AS failed,
            called.duration_ms AS duration_ms, called.weight AS weight
        FROM calls AS called JOIN calls AS caller
            ON called.trace_id = caller.trace_id AND called.parent_span_id = caller.span_id
        WHERE caller.service <> called.service OR (caller.kind IN {_CLIENTS} AND called.kind IN {_SERVERS})
    ),
    unanswered AS (
        SELECT service AS client,
            CASE WHEN database IS NOT NULL THEN coalesce(peer, database) ELSE coalesce(queue, peer) END AS server,
            CASE WHEN database IS NOT NULL THEN 'database' WHEN queue IS NOT NULL THEN 'messaging_system'
                ELSE 'virtual_node' END AS connection, coalesce(failed, false) AS failed, duration_ms, weight
        FROM calls ANTI JOIN pairs ON calls.trace_id = pairs.trace_id AND calls.span_id = pairs.span_id
        WHERE kind IN {_CLIENTS} AND (peer IS NOT NULL OR database IS NOT NULL OR queue IS NOT NULL)
    ),
    entries AS (
        SELECT '{USER}' AS client, service AS server, 'virtual_node' AS connection,
            coalesce(failed, false) AS failed, duration_ms, weight
        FROM calls WHERE kind IN {_SERVERS} AND parent_span_id IS NULL
    ),
    edges AS (
        SELECT client, server, connection, failed, duration_ms, weight FROM pairs
        UNION ALL SELECT client, server, connection, failed, duration_ms, weight FROM unanswered
        UNION ALL SELECT client, server, connection, failed, duration_ms, weight FROM entries
    )
    SELECT client, server, connection, {total}, sum(weight) AS estimated_calls,
        coalesce(sum(weight) FILTER (WHERE failed), 0) AS estimated_errors FROM edges GROUP BY 1, 2, 3
    ORDER BY calls DESC, client, server, connection LIMIT {MAX_EDGES + 1}
    """


def read_edges(source: RecordSource, most: int = MAX_JOINED_SPANS) -> dict[str, Any]:
    """Return the edges with the most calls, and the share of traces that they were counted in."""
    span = read_range(source)
    below = SHARES if span["spans"] <= most else max(SHARES * most // span["spans"], 1)
    edges = source.rows(_write_statement(below))
    share = below / SHARES
    return span | {
        "share": share,
        "edges": [_scale(spread_latency(one), share) for one in edges[:MAX_EDGES]],
        "more_edges": len(edges) > MAX_EDGES,
    }


def _scale(edge: dict[str, Any], share: float) -> dict[str, Any]:
    return edge | {name: round(edge[name] / share) for name in COUNTS}
