"""A door as the one part of its process."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from neve.api.serve_process import run_receiver
from neve.app.wiring import build_documents
from neve.jobs.status_board import StatusBoard
from tests.api.running import PROTOBUF, settings_for
from tests.app.serve.little import wait_until
from tests.telemetry import traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.api.ports import Addresses


def test_the_board_hears_of_what_ails_the_receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses everything runs, and is ill."""
    monkeypatch.setattr("neve.app.serve.status_reporter.BEAT_SECONDS", 0.05)
    settings = settings_for(tmp_path, {"min_free_bytes": 2**60}, grpc=False)
    documents = build_documents(settings)
    seen: list[object] = []

    def is_ill() -> bool:
        (report,) = StatusBoard(documents).all()
        seen[:] = [report.process, report.state, report.details.get("error")]
        return report.state == "running" and "error" in report.details

    def visit(place: str) -> None:
        try:
            with pytest.raises(HTTPError):
                urlopen(Request(f"{place}/v1/traces", traces(), PROTOBUF), timeout=600)  # noqa: S310 - loopback
            wait_until(is_ill)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def ready(addresses: Addresses) -> None:
        threading.Thread(target=visit, args=(addresses.http,)).start()

    assert run_receiver(settings, "host-1", ready) == 0
    documents.close()
    assert seen[:2] == ["receiver", "running"]
    assert "raw.min_free_bytes" in str(seen[2])
