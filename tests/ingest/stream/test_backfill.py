"""Late data: to its right partition, in as few files as there are partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.ingest.config import IngestConfig
from neve.ingest.files.job import FileRequest, ingest_files
from tests.telemetry import NOW, SECOND, logs, resource, text

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

DAYS, RECORDS_A_DAY, FILES = 40, 3, 8


def days_of_logs(first: int) -> bytes:
    """Records of each of many days, as an agent sends them that was away."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

    records = [
        LogRecord(
            time_unix_nano=NOW - day * 86_400 * SECOND - number * SECOND,
            body=AnyValue(string_value=f"line {first} {day} {number}"),
            attributes=[text("n", str(number))],
        )
        for day in range(DAYS)
        for number in range(RECORDS_A_DAY)
    ]
    group = ResourceLogs(resource=resource("cart"), scope_logs=[ScopeLogs(log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()


def test_a_back_fill_makes_one_file_for_each_partition(spark_lake: Lake, tmp_path: Path) -> None:
    """Many tasks that each have records of every day do not write many files for every day."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number}.binpb").write_bytes(days_of_logs(number))
    (folder / "today.binpb").write_bytes(logs(3))
    config = IngestConfig(task_bytes=4096)  # so that there are several tasks
    result = ingest_files(spark_lake, config, FileRequest((str(folder),), "acme"))
    assert result.records == {"logs": FILES * DAYS * RECORDS_A_DAY + 3}
    assert result.data_files == DAYS
    partitions = {
        (file.file.partition[0], file.file.partition[1]) for file in spark_lake.table("logs").scan().plan_files()
    }
    assert len(partitions) == DAYS
