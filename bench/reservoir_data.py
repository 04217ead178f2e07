"""Logs to sample: millions of rows in a thousand services of very different sizes, and OTAP tables with lifelike text.

Sizes follow a power law: the largest service has some percent of all rows, the smallest a few thousand of twenty
million. Weights have heavy tails, as the adjusted counts of logs that were sampled before do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

SERVICES = 1_000
FILE_ROWS = 1_000_000
SKEW = 0.8  # of the sizes of services
OTAP_LOGS = 200_000
NAMES = [f"service-{number:04d}" for number in range(SERVICES)]


def fill(folder: Path, rows: int) -> dict[str, int]:
    """Write Parquet files of `service`, `id` and `weight`; returns how many rows each service has."""
    folder.mkdir(parents=True)
    shares = (np.arange(SERVICES) + 1.0) ** -SKEW
    edges = np.cumsum(shares / shares.sum())
    counts = np.zeros(SERVICES, dtype=np.int64)
    for number, begin in enumerate(range(0, rows, FILE_ROWS)):
        random = np.random.default_rng(number)
        size = min(FILE_ROWS, rows - begin)
        service = np.minimum(np.searchsorted(edges, random.random(size)), SERVICES - 1)
        counts += np.bincount(service, minlength=SERVICES)
        names = pa.DictionaryArray.from_arrays(pa.array(service.astype(np.int16)), pa.array(NAMES))
        columns = {"service": names, "id": np.arange(begin, begin + size), "weight": (1 - random.random(size)) ** -0.7}
        pq.write_table(pa.table(columns), folder / f"part-{number:03d}.parquet", row_group_size=FILE_ROWS // 4)
    return {name: int(count) for name, count in zip(NAMES, counts, strict=True)}


def otap_bytes(folder: Path) -> tuple[int, int]:
    """Bytes of the columns that tell which logs to keep, and of all columns, of OTAP tables written to a folder."""
    needed = {"logs": ("id", "resource", "time_unix_nano"), "resource_attrs": ("parent_id", "key", "type", "str")}
    tables = {"logs": _logs(), "log_attrs": _log_attrs(), "resource_attrs": _resource_attrs()}
    decision = whole = 0
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, compression="zstd")
        for column, size in _sizes(path):
            whole += size
            decision += size if column in needed.get(name, ()) else 0
    return decision, whole


def _sizes(path: Path) -> list[tuple[str, int]]:
    footer = pq.read_metadata(path)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return [(chunk.path_in_schema.split(".")[0], chunk.total_compressed_size) for chunk in chunks]


def _logs() -> pa.Table:
    random = np.random.default_rng(1)
    ids = np.arange(OTAP_LOGS, dtype=np.uint32)
    times = 1_760_000_000_000_000_000 + np.cumsum(random.integers(1_000, 300_000, OTAP_LOGS))
    resource = pa.array(random.integers(0, SERVICES, OTAP_LOGS), pa.uint16())
    bodies = [
        f"{('GET', 'POST', 'PUT')[number % 3]} /api/v1/orders/{order} took {took:.2f} ms, user {order % 9973}"
        for number, order, took in zip(ids.tolist(), *_numbers(random), strict=True)
    ]
    kind = pa.array(np.ones(OTAP_LOGS, dtype=np.uint8))
    return pa.table(
        {
            "id": ids,
            "resource": pa.StructArray.from_arrays([resource], names=["id"]),
            "time_unix_nano": pa.array(times, pa.timestamp("ns")),
            "observed_time_unix_nano": pa.array(times + random.integers(0, 10_000_000, OTAP_LOGS), pa.timestamp("ns")),
            "trace_id": _ids(random, 16),
            "span_id": _ids(random, 8),
            "severity_number": pa.array(random.choice([9, 9, 9, 13, 17], OTAP_LOGS), pa.int32()),
            "severity_text": pa.array(random.choice(["INFO", "INFO", "INFO", "WARN", "ERROR"], OTAP_LOGS)),
            "body": pa.StructArray.from_arrays([kind, pa.array(bodies)], names=["type", "str"]),
        }
    )


def _numbers(random: np.random.Generator) -> tuple[list[int], list[float]]:
    return random.integers(0, 10_000_000, OTAP_LOGS).tolist(), random.lognormal(3, 1, OTAP_LOGS).tolist()


def _log_attrs() -> pa.Table:
    """Five attributes of each log."""
    random = np.random.default_rng(2)
    keys = ["code.function", "http.route", "http.status_code", "thread.name", "user.id"]
    texts = [
        [f"{key}-{number}" for number in range(size)] for key, size in zip(keys, (60, 40, 6, 64, 9973), strict=True)
    ]
    values = np.stack([random.choice(text, OTAP_LOGS) for text in texts], axis=1).ravel()
    parents = np.repeat(np.arange(OTAP_LOGS, dtype=np.uint32), len(keys))
    return _attrs(parents, keys * OTAP_LOGS, values.tolist())


def _resource_attrs() -> pa.Table:
    """Five attributes of each service."""
    keys = ["host.name", "service.instance.id", "service.name", "service.namespace", "service.version"]
    values = [f"{key}-{number}" for number in range(SERVICES) for key in keys]
    return _attrs(np.repeat(np.arange(SERVICES, dtype=np.uint32), len(keys)), keys * SERVICES, values)


def _attrs(parents: object, keys: list[str], values: list[str]) -> pa.Table:
    kind = pa.array(np.ones(len(keys), dtype=np.uint8))
    return pa.table({"parent_id": parents, "key": keys, "type": kind, "str": values})


def _ids(random: np.random.Generator, width: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), OTAP_LOGS, [None, pa.py_buffer(random.bytes(width * OTAP_LOGS))]
    )
