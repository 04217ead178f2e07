"""The state store as the doctor sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from neve.app.doctor import Finding, examine
from neve.app.settings import load_settings
from neve.app.wiring import build_lake, build_state
from neve.state.keys import Keys


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)


def look(**environment: str) -> Finding:
    """What the doctor finds of the store."""
    settings = load_settings(None, {f"NEVE_STATE__{key}": value for key, value in environment.items()})
    findings = examine(settings, build_lake(settings), config_file="neve.yaml")
    return next(finding for finding in findings if finding.what == "state")


def test_a_store_that_is_not_there_is_no_fault() -> None:
    """The doctor does not make it; the first key does."""
    assert look() == Finding(
        "state", "note", "sqlite lake/state.db, not created yet", "created with the first API key or run"
    )
    assert not Path("lake").exists()
    Keys(build_state(load_settings(None, {}))).create("acme")
    assert look() == Finding("state", "ok", "sqlite lake/state.db")


def test_a_store_that_does_not_answer_is_wrong() -> None:
    """Its settings are named, its password is not said."""
    finding = look(URL="postgresql://127.0.0.1:9/neve", PASSWORD="hunter2")  # noqa: S106 - a secret that is not one
    assert finding.status == "wrong"
    assert finding.detail.startswith("the state store (postgresql://127.0.0.1:9/neve) failed: ")
    assert "state.password" in str(finding.remedy)
    assert "hunter2" not in str(finding)


def test_an_address_that_is_none_is_wrong() -> None:
    """In words that hold no login."""
    finding = look(URL="postgresql://neve:hunter2@db/neve")
    assert (finding.status, finding.detail) == (
        "wrong",
        "state.url is 'postgresql://…@…', expected postgresql://host:port/database",
    )
