"""`neve series`: a run, its repetition, and the files that were not read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.conftest import elsewhere
from tests.cli.runner import run
from tests.promql.storage.otlp_metrics import make_metric_lake
from tests.query.lakes import settings_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["elsewhere"]


def test_run_and_status(elsewhere: Path, iceberg: None) -> None:
    """A run reads all files, the next one none, and the status has the number of those that are missing."""
    make_metric_lake(elsewhere)
    said = settings_of(elsewhere) | {"state": {"path": str(elsewhere / "state.db")}}
    (elsewhere / "neve.yaml").write_text(json.dumps(said))
    assert [one["files_missing"] for one in run("series", "status", "--json").json] == [3, 2, 2]
    first = run("series", "run")
    assert (first.code, first.errors) == (0, "")
    assert "3 files of metrics not read before" in first.text
    again = run("series", "run", "--json").json
    assert [(one["table"], one["committed"]) for one in again] == [
        (name, False) for name in ("metric_series", "log_streams", "log_volumes")
    ]
    assert "not read" in run("series", "status").text
