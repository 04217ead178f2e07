"""One decision query, two engines: DuckDB in this process and the tasks of a Spark job decide the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.tail.lakes import ERRORS, SLOW, Desk, Span, percentage, policies, put

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

EVERYTHING = (
    ERRORS,
    SLOW,
    {
        "name": "gold",
        "type": "string_attribute",
        "string_attribute": {"key": "tier", "values": ["^g"], "enabled_regex_matching": True},
    },
    {"name": "ottl", "type": "ottl_condition", "ottl_condition": {"span": ['attributes["tier"] == "tin"']}},
    {"name": "many", "type": "span_count", "span_count": {"min_spans": 9}},
    {"name": "bytes", "type": "bytes_limiting", "bytes_limiting": {"bytes_per_second": 100}},
    {"name": "by-service", "type": "dynamic", "dynamic": {"goal_sample_rate": 10, "fields": ["service.name"]}},
    percentage(5),
)


def test_both_engines_decide_the_same(spark_lake: Lake, tmp_path: Path) -> None:
    """Both engines decide the same."""
    chance = random.Random(7)
    spans = [
        Span(
            trace=chance.randrange(300),
            number=number,
            at=round(chance.random() * 600, 3),
            seconds=chance.choice((0.1, 0.2, 2)),
            error=chance.random() < 0.01,
            root=chance.random() < 0.2,
            service=chance.choice(("cart", "shop", "db")),
            organization=chance.choice(("acme", "globex")),
            attributes={"tier": chance.choice(("gold", "tin", "lead"))} if chance.random() < 0.02 else {},
        )
        for number in range(2000)
    ]
    put(spark_lake, spans[:1500])
    found = {}
    for engine in ("duckdb", "spark"):
        desk = Desk(spark_lake, tmp_path, policies=policies(*EVERYTHING))
        desk.set(name=engine, engine=engine, chunk_rows=1000)
        assert desk.run(at=400).engine == engine
        found[engine] = desk
    put(spark_lake, spans[1500:])
    for desk in found.values():
        desk.run(at=5000)

    rows = {name: [_told(row) for row in desk.decisions() if row["selector"] == name] for name, desk in found.items()}
    assert len(rows["duckdb"]) > 300
    assert {row["decision"] for row in rows["duckdb"]} == {"sampled", "not_sampled"}
    assert rows["duckdb"] == rows["spark"]


def _told(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "selector"}
