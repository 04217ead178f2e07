"""The table of queries that were asked."""

import pyarrow as pa

from neve.model.columns import STRING_LIST, TIMESTAMP, Column, Table

SCAN = pa.struct(
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

QUERIES = Table(
    name="queries",
    comment="one row a query that a server answered or refused, written when it ended",
    columns=(
        Column("organization_id", pa.string(), "tenant that asked", required=True),
        Column("timestamp", TIMESTAMP, "when the query began", required=True),
        Column("query_id", pa.string(), "32 hexadecimal digits", required=True),
        Column("key_id", pa.string(), "API key that it was asked with; empty where none is needed"),
        Column("sql", pa.string(), "the statement as it was sent; a very long one is cut"),
        Column("normalised", pa.string(), "the statement without comments and spacing, to tell equal ones"),
        Column("tables", STRING_LIST, "tables that it names, in their order"),
        Column("scans", pa.list_(SCAN), "what was read and not read of each table, and by which condition"),
        Column("files", pa.int64(), "files that were read"),
        Column("bytes", pa.int64(), "their bytes"),
        Column("pruned_files", pa.int64(), "files that did not have to be read"),
        Column("pruned_bytes", pa.int64(), "their bytes"),
        Column("rows", pa.int64(), "rows of the result"),
        Column("planning_seconds", pa.float64(), "until it was known what to read"),
        Column("seconds", pa.float64(), "from the beginning to the end, with the time that the reader took"),
        Column("engine", pa.string(), "duckdb or spark; empty where none was needed"),
        Column("cache", pa.string(), "hit, miss or off"),
        Column("rollup", pa.string(), "table of rolled-up points that the answer came from; empty where none did"),
        Column("state", pa.string(), "done, failed or cancelled"),
        Column("error", pa.string(), "why it failed; empty where it did not"),
        Column("limit_name", pa.string(), "limit that it ran into: concurrency, memory, seconds, scan_bytes, rows"),
        Column("partial", pa.bool_(), "whether files were left out that could not be read"),
        Column("truncated", pa.bool_(), "whether rows were left out, as the sender asked for fewer"),
        Column("notes", STRING_LIST, "what was decided, and why"),
    ),
    partition=(("organization_id", "identity"), ("timestamp", "day")),
    sort=("timestamp",),
    bounded=("organization_id", "timestamp", "state", "seconds", "bytes"),
)
