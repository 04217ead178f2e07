"""A drill: a lake under load is backed up, and its catalog and state are destroyed and restored."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from neve.app.backup import back_up, restore
from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.raw.frame import Kind
from tests.ingest.stream.frames import frame, raw_config, receive
from tests.ingest.stream.test_raw import job_of
from tests.telemetry import logs

if TYPE_CHECKING:
    from neve.lake.lake import Lake

EACH = 20


def test_a_lake_under_load_is_restored(spark_lake: Lake, tmp_path: Path) -> None:
    """Records are received and committed before, during and after the backup; each is there once after the restore."""
    raw = raw_config(tmp_path)
    settings = Settings.model_validate(
        {
            "lake": {"warehouse": spark_lake.lake.location},
            "catalog": spark_lake.catalog_config.model_dump(),
            "state": {"path": str(tmp_path / "drill-state.db")},
            "raw": raw.model_dump(),
        }
    )
    documents = build_documents(settings)
    documents.put("saved-views", "v1", {"sql": "SELECT 1"})
    documents.close()
    acknowledged, is_over = 0, threading.Event()

    def send() -> None:
        nonlocal acknowledged
        while not is_over.is_set():
            receive(raw, [frame(Kind.LOGS, logs(EACH, first=acknowledged))])  # returns when they are durable
            acknowledged += EACH

    sender = threading.Thread(target=send)
    sender.start()
    job_of(spark_lake, tmp_path, raw).run(until_caught_up=True)
    ingesting = threading.Thread(target=lambda: job_of(spark_lake, tmp_path, raw).run(until_caught_up=True))
    ingesting.start()
    back_up(settings, spark_lake, str(tmp_path / "backup"))
    ingesting.join()
    job_of(spark_lake, tmp_path, raw).run(until_caught_up=True)
    is_over.set()
    sender.join()
    for place in (settings.catalog.path, settings.state.path):
        for file in Path(place).parent.glob(f"{Path(place).name}*"):
            file.unlink()
    again = replace(spark_lake)  # a new process would have no connection to the deleted file either
    assert restore(settings, again, str(tmp_path / "backup")).is_complete
    job_of(again, tmp_path, raw).run(until_caught_up=True)
    ids = again.table("logs").scan(selected_fields=("record_id",)).to_arrow().column(0)
    assert (len(ids), len(ids.unique())) == (acknowledged, acknowledged)
    assert acknowledged > 2 * EACH
