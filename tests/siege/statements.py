"""The worst queries that are known, the attacks on the walls between organizations, and requests for bad places."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from neve.api.prometheus.routes import PREFIX
from tests.fuzz import bombs
from tests.promql.hostile_requests import hostile_requests
from tests.query.attacks import POSITIONS, fixed_attacks, lookalikes
from tests.siege.plan import HONEST

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 200_000_000
HOGS = (
    *(
        f"SELECT {name}(i) FROM range({LARGE}) t(i)"
        for name in ("mode", "median", "entropy", "mad", "list", "histogram")
    ),
    "SELECT string_agg(repeat('x', 1000), '') FROM range(10000000)",
    "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3",
    "SELECT max(a.message || b.message || c.message) FROM logs a, logs b, logs c",
    "SELECT i, row_number() OVER (ORDER BY hash(i)) FROM range(100000000) t(i) ORDER BY 2 DESC LIMIT 5",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
    "SELECT count(DISTINCT i % 90000000) FROM range(1000000000) t(i)",
)
LONG = "SELECT i, repeat('x', 200) AS x FROM range(20000000) t(i)"  # a large result, which is read slowly


def worst() -> list[str]:
    """Statements that would take everything, one way or another."""
    return [*HOGS, *(bomb.make().decode() for bomb in bombs.statements())]


def promql(now: int) -> list[tuple[str, bytes]]:
    """PromQL requests that would take everything: paths and forms."""
    return [
        (f"{PREFIX}{path}", urlencode({"time": now, **parameters}, doseq=True).encode())
        for path, parameters in hostile_requests(now).values()
    ]


def attacks(folder: Path) -> list[str]:
    """Statements that would read another organization's rows."""
    paths = [
        f"{folder}/warehouse/telemetry/logs/data/**/*.parquet",
        f"{folder}/warehouse/telemetry/*/metadata/*.metadata.json",
        f"{folder}/catalog.db",
        "warehouse/telemetry/spans/data/*/*/*.parquet",
    ]
    named = [
        position.format(t=path, n=name)
        for path in paths
        for name, position in zip([path, *lookalikes(path)] * len(POSITIONS), POSITIONS, strict=False)
    ]
    asked = [
        f"SELECT * FROM {table} WHERE true OR organization_id = '{HONEST}'"
        for table in ("logs", "spans", "quarantine", "queries", "trace_decisions")
    ]
    return [*named, *asked, *fixed_attacks()]


def announcements(folder: Path) -> list[bytes]:
    """Events that announce what nobody may read."""
    places = (
        "s3://no-such-bucket-of-anybody/x.json",
        "file:///etc/passwd",
        f"{folder}/warehouse/telemetry/logs/data/x.parquet",
        f"{folder}/raw/../state.db",
        "s3://" + "a/" * 500,
    )
    return [json.dumps({"path": place, "format": "json_lines", "signal": "logs"}).encode() for place in places]
