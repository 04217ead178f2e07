"""Workers that run any text: the wall behind the checks has to hold by itself."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

MODULE = "neve.query.engine.worker"
WORKER = "import neve.query.engine.worker as w; w.check_duckdb_statement = lambda *_: None; w.main()"


def run_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers that are started from now on skip the check of what they run."""
    started = subprocess.Popen

    def start(command: list[str], **more: Any) -> Any:
        return started([command[0], "-c", WORKER, *command[command.index(MODULE) + 1 :]], **more)

    monkeypatch.setattr("neve.query.engine.worker_process.subprocess.Popen", start)
