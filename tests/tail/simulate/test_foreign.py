"""Tables that others write: simulated and looked into by their own columns, with files left out where they tell."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.types import BinaryType, FixedType, LongType, StringType, UUIDType

from neve.tail.config import TailConfig
from neve.tail.explain import TraceFileIndex, encode_trace_id, open_trace_judge
from neve.tail.simulate.simulator import Period, Simulator
from tests.tail.simulate.lakes import ACME, ERRORS, LATER, SLOW, START, Trace, policies, selector_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from neve.lake.lake import Lake

TRACES = [Trace(number, seconds=number * 100, spans=2, error=number == 3) for number in range(6)]
TIMES: dict[str, tuple[pa.DataType, Callable[[datetime], Any]]] = {
    "timestamp_ms": (pa.int64(), lambda moment: int(moment.timestamp() * 1000)),
    "start_time": (pa.timestamp("us"), lambda moment: moment.replace(tzinfo=None)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda moment: moment),
}


def foreign(lake: Lake, time: str, id_of: Callable[[bytes], Any] = bytes.hex) -> dict[str, Any]:
    """A table with a commit for each trace; the settings that read it."""
    kind, written = TIMES[time]
    is_text = isinstance(id_of(b"\1" * 16), str)
    ids = pa.string() if is_text else pa.binary()
    schema = pa.schema(
        [
            ("trace_id", ids),
            ("parent_span_id", ids),
            (time, kind),
            ("duration_ms", pa.int64()),
            ("status_code", pa.int32()),
        ]
    )
    lake.catalog.create_namespace_if_not_exists("others")
    table = lake.catalog.create_table("others.spans", schema)
    for trace in TRACES:
        rows = [
            {
                "trace_id": id_of(trace.id),
                "parent_span_id": id_of(row["parent_span_id"]) if row["parent_span_id"] else None,
                time: written(row["timestamp"]),
                "duration_ms": trace.duration_ms,
                "status_code": row["status_code"],
            }
            for row in trace.rows(START)
        ]
        table.append(pa.Table.from_pylist(rows, schema))
    return {"source": {"table": "others.spans", "organization": ACME}, "clock": "event", "max_duration_seconds": 10}


@pytest.mark.parametrize("time", TIMES)
def test_files_of_other_times_are_not_read(lake: Lake, time: str) -> None:
    """Whether times are numbers, with a zone or without one."""
    settings = foreign(lake, time)
    period = Period(START + timedelta(seconds=200), START + timedelta(seconds=400))
    one = Simulator(lake, TailConfig(**settings), period, clock=lambda: LATER)
    told = one.simulate(policies(ERRORS, SLOW))
    assert (told.before.traces, told.before.spans, told.kept.traces) == (2, 4, 1)
    # the trace that begins with the end of the period is near enough to be looked at
    assert told.files == 3


@pytest.mark.parametrize(
    "id_of",
    [bytes.hex, lambda raw: raw.hex().upper(), lambda raw: str(UUID(bytes=raw.ljust(16))), bytes],
    ids=("hex", "upper", "uuid", "bytes"),
)
def test_a_trace_is_found_however_its_id_is_written(lake: Lake, tmp_path: Path, id_of: Callable[[bytes], Any]) -> None:
    """And only in files whose bounds may hold it."""
    settings = foreign(lake, "timestamp_ms", id_of)
    selector = selector_of(lake, tmp_path, policies(ERRORS, SLOW), **settings)
    with open_trace_judge(selector) as judge:
        for trace in TRACES[2:4]:
            found = judge.evaluate(ACME, trace.id)
            assert found is not None
            assert (found.spans, found.decision) == (2, "sampled" if trace.error else "not_sampled")
            assert found.files < len(TRACES)
        assert judge.evaluate(ACME, b"\0" * 16) is None
        assert judge.evaluate("globex", TRACES[2].id) is None


def test_spellings() -> None:
    """As a column may say an id; what is neither bytes nor text is looked for everywhere."""
    raw = bytes(range(16))
    assert encode_trace_id(BinaryType(), raw) == encode_trace_id(FixedType(16), raw) == [raw]
    assert encode_trace_id(UUIDType(), raw) == [UUID(bytes=raw)]
    assert "000102030405060708090A0B0C0D0E0F" in encode_trace_id(StringType(), raw)
    assert encode_trace_id(LongType(), raw) == []


def test_buckets_are_those_of_the_table(lake: Lake, tmp_path: Path) -> None:
    """A trace of the lake's own table is looked for in one of sixteen, which does hold it."""
    from tests.tail.simulate.lakes import put

    put(lake, [Trace(number) for number in range(80)])
    selector = selector_of(lake, tmp_path, policies(ERRORS))
    files = TraceFileIndex(selector.source)
    for trace in (Trace(3), Trace(50)):
        found = files.of(trace.id)
        assert len(found.files) == 1
        table = selector.source.now()
        with table.io.new_input(found.files[0].path).open() as opened:
            assert trace.id in pa.parquet.read_table(opened, columns=["trace_id"]).column(0).to_pylist()
