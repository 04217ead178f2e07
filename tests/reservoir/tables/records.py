"""Logs and spans for samples, and what the sample of them must be, in plain Python."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.lake.calendar import micros_of
from neve.lake.commit.append import append_once
from neve.lake.time_ranges import floor
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS, SPANS
from neve.reservoir.sampling.methods import sample_exact_total, sample_priority
from neve.reservoir.tables.decide import salt_for

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.lake import Lake
    from neve.reservoir.config import LakeSampling

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
ATTRIBUTE = "sampling.adjusted_count"
SCHEMAS = {"logs": LOGS.schema, "spans": SPANS.schema}

Row = dict[str, Any]


def record(number: int, *, owner: str = "acme", seconds: float = 0, weight: str | None = None, **more: Any) -> Row:
    """A record of one of three services; its weight, where it says one, is a double."""
    at = START + timedelta(seconds=seconds)
    attributes, types = [("n", str(number))], [("n", "int")]
    if weight is not None:
        attributes.insert(0, (ATTRIBUTE, weight))
        types.append((ATTRIBUTE, "double"))
    service = f"service-{number % 3}"
    return {
        "organization_id": owner,
        "timestamp": at,
        "service_name": service,
        "attributes": attributes,
        "attribute_types": types,
        "resource_attrs": [("service.name", service)],
        "record_id": hashlib.md5(f"{owner}{number}".encode(), usedforsecurity=False).digest(),
        "ingested_at": at,
        **more,
    }


def records(numbers: Iterable[int], *, per_second: int = 1, **more: Any) -> list[Row]:
    """Records one after the other in time, every fifth of which stands for several."""
    return [
        record(number, seconds=number / per_second, weight=str(1.5 + number % 7) if number % 5 == 0 else None, **more)
        for number in numbers
    ]


def put(lake: Lake, rows: list[Row], batch: str, table: str = "logs") -> None:
    """Take records in, in one commit."""
    loaded = lake.table(table)
    files = write_files(Target.of(loaded), pa.Table.from_pylist(rows, schema=SCHEMAS[table]))
    append_once(loaded, files, batch_id=batch, operation="test")


def weight_of(row: Row) -> float:
    """What a record weighs."""
    return float(dict(row["attributes"]).get(ATTRIBUTE, 1.0))


def expected(rows: list[Row], config: LakeSampling, table: str = "logs") -> dict[tuple[str, int, bytes], float]:
    """The sample that the reference draws: what every kept record stands for."""
    groups: defaultdict[tuple[str, int, str], dict[bytes, float]] = defaultdict(dict)
    for row in rows:
        start = floor(micros_of(row["timestamp"]), config.micros)
        group = " / ".join(row[name] for name in config.by)
        groups[row["organization_id"], start, group][row["record_id"]] = weight_of(row)
    salt = salt_for(config, table)
    found: dict[tuple[str, int, bytes], float] = {}
    for (owner, start, group), items in groups.items():
        if config.k is None:
            found |= {(owner, start, key): weight for key, weight in items.items()}
            continue
        if config.method == "priority":
            kept = sample_priority(items.items(), config.k, salt)
        else:
            kept = sample_exact_total(items.items(), config.k, salt, (owner, str(start), group))
        found |= {(owner, start, one.key): one.adjusted for one in kept if isinstance(one.key, bytes)}
    return found


def sampled(lake: Lake, table: str = "logs_sample") -> dict[tuple[str, int, bytes], float]:
    """The sample that a table holds; every record once, its count in a column and in an attribute."""
    rows = lake.table(table).scan().to_arrow().to_pylist()
    found = {
        (row["organization_id"], micros_of(row["sampling_window"]), bytes(row["record_id"])): row["adjusted_count"]
        for row in rows
    }
    assert len(found) == len(rows)
    assert all(float(dict(row["attributes"])[ATTRIBUTE]) == row["adjusted_count"] for row in rows)
    assert all(dict(row["attribute_types"])[ATTRIBUTE] == "double" for row in rows)
    assert all([key for key, _value in row["attributes"]].count(ATTRIBUTE) == 1 for row in rows)
    return found
