"""Lakes with logs, and an index of them that is made in this process, without a JVM."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.lake.calendar import now_utc
from neve.lake.commit.append import append_once
from neve.lake.tables import init_tables
from neve.lake.tokenizer import tokenize
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.model.tables import SEARCH_INDEX
from neve.otlp import Intake, decode
from neve.search.plan import live_files, load_index_files, plan_build
from neve.search.tasks import TaskRunner
from tests.query.lakes import ACME, NOW, logs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.lake import Lake
    from neve.search.tasks import TaskResult

_numbers = itertools.count()


def put(lake: Lake, messages: Sequence[str], organization: str = ACME) -> None:
    """One more commit, and data file, of logs."""
    decoded = decode(Signal.LOGS, [logs(*messages).SerializeToString()], Intake(organization, NOW))
    table = lake.table("logs")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
    append_once(table, files, batch_id=f"search {next(_numbers)}", operation="test")


def with_index(lake: Lake) -> Lake:
    """A lake that has the table of the index."""
    init_tables(lake, (SEARCH_INDEX,))
    return lake


def put_span(lake: Lake, trace_id: bytes, number: int) -> None:
    """One more commit, and data file, of a span."""
    span = Span(trace_id=trace_id, span_id=number.to_bytes(8, "big"), name="x", start_time_unix_nano=NOW)
    request = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])])
    decoded = decode(Signal.TRACES, [request.SerializeToString()], Intake(ACME, NOW))
    table = lake.table("spans")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
    append_once(table, files, batch_id=f"span {next(_numbers)}", operation="test")


def assignment_of(lake: Lake, range_rows: int = 1, table: str = "logs") -> TaskRunner:
    """What the tasks of a run are told."""
    source, index = (Target.of(lake.table(name)) for name in (table, SEARCH_INDEX.name))
    return TaskRunner(source, index, table, 0.01, range_rows, now_utc())


def index_here(
    lake: Lake, range_rows: int = 1, table: str = "logs", columns: tuple[str, ...] = ("message",)
) -> list[TaskResult]:
    """Index what is missing, as a run would, and commit it."""
    index = lake.table(SEARCH_INDEX.name)
    planned = plan_build(live_files(lake.table(table)), load_index_files(index, table), columns)
    done = [assignment_of(lake, range_rows, table)(task) for task in planned.tasks]
    paths = [str(file["file-path"]) for one in done for file in one.added]
    if paths:
        index.add_files(paths)
    return done


def words_by_file(lake: Lake) -> dict[str, frozenset[str]]:
    """The words that each file of the logs truly holds, by reading it."""
    table = lake.table("logs")
    found = {}
    for task in table.scan().plan_files():
        with table.io.new_input(task.file.file_path).open() as source:
            texts = pa.parquet.read_table(source, columns=["message"]).column(0).to_pylist()
        found[task.file.file_path] = frozenset().union(*(tokenize(text) for text in texts if text))
    return found
