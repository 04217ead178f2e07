"""`otap import` as a job on Spark: everything arrives, once, and what can't is kept with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.ingest.config import IngestConfig
from neve.ingest.files.ledger import LedgerTable
from neve.ingest.otap_import import ingest_otap
from neve.lake.commit import append
from tests.otap.stars import Event, Link, Log, Span, make_star
from tests.telemetry import NOW, SECOND

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from neve.ingest.results import OtapResult
    from neve.lake.lake import Lake

LOGS = [
    Log(NOW - n * SECOND, service=f"s{n % 3}", body=f"line {n}", attributes={"n": n} if n % 2 else {})
    for n in range(40)
]
SPANS = [
    Span(
        NOW - n * SECOND,
        service=f"s{n % 3}",
        attributes={"tags": ["a", {"b": n}]},
        span_id=(n + 1).to_bytes(8, "big"),
        events=(Event("retry", NOW, {"why": b"\0\1"}), Event("end", NOW)),
        links=(Link(bytes(15) + b"\2", bytes(7) + b"\2", {"kind": "batch"}),),
    )
    for n in range(10)
]


def take_in(lake: Lake, folder: Path, config: IngestConfig | None = None) -> OtapResult:
    """Take a folder in."""
    return ingest_otap(lake, config or IngestConfig(), str(folder), "acme")


def rows(lake: Lake, table: str) -> pa.Table:
    """All rows of a table."""
    return lake.table(table).scan().to_arrow()


@pytest.mark.parametrize("convention", ["specification", "exporter"])
def test_every_record_arrives_with_all_that_hangs_on_it(spark_lake: Lake, tmp_path: Path, convention: str) -> None:
    """Logs and spans of one part, in several files, whichever way ids are written; a second run adds nothing."""
    make_star(tmp_path / "in", logs=LOGS, spans=SPANS, convention=convention, batch=7, files=3)  # type: ignore[arg-type]
    # Root files are read chunk by chunk: the bound of files that are read as a whole is not theirs.
    result = take_in(spark_lake, tmp_path / "in", IngestConfig(max_file_bytes=1024))
    assert (result.ingested.records, result.conventions, result.losses) == (
        {"logs": 40, "traces": 10},
        {convention: 1},
        {},
    )
    found = {row["message"]: row for row in rows(spark_lake, "logs").to_pylist()}
    assert {line: row["service_name"] for line, row in found.items()} == {log.body: log.service for log in LOGS}
    assert {line: dict(row["attributes"]) for line, row in found.items()} == {
        log.body: {key: str(value) for key, value in log.attributes.items()} for log in LOGS
    }
    span = next(row for row in rows(spark_lake, "spans").to_pylist() if row["span_id"] == (5).to_bytes(8, "big"))
    assert dict(span["attributes"]) == {"tags": '["a",{"b":4}]'}
    assert [(event["name"], dict(event["attributes"])) for event in span["events"]] == [
        ("retry", {"why": "AAE="}),
        ("end", {}),
    ]
    assert dict(span["links"][0]["attributes"]) == {"kind": "batch"}
    again = take_in(spark_lake, tmp_path / "in")
    assert (again.ingested.records, len(again.ingested.skipped)) == ({}, 6)


def test_a_file_that_cannot_be_read_is_in_quarantine(spark_lake: Lake, tmp_path: Path) -> None:
    """A damaged root file costs itself; the others of its part arrive."""
    paths = make_star(tmp_path / "in", logs=LOGS, files=2)
    with open(paths["logs"][0], "r+b") as file:
        file.seek(0)
        file.write(b"\0" * 600)
    result = take_in(spark_lake, tmp_path / "in")
    assert result.ingested.rejected == {"unreadable_file": 1}
    assert rows(spark_lake, "logs").num_rows == 20
    [bad] = rows(spark_lake, "quarantine").to_pylist()
    assert (bad["encoding"], bad["signal"], bad["source"]) == ("file", "logs", paths["logs"][0])
    assert paths["logs"][0] in bad["detail"]


def test_a_run_that_was_killed_is_finished_by_the_next(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the commit of spans and that of logs: each record is there once after another run."""
    make_star(tmp_path / "in", logs=LOGS, spans=SPANS)
    real = append.append_once

    def dying(table: object, *args: object, **kwargs: object) -> object:
        if str(getattr(table, "name")()[-1]) == "logs":  # noqa: B009 - the table is of no declared type here
            raise KeyboardInterrupt
        return real(table, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("neve.ingest.batch_writer.append_once", dying)
        with pytest.raises(KeyboardInterrupt):
            take_in(spark_lake, tmp_path / "in")
    assert len(LedgerTable(spark_lake, "acme").read().pending) == 1
    result = take_in(spark_lake, tmp_path / "in")
    assert len(result.ingested.resumed) == 1
    assert (rows(spark_lake, "logs").num_rows, rows(spark_lake, "spans").num_rows) == (40, 10)
