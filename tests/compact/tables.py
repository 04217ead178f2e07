"""Tables with many small files, and groups of those files, for tests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.compact.plan import Estimate, Executor, Group, InputFile, Layout, Level, Partition
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.telemetry import decoded, logs

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

NO_ESTIMATE = Estimate(1, 0, 0.0, 0, 0.0)


def fill_logs(lake: Lake, files: int = 6, rows: int = 10, *, first: int = 0) -> list[dict[str, object]]:
    """A log table of small files, each its own commit; gives its rows."""
    table, written = lake.table("logs"), []
    for number in range(files):
        batch = decoded(Signal.LOGS, logs(rows, first=first + number * rows, service=f"s{number % 3}")).batch
        append_once(
            table,
            write_files(Target.of(table), pa.Table.from_batches([batch])),
            batch_id=f"fill:{first}:{number}",
            operation="test",
        )
        written += batch.to_pylist()
    return written


def messages(lake: Lake) -> list[str]:
    """What the log table says, in order of text, by pyiceberg, which applies position deletes."""
    found: list[str] = lake.table("logs").scan(selected_fields=("message",)).to_arrow().column(0).to_pylist()
    return sorted(found)


def group_of(lake: Lake, name: str = "logs", **changes: object) -> Group:
    """All files of a table's first partition as one group."""
    table = lake.table(name)
    found = table.inspect.files().to_pylist()
    data = [row for row in found if row["content"] == 0]
    partition = json.loads(json.dumps(data[0]["partition"], default=str)) if "partition" in data[0] else {}
    same = [row for row in data if row.get("partition") == data[0].get("partition")]
    label = "/".join(f"{key}={value}" for key, value in partition.items())
    group = Group(
        id="g1",
        partition=Partition(0, tuple(partition.values()), label),
        files=tuple(InputFile(row["file_path"], row["file_size_in_bytes"], row["record_count"], 1) for row in same),
        level=Level.MINOR,
        strategy="test",
        layout=Layout(),
        executor=Executor.ARROW,
        executor_reason="test",
        reason="test",
        estimate=NO_ESTIMATE,
    )
    return replace(group, **changes)  # type: ignore[arg-type]


def documents_in(folder: Path) -> SqlDocuments:
    """A state store in a folder."""
    return SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
