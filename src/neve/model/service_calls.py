"""Calls between services, as SQL over spans for DuckDB: the definition of an edge of the service map.

A call is a span whose parent, in the same trace, is a client or producer span or belongs to another service. A client
span without such a child called something that sends no spans: a database, a queue or another peer, named by its
attributes. A server span without a parent was called by a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ADJUSTED_COUNT", "NAME_CHARACTERS", "SPAN_COLUMNS", "USER", "WEIGHT", "write_calls"]

NAME_CHARACTERS = 200
USER = "user"
ERROR = 2
_CLIENTS, _SERVERS = "(3, 4)", "(2, 5)"
# Attributes that name a peer, in the order of the semantic conventions: the newest first.
_PEER = ("peer.service", "server.address", "net.peer.name", "network.peer.address", "net.peer.ip")
_DATABASE = ("db.namespace", "db.name", "db.system.name", "db.system")
_QUEUE = ("messaging.destination.name", "messaging.destination", "messaging.system")
# A sampler before Neve states how many spans one represents: by an attribute, or by its threshold in the trace state.
ADJUSTED_COUNT = "sampling.adjusted_count"
MAX_WEIGHT = 1e12
_THRESHOLD = "regexp_extract(trace_state, '(?:^|[,;])\\s*(?:ot=)?(?:[^,]*;)?th:([0-9a-f]{1,14})(?:[;,]|$)', 1)"
_DROPPED = f"CAST('0x' || rpad(nullif({_THRESHOLD}, ''), 14, '0') AS UBIGINT) / 72057594037927936.0"  # of 2^56
_STATED = f"coalesce(TRY_CAST(attributes['{ADJUSTED_COUNT}'] AS DOUBLE), 1 / (1 - {_DROPPED}))"
WEIGHT = f"CASE WHEN {_STATED} BETWEEN 1 AND {MAX_WEIGHT} THEN {_STATED} ELSE 1.0 END"
SPAN_COLUMNS = (
    *("timestamp", "trace_id", "span_id", "parent_span_id", "service_name", "span_kind", "status_code", "duration_ms"),
    *("trace_state", "attributes"),
)
# ruff: noqa: S608 - statements are made of constants


def _first_attribute(names: tuple[str, ...]) -> str:
    """Return the SQL of the first attribute that is not empty, or null."""
    values = ", ".join(f"nullif(attributes['{name}'], '')" for name in names)
    return f"left(coalesce({values}), {NAME_CHARACTERS})"


def write_calls(spans: str, keys: Sequence[str] = ("trace_id",)) -> str:
    """Return the common table expressions of a statement, of which `edges` has a row for each call.

    `spans` is the FROM clause of rows with `SPAN_COLUMNS`, and `keys` identify a trace among them. Columns of `edges`
    are the keys, `began` (start of the called span, if there is one), `client`, `server`, `connection`, `failed`,
    `client_ms`, `server_ms` and `weight` (calls that it represents). Both latencies are that of the only span if the
    other side sends none.
    """
    key = ", ".join(keys)
    of_caller = ", ".join(f"caller.{one} AS {one}" for one in keys)
    same_trace = " AND ".join(f"called.{one} = caller.{one}" for one in keys)
    is_answered = " AND ".join(f"calls.{one} = pairs.{one}" for one in (*keys, "span_id"))
    columns = f"{key}, began, client, server, connection, failed, client_ms, server_ms, weight"
    return f"""
    calls AS (
        SELECT {key}, span_id, parent_span_id, timestamp AS began,
            left(coalesce(service_name, ''), {NAME_CHARACTERS}) AS service,
            span_kind AS kind, coalesce(status_code = {ERROR}, false) AS failed, duration_ms, {WEIGHT} AS weight,
            {_first_attribute(_PEER)} AS peer, {_first_attribute(_DATABASE)} AS database,
            {_first_attribute(_QUEUE)} AS queue
        FROM {spans}
    ),
    pairs AS (
        SELECT {of_caller}, caller.span_id AS span_id, called.began AS began,
            caller.service AS client, called.service AS server,
            CASE WHEN caller.kind = 4 OR called.kind = 5 THEN 'messaging_system' ELSE '' END AS connection,
            caller.failed OR called.failed AS failed,
            coalesce(caller.duration_ms, called.duration_ms) AS client_ms,
            coalesce(called.duration_ms, caller.duration_ms) AS server_ms, called.weight AS weight
        FROM calls AS called JOIN calls AS caller ON {same_trace} AND called.parent_span_id = caller.span_id
        WHERE caller.service <> called.service OR (caller.kind IN {_CLIENTS} AND called.kind IN {_SERVERS})
    ),
    unanswered AS (
        SELECT {key}, began, service AS client,
            CASE WHEN database IS NOT NULL THEN coalesce(peer, database) ELSE coalesce(queue, peer) END AS server,
            CASE WHEN database IS NOT NULL THEN 'database' WHEN queue IS NOT NULL THEN 'messaging_system'
                ELSE 'virtual_node' END AS connection,
            failed, duration_ms AS client_ms, duration_ms AS server_ms, weight
        FROM calls ANTI JOIN pairs ON {is_answered}
        WHERE kind IN {_CLIENTS} AND (peer IS NOT NULL OR database IS NOT NULL OR queue IS NOT NULL)
    ),
    entries AS (
        SELECT {key}, began, '{USER}' AS client, service AS server, 'virtual_node' AS connection,
            failed, duration_ms AS client_ms, duration_ms AS server_ms, weight
        FROM calls WHERE kind IN {_SERVERS} AND parent_span_id IS NULL
    ),
    edges AS (
        SELECT {columns} FROM pairs
        UNION ALL SELECT {columns} FROM unanswered
        UNION ALL SELECT {columns} FROM entries
    )
    """
