"""Generating is repeatable, refuses nonsense, and exports what it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import neve.demo
from neve.demo import Telemetry, generate
from neve.errors import ConfigError
from tests.demo.conftest import START, write

if TYPE_CHECKING:
    from pathlib import Path


def contents(telemetry: Telemetry) -> dict[str, bytes]:
    """Return the files by name."""
    return {str(path.relative_to(telemetry.out)): path.read_bytes() for path in telemetry.files}


@pytest.mark.slow
def test_the_same_seed_makes_the_same_bytes(telemetry: Telemetry, tmp_path: Path) -> None:
    """A second run with the same arguments writes the same files and finds the same truth."""
    again = write(tmp_path)
    assert contents(again) == contents(telemetry)
    assert again.truth == telemetry.truth


@pytest.mark.slow
def test_another_seed_makes_other_bytes(telemetry: Telemetry, tmp_path: Path) -> None:
    """A run with another seed tells the same story with other traces."""
    other = generate(tmp_path, seed=8, start_unix_nano=START, minutes=3, traces_per_minute=20)
    assert other.truth.failed_checkout_trace_id != telemetry.truth.failed_checkout_trace_id
    assert not set(contents(other).values()) & set(contents(telemetry).values())


def test_no_drafts_are_left(telemetry: Telemetry) -> None:
    """Files appear under their names only when they are whole."""
    assert not list(telemetry.out.rglob("*.part"))


@pytest.mark.parametrize(
    ("minutes", "traces_per_minute", "message"),
    [
        (2, 10, "minutes must be at least 3, got 2"),
        (3, 0, "traces_per_minute must be at least 1, got 0"),
    ],
)
def test_nonsense_is_refused(tmp_path: Path, minutes: int, traces_per_minute: int, message: str) -> None:
    """A number out of its range is refused before anything is written, with the range."""
    with pytest.raises(ConfigError, match=message):
        generate(tmp_path, start_unix_nano=START, minutes=minutes, traces_per_minute=traces_per_minute)
    assert not list(tmp_path.iterdir())


def test_the_smallest_run_works(tmp_path: Path) -> None:
    """One visit a minute for three minutes is enough for all three signals."""
    telemetry = generate(tmp_path, start_unix_nano=START, minutes=3, traces_per_minute=1)
    assert len(telemetry.files) == 3
    assert telemetry.spans > 0
    assert telemetry.points > 0


def test_exported_names() -> None:
    """The public surface is this list."""
    assert neve.demo.__all__ == ["Incident", "Interval", "Record", "Telemetry", "Truth", "generate"]
    assert all(hasattr(neve.demo, name) for name in neve.demo.__all__)
