"""What all tests share takes little CPU time and hides nothing."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
import structlog
from pyiceberg.exceptions import ValidationError

from neve.model.signals import Signal
from tests.query.lakes import ACME, logs, put

if TYPE_CHECKING:
    from neve.lake.lake import Lake


def test_metadata_is_parsed_once_and_read_each_time(lake: Lake) -> None:
    """Two loads share the metadata; a commit, and a change of the file, are seen."""
    first = lake.table("logs")
    assert lake.table("logs").metadata is first.metadata
    put(lake, ACME, Signal.LOGS, logs("first"))
    second = lake.table("logs")
    assert (len(first.metadata.snapshots), len(second.metadata.snapshots)) == (0, 1)
    Path(second.metadata_location.removeprefix("file://")).write_text("{}")
    with pytest.raises(ValidationError):
        lake.table("logs")


def test_collected_tests_are_kept_from_the_garbage_collector() -> None:
    """It runs, and does not look at what was there before the first test."""
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100_000


def test_tracebacks_are_logged_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    """They are in the log, without boxes and local variables, unless a test configures logs."""
    configured = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    try:
        raise KeyError("what is missing")
    except KeyError:
        structlog.get_logger().exception("failed")
    finally:
        if configured:
            structlog.configure(**configured)
    lines = capsys.readouterr().out.splitlines()
    assert "Traceback (most recent call last):" in lines
    assert lines[-1] == "KeyError: 'what is missing'"


def test_duckdb_checks_no_signatures() -> None:
    """A connection takes extensions as they are."""
    with duckdb.connect() as connection:
        assert connection.sql("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(True,)]
