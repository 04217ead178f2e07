"""JSON lines and CSV to OTLP messages on one core, in rows a CPU second, with peak memory.

The lines are logs of ten fields in a plain object, logs with attributes in an object of their own, which need a map for
each record, and logs of ten columns in CSV. The way that takes any shape (`general`) reads the same flat files in the
same run, and must give the same messages. Decoding the messages to rows comes on top (`decode`).
"""

from __future__ import annotations

import csv
import io
import json
import random
import time
from typing import TYPE_CHECKING
from unittest.mock import patch

import pyarrow as pa

from bench.report import Report
from bench.sizes import choose
from bench.usage import Meter, Usage
from neve.ingest.config import FieldsConfig
from neve.ingest.files import generic_records
from neve.ingest.files.reader import ReadOptions, read_messages
from neve.model.signals import Signal
from neve.otlp import Intake, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.ingest.files.reader import Messages

ROWS = choose(200_000, 40_000)
ROUNDS = choose(3, 2)
SEED = 7


def main() -> None:
    """Read each file in both ways, in turns, and compare the best CPU times."""
    pa.set_cpu_count(1)
    report = Report("records", baselines={"general": {}, "decode": {}})
    records = make_records()
    files = {"json": ("logs.jsonl", to_lines(records)), "csv": ("logs.csv", to_csv(records))}
    for name, (path, data) in files.items():
        flat, general = _best(lambda: read(path, data)), _best(lambda: read_generally(path, data))  # noqa: B023 - run at once
        assert read(path, data) == read_generally(path, data)
        messages = read(path, data).messages.to_pylist()
        decoded = _best(lambda: decode(Signal.LOGS, messages, Intake("bench", time.time_ns())))  # noqa: B023
        report.ours |= {f"{name}_rows_per_cpu_s": flat.per_second(ROWS), f"{name}_peak_mb": flat.peak_mb}
        report.baselines["general"] |= {
            f"{name}_rows_per_cpu_s": general.per_second(ROWS),
            f"{name}_peak_mb": general.peak_mb,
        }
        report.baselines["decode"][f"{name}_rows_per_cpu_s"] = decoded.per_second(ROWS)
        report.ratios[f"{name}_vs_general"] = general.cpu_s / flat.cpu_s
    nested = to_lines([{**record, "attributes": {"user": record.pop("user")}} for record in records])
    report.ours["nested_json_rows_per_cpu_s"] = _best(lambda: read("logs.jsonl", nested)).per_second(ROWS)
    report.show()


def make_records() -> list[dict[str, object]]:
    """Return logs of ten fields."""
    chance = random.Random(SEED)
    return [
        {
            "timestamp": f"2026-02-02T09:{number // 60 % 60:02}:{number % 60:02}.{number % 1000:03}Z",
            "level": chance.choice(("INFO", "WARN", "ERROR")),
            "message": f"GET /api/v1/orders/{number} took {chance.random() * 100:.2f} ms",
            "service": f"service-{number % 20}",
            "trace_id": f"{chance.getrandbits(128):032x}",
            "span_id": f"{chance.getrandbits(64):016x}",
            "http.status": chance.choice((200, 404, 500)),
            "user": f"u{number % 997}",
            "region": "eu-west-1",
            "cached": number % 3 == 0,
        }
        for number in range(ROWS)
    ]


def to_lines(records: list[dict[str, object]]) -> bytes:
    """Return records as JSON lines."""
    return "\n".join(map(json.dumps, records)).encode()


def to_csv(records: list[dict[str, object]]) -> bytes:
    """Return records as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def read(path: str, data: bytes) -> Messages:
    """Return the messages of a file."""
    [messages] = read_messages(path, data, ReadOptions(Signal.LOGS), FieldsConfig())
    return messages


def read_generally(path: str, data: bytes) -> Messages:
    """Return the messages of a file, with a map of fields for each record."""
    with patch.object(generic_records, "_read_flat", lambda *_arguments: None):
        return read(path, data)


def _best(run: Callable[[], object]) -> Usage:
    """Return the cheapest of some rounds."""
    rounds = []
    for _round in range(ROUNDS):
        with Meter(with_children=False) as usage:
            run()
        rounds.append(usage)
    return min(rounds, key=lambda usage: usage.cpu_s)


if __name__ == "__main__":
    main()
