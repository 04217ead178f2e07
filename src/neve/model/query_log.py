"""Table of the query log."""

import pyarrow as pa

from neve.model.columns import STRING_LIST, TIMESTAMP, Column, Table

QUERY_SCAN = pa.struct(
    [
        ("table", pa.string()),
        ("snapshot", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("pruned_files", pa.int64()),
        ("pruned_bytes", pa.int64()),
        ("predicate", pa.string()),
    ]
)

PAGE_NOTE = "sent by the web page"  # among the notes of a query that a screen sent, not a person

QUERIES = Table(
    name="queries",
    comment="query log: one row per query that a server executed or rejected, written at its end",
    columns=(
        Column("organization_id", pa.string(), "tenant that sent the query", required=True),
        Column("timestamp", TIMESTAMP, "start of the query", required=True),
        Column("query_id", pa.string(), "32 hexadecimal digits", required=True),
        Column("key_id", pa.string(), "id of the API key; empty if none is needed"),
        Column("sql", pa.string(), "the statement as sent; long ones are truncated"),
        Column("normalised", pa.string(), "the statement without comments and extra spaces, to group equal ones"),
        Column("tables", STRING_LIST, "tables of the statement, in order"),
        Column("scans", pa.list_(QUERY_SCAN), "files that were read and pruned of each table, and the predicate"),
        Column("files", pa.int64(), "files that were read"),
        Column("bytes", pa.int64(), "bytes of these files"),
        Column("pruned_files", pa.int64(), "files that were pruned"),
        Column("pruned_bytes", pa.int64(), "bytes of these files"),
        Column("rows", pa.int64(), "rows of the result"),
        Column("planning_seconds", pa.float64(), "duration of planning"),
        Column("seconds", pa.float64(), "total duration, including the time until the client had read the result"),
        Column("engine", pa.string(), "duckdb or spark; empty if none was needed"),
        Column("cache", pa.string(), "hit, miss or off"),
        Column("rollup", pa.string(), "rollup table that the query was answered from; empty if none was"),
        Column("state", pa.string(), "done, failed or cancelled"),
        Column("error", pa.string(), "error message; empty if the query did not fail"),
        Column("limit_name", pa.string(), "exceeded limit: concurrency, memory, seconds, scan_bytes, rows"),
        Column("partial", pa.bool_(), "whether unreadable files were skipped"),
        Column("truncated", pa.bool_(), "whether rows were omitted because the client requested fewer"),
        Column("notes", STRING_LIST, "decisions of the planner and their reasons"),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("timestamp",),
    bounded=("organization_id", "timestamp", "state", "seconds", "bytes"),
)
