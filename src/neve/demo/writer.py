"""The writer: puts the signals into files as a collector's file exporter would, a few minutes to a file."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.demo.batch import segments
from neve.demo.interval import MINUTE, SECOND, Interval
from neve.demo.wire_logs import log_lines
from neve.demo.wire_metrics import measurements, metrics_request
from neve.demo.wire_traces import traces_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from neve.demo.log import Log
    from neve.demo.metric import Stream
    from neve.demo.span import Span

FILE_MINUTES = 5  # of data in each file


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written, and its size."""

    path: Path
    bytes: int


def file_edges(run: Interval) -> list[int]:
    """Return the instants at which one file ends and the next begins."""
    step = FILE_MINUTES * MINUTE
    return [*range(run.start, run.end, step), run.end]


def write_traces(out: Path, spans: Iterable[Span], edges: list[int]) -> Iterator[Written]:
    """Write spans, by the time of their end, as protobuf: one request a file."""
    for start, part in zip(edges, segments(spans, lambda span: span.end, edges), strict=False):
        yield write_atomically(out / "traces" / f"{_stamp(start)}.binpb", traces_request(part).SerializeToString())


def write_logs(out: Path, logs: Iterable[Log], edges: list[int]) -> Iterator[Written]:
    """Write logs as gzipped lines of JSON: one request a line. No time goes into the gzip header: bytes repeat."""
    for start, part in zip(edges, segments(logs, lambda log: log.time, edges), strict=False):
        text = "".join(log_lines(part)).encode()
        yield write_atomically(out / "logs" / f"{_stamp(start)}.json.gz", gzip.compress(text, 5, mtime=0))


def write_metrics(out: Path, streams: Iterable[Stream], edges: list[int]) -> Iterator[Written]:
    """Write metrics as protobuf compressed with Zstandard: one request a file."""
    points = measurements(streams)
    for start, part in zip(edges, segments(points, lambda item: item.point.time_unix_nano, edges), strict=False):
        data = metrics_request(part).SerializeToString()
        packed = pa.compress(data, codec="zstd", asbytes=True)
        yield write_atomically(out / "metrics" / f"{_stamp(start)}.binpb.zst", packed)


def write_atomically(path: Path, data: bytes) -> Written:
    """Write a file so that a reader sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    draft.write_bytes(data)
    os.replace(draft, path)
    return Written(path, len(data))


def _stamp(instant: int) -> str:
    """Return an instant as a file name that sorts by time."""
    return datetime.fromtimestamp(instant // SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")
