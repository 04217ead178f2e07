"""Read plain log files: split them into records of one or more lines, parse whole columns, convert to OTLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import UnknownLines
from neve.ingest.files.generic_records import GenericMessages
from neve.ingest.files.json_documents import check_size
from neve.ingest.files.log_columns import Int64s, LogColumns, to_mask, to_rows
from neve.ingest.files.log_formats import BY_NAME, LOOK_AT_BYTES, LogFormat, detect_log_format
from neve.ingest.files.log_times import LineRules, parse_times
from neve.model.signals import Signal
from neve.otlp import Rejected, encode

if TYPE_CHECKING:
    from neve.ingest.config import LinesConfig
    from neve.ingest.files.formats import Format

NEWLINE = 10
START, CONTINUATION, OTHER = 0, 1, 2
RECORDS_AT_ONCE = 100_000  # in one message


@dataclass(frozen=True)
class Records:
    """Texts of records with the number of their first line, and runs of lines that belong to none."""

    texts: pa.StringArray
    lines: Int64s
    others: pa.StringArray
    other_lines: Int64s


def read_log_lines(form: Format, data: bytes, rules: LineRules, most: int) -> tuple[Format, GenericMessages]:
    """Return the format and the records of a log file. Raises `UnknownLines` if its lines are of no known format.

    Raises `FileTooLarge` if its records have more than `most` bytes with the names of their attributes.
    """
    text = _as_utf8(data)
    log = BY_NAME.get(form) or detect_log_format(_first_lines(text))
    records = split_records(text, log, rules.config)
    check_size(len(text) + len(records.lines) * sum(map(len, log.attributes.values())), most)
    parts = pc.extract_regex(records.texts, log.pattern)
    good = parts.is_valid()
    bad = records.texts.filter(pc.invert(good)), records.lines[~to_mask(good)]
    rejected = [*_reject(log, records.others, records.other_lines), *_reject(log, *bad)]
    columns = LogColumns.of(log, parts.filter(good), records.texts.filter(good), records.lines[to_mask(good)])
    if rejected and not len(columns.lines):
        raise UnknownLines(
            f"none of its lines has the format {log.name}",
            hint="pass another --format, or omit it to detect the format",
        )
    messages = []
    for start in range(0, len(columns.lines), RECORDS_AT_ONCE):
        piece = columns.slice(start, RECORDS_AT_ONCE)
        nanos = parse_times(log, piece.get("time"), rules)
        rejected += piece.reject(nanos.is_null())
        messages.append(encode(Signal.LOGS, to_rows(piece.filter(nanos.is_valid()), nanos.drop_null())))
    found = pa.array([message for message in messages if message], pa.binary())
    return log.name, GenericMessages(Signal.LOGS, found, tuple(rejected))


def _as_utf8(data: bytes) -> bytes:
    """Return the bytes if they are UTF-8, or else with marks in place of those that are not."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


def _first_lines(data: bytes) -> pa.StringArray:
    head = data[:LOOK_AT_BYTES].decode(errors="ignore").splitlines()
    whole = head[:-1] if len(data) > LOOK_AT_BYTES and len(head) > 1 else head
    return pa.array([line for line in whole if line.strip()], pa.string())


def split_records(data: bytes, log: LogFormat, config: LinesConfig) -> Records:
    """Split a file into records. Lines are slices of the file, so that joining them copies nothing."""
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == NEWLINE) + 1
    starts = np.concatenate(([0], ends)).astype(np.int64)
    starts = starts[starts < len(data)]
    lines = _slices(data, starts, len(data))
    kinds = _line_kinds(lines, log, config.continuation)
    last = np.maximum.accumulate(np.where(kinds != CONTINUATION, np.arange(len(kinds)), -1))
    owner = np.where(last >= 0, kinds[last], OTHER) if len(kinds) else kinds
    begins = (kinds == START) | ((owner == OTHER) & (np.concatenate(([START], owner[:-1])) != OTHER))
    first = _limit_lines(np.flatnonzero(begins), len(kinds), config.max_lines)
    texts = pc.ascii_rtrim(_slices(data, starts[first[:, 0]], len(data)), "\r\n")
    is_record = (owner[first[:, 0]] == START) & (first[:, 1] == 0)
    mask = pa.array(is_record)
    return Records(texts.filter(mask), first[is_record, 0], texts.filter(pc.invert(mask)), first[~is_record, 0])


def _slices(data: bytes, starts: Int64s, end: int) -> pa.StringArray:
    offsets = np.append(starts, end).astype(np.int32)
    return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(data))


def _line_kinds(lines: pa.StringArray, log: LogFormat, continuation: str) -> npt.NDArray[np.int8]:
    """Return for each line whether it begins a record, continues one, or neither. Blank lines continue."""
    pattern = continuation or log.continuation
    is_start = to_mask(pc.match_substring_regex(lines, log.start))
    continues = to_mask(pc.match_substring_regex(lines, r"^\s*$"))
    if pattern is not None and not is_start.all():
        continues = continues | to_mask(pc.match_substring_regex(lines, pattern))
    if continuation:  # the user's rule counts more than the format
        is_start = is_start & ~to_mask(pc.match_substring_regex(lines, continuation))
    return np.where(is_start, START, np.where(continues, CONTINUATION, OTHER)).astype(np.int8)


def _limit_lines(first: Int64s, count: int, most: int) -> Int64s:
    """Return the first line of each run with a 0, and with a 1 the line after the `most`-th of a run that is longer."""
    lengths = np.diff(np.append(first, count))
    long = first[lengths > most] + most
    runs = np.concatenate((np.column_stack((first, np.zeros_like(first))), np.column_stack((long, np.ones_like(long)))))
    ordered: Int64s = runs[np.argsort(runs[:, 0], kind="stable")].astype(np.int64)
    return ordered


def _reject(log: LogFormat, texts: pa.StringArray, lines: Int64s) -> list[Rejected]:
    detail = f"the line does not have the format {log.name}"
    return [
        Rejected("malformed_line", detail, line, text.encode(), log.name)
        for text, line in zip(texts.to_pylist(), lines.tolist(), strict=True)
        if text.strip()
    ]
