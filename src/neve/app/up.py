"""The demo's lake in service: `neve serve` as a process of its own, and a live generator that sends to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from neve.app.demo import Demo
from neve.app.up_ready import await_addresses

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from neve.app.demo import Place

OWN = "# made by `neve up`\n"
STOP_SECONDS = 60.0
HOT_SECONDS = 120  # a commit comes every few seconds, and what it leaves is soon worth packing


@dataclass(frozen=True)
class Up:
    """A lake that is served, and where."""

    config: Path
    addresses: dict[str, Any]
    process: subprocess.Popen[str]

    @property
    def receivers(self) -> Sequence[str]:
        """Where OTLP is sent to over HTTP."""
        return [self.addresses["http"]]

    @property
    def ended(self) -> bool:
        """Whether the service is gone."""
        return self.process.poll() is not None


def prepare(folder: Path) -> Path:
    """The demo's lake, with its tables; the configuration for a service of it."""
    demo = Demo.at(folder)
    demo.init()
    config = demo.place.folder / "up.yaml"
    config.write_text(OWN + yaml.safe_dump(service_settings(demo.place), sort_keys=False))
    return config


def service_settings(place: Place) -> dict[str, Any]:
    """The demo's settings, and what a service needs beside them: its own places, and a lake that is written to."""
    settings: dict[str, Any] = yaml.safe_load(place.config.read_text())
    lake = place.folder.resolve() / "lake"
    return {
        **settings,
        "raw": {"location": str(lake / "raw")},
        "ingest": {"checkpoints": str(lake / "checkpoints")},
        "compact": {"hot_seconds": HOT_SECONDS},
    }


@contextmanager
def serving(config: Path, log: Path, stopped: threading.Event, tell: Callable[[str], None]) -> Iterator[Up | None]:
    """Start `neve serve` and wait until it says where; at the end it is told to stop, and it drains.

    There is none where somebody wants to stop before it listens. What is late is told meanwhile.
    """
    command = [sys.executable, "-m", "neve", "-c", str(config), "serve", "--json"]
    with log.open("a") as errors:
        # A session of its own: Ctrl+C is for us, who stop sending first.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        addresses = await_addresses(process, log, stopped, tell)
        yield None if addresses is None else Up(config, addresses, process)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
