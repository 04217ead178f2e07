"""The benchmarks' input: the demo's telemetry, made once into the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.demo import generate
from neve.lake.spark.jars import find_cache_dir

if TYPE_CHECKING:
    from pathlib import Path

START_UNIX_NANO = 1_770_026_400_000_000_000
VERSION = 1  # raise it when the generator changes what it writes


def hour(seed: int) -> Path:
    """The folder of one generated hour."""
    folder = find_cache_dir() / "bench" / f"v{VERSION}-seed{seed}"
    done = folder.with_suffix(".done")
    if not done.exists():
        print(f"making an hour of telemetry, seed {seed} (once, into the cache)", flush=True)
        generate(folder, seed=seed, start_unix_nano=START_UNIX_NANO + seed * 3_600_000_000_000)
        done.touch()
    return folder


def messages(folder: Path) -> list[bytes]:
    """The bytes inside every file of a folder."""
    unpacked = []
    for path in sorted(folder.iterdir()):
        with pa.input_stream(str(path), compression="detect") as stream:
            unpacked.append(stream.read())
    return unpacked
