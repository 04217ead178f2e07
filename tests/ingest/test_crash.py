"""Killed at any point, run again: every record is there exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import pytest

from neve.ingest import batch_writer as publish_module
from neve.ingest.config import IngestConfig
from neve.ingest.files import ledger as ledger_module
from neve.ingest.files.job import FileRequest, ingest_files
from neve.ingest.files.reader import ReadOptions
from neve.lake.commit.append import append_once
from neve.model.signals import Signal
from tests.telemetry import logs, metrics, traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.ingest.results import IngestResult
    from neve.lake.lake import Lake

# plan, quarantine, spans, logs, metrics, done: a run of the files below commits six times.
COMMITS = 6


class Killed(BaseException):
    """Stands for SIGKILL: nothing in Neve catches it."""


def write_files(folder: Path) -> None:
    """Files that reach every table."""
    (folder / "traces.binpb").write_bytes(traces(30))
    (folder / "logs.binpb").write_bytes(logs(20))
    (folder / "metrics.binpb").write_bytes(metrics(10))
    (folder / "traces-noise.pb").write_bytes(b"\xff\xff")


def ingest(lake: Lake, folder: Path) -> IngestResult:
    """Take the folder in."""
    return ingest_files(lake, IngestConfig(), FileRequest((str(folder),), "acme"))


def totals(lake: Lake) -> dict[str, tuple[int, int]]:
    """Rows and distinct records of every table."""
    found = {}
    for name in ("spans", "logs", "metrics"):
        ids = lake.table(name).scan(selected_fields=("record_id",)).to_arrow().column("record_id").to_pylist()
        found[name] = (len(ids), len(set(ids)))
    found["quarantine"] = (lake.table("quarantine").scan().to_arrow().num_rows,) * 2
    return found


WHOLE = {"spans": (30, 30), "logs": (20, 20), "metrics": (10, 10), "quarantine": (1, 1)}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "nth", [0, COMMITS - 1, *(pytest.param(nth, marks=pytest.mark.long) for nth in range(1, COMMITS - 1))]
)
def test_a_run_that_dies_at_a_commit_is_finished_by_the_next(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, after: bool
) -> None:
    """Just before or just after each of the six commits of a run."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_files(folder)
    with monkeypatch.context() as patch:
        dying = die_at(nth, after=after)
        patch.setattr(publish_module, "append_once", dying)
        patch.setattr(ledger_module, "append_once", dying)
        with pytest.raises(Killed):
            ingest(spark_lake, folder)
    (folder / "logs-new.binpb").write_bytes(logs(5, first=100))  # the folder is not what it was
    result = ingest(spark_lake, folder)
    assert totals(spark_lake) == WHOLE | {"logs": (25, 25)}
    planned = nth > 0 or after
    done = nth == COMMITS - 1 and after
    assert len(result.resumed) == (1 if planned and not done else 0)
    assert ingest(spark_lake, folder).files == 0


def die_at(nth: int, *, after: bool) -> Callable[..., object]:
    """An `append_once` that is killed at its nth call."""
    calls = iter(range(100))

    def dying(*args: object, **kwargs: object) -> object:
        mine = next(calls) == nth
        if mine and not after:
            raise Killed
        result = append_once(*args, **kwargs)  # type: ignore[arg-type]
        if mine:
            raise Killed
        return result

    return dying


def test_a_pending_batch_whose_file_is_gone_is_said_and_ended(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other files of the batch are taken in; the lost one is named and not waited for again."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_files(folder)
    with monkeypatch.context() as patch:
        patch.setattr(publish_module, "append_once", die_at(0, after=False))
        with pytest.raises(Killed):
            ingest(spark_lake, folder)
    (folder / "metrics.binpb").unlink()
    result = ingest(spark_lake, folder)
    assert [(lost.path.rsplit("/", 1)[-1], lost.reason) for lost in result.lost] == [("metrics.binpb", "it is missing")]
    assert totals(spark_lake) == WHOLE | {"metrics": (0, 0)}
    assert ingest(spark_lake, folder).resumed == ()


def test_a_pending_batch_is_finished_as_it_was_begun(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal that the user named is remembered with the plan; the run that finishes it may name another."""
    (tmp_path / "unclear.csv").write_text("timestamp,message\n1700000000,hello\n")
    (tmp_path / "other.csv").write_text("timestamp,metric,value\n1700000000,cpu,0.5\n")
    first = FileRequest((str(tmp_path / "unclear.csv"),), "acme", ReadOptions(signal=Signal.LOGS))
    with monkeypatch.context() as patch:
        patch.setattr(publish_module, "append_once", die_at(0, after=False))
        with pytest.raises(Killed):
            ingest_files(spark_lake, IngestConfig(), first)
    second = FileRequest((str(tmp_path / "other.csv"),), "acme", ReadOptions(signal=Signal.METRICS))
    assert ingest_files(spark_lake, IngestConfig(), second).records == {"logs": 1, "metrics": 1}


def test_a_pending_batch_that_fails_does_not_block_new_files(
    spark_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with its reason and stays planned; what is new is taken in."""
    (tmp_path / "traces-1.binpb").write_bytes(traces(3))
    with monkeypatch.context() as patch:
        patch.setattr(publish_module, "append_once", die_at(0, after=False))
        with pytest.raises(Killed):
            ingest(spark_lake, tmp_path)
    (tmp_path / "traces-2.binpb").write_bytes(traces(3, first=10))
    with monkeypatch.context() as patch:
        patch.setattr(publish_module, "append_once", fail_at_first())
        result = ingest(spark_lake, tmp_path)
    assert (result.resumed, result.files) == ((), 1)
    assert "RuntimeError: no luck" in result.failed[0].reason
    assert len(ingest(spark_lake, tmp_path).resumed) == 1
    assert totals(spark_lake)["spans"] == (6, 6)


def fail_at_first() -> Callable[..., object]:
    """An `append_once` that fails at its first call and works afterwards."""
    calls = iter(range(100))

    def failing(*args: object, **kwargs: object) -> object:
        if next(calls) == 0:
            raise RuntimeError("no luck")
        return append_once(*args, **kwargs)  # type: ignore[arg-type]

    return failing


def test_two_runs_at_once_take_each_file_once(spark_lake: Lake, tmp_path: Path) -> None:
    """They meet at the ledger: one claims the files, the other sees that."""
    write_files(tmp_path)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            ingest(spark_lake, tmp_path)
        except BaseException as error:
            failures.append(error)

    runs = [threading.Thread(target=run) for _ in range(2)]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join()
    assert failures == []
    assert totals(spark_lake) == WHOLE


SCRIPT = """
    import sys
    from neve.app.settings import load_settings
    from neve.app.wiring import build_lake
    from neve.ingest.files.job import FileRequest, ingest_files
    settings = load_settings(sys.argv[1], {})
    lake = build_lake(settings)
    lake.spark
    print("ready", flush=True)
    ingest_files(lake, settings.ingest, FileRequest((sys.argv[2],), "acme"))
    print("done", flush=True)
"""


@pytest.mark.kills
def test_sigkill_at_random_moments_loses_and_doubles_nothing(make_lake: Callable[..., Lake], tmp_path: Path) -> None:
    """A real process with its own JVM, killed three times at different moments, then left to finish."""
    lake = make_lake()
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(40):
        (folder / f"traces-{number:02}.binpb").write_bytes(traces(500, first=number * 500))
    config = tmp_path / "neve.yaml"
    name = lake.catalog_config.name
    config.write_text(
        f"lake: {{warehouse: {tmp_path}/warehouse}}\ncatalog: {{name: {name}, path: {tmp_path}/catalog.db}}\n"
        f"spark: {{log_file: {tmp_path}/spark.log, driver_memory: 1g}}\n"
    )
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(config), str(folder)]
    for delay in (0.6, 2.0, 3.5):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ids = lake.table("spans").scan(selected_fields=("record_id",)).to_arrow().column("record_id").to_pylist()
    assert (len(ids), len(set(ids))) == (20_000, 20_000)
