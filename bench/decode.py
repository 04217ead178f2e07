"""OTLP protobuf to Arrow on one core, beside walking the same messages in Python in the same run."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.report import Report
from bench.sizes import choose
from bench.telemetry import START_UNIX_NANO, hour, messages
from bench.walk import walk
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.otlp.json import CLASSES, to_protobuf

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 7
ROUNDS = choose(3, 1)
UNITS = {Signal.TRACES: "spans", Signal.LOGS: "logs", Signal.METRICS: "points"}
INTAKE = Intake("bench", START_UNIX_NANO + SEED * 10**13)


def main() -> None:
    """Decode an hour of each signal both ways, in turns, and compare the best CPU times."""
    pa.set_cpu_count(1)
    folder = hour(SEED)
    report = Report("decode", baselines={"walk": {}, "parse_only": {}})
    for signal, unit in UNITS.items():
        wires = _wires(signal, [*messages(folder / signal.value)])
        rows = decode(signal, wires, INTAKE).batch.num_rows
        _agree(signal, wires)
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda: decode(signal, wires, INTAKE),  # noqa: B023 - run at once
            "walk": lambda: walk(signal, wires, INTAKE),  # noqa: B023
            "parse_only": lambda: [CLASSES[signal].FromString(wire) for wire in wires],  # noqa: B023
        }
        best = _best(ways)
        report.ours[f"{unit}_per_s"] = rows / best["ours"]
        report.baselines["walk"][f"{unit}_per_s"] = rows / best["walk"]
        report.baselines["parse_only"][f"{unit}_per_s"] = rows / best["parse_only"]
        report.ratios[f"vs_walk_{unit}"] = best["walk"] / best["ours"]
    report.ratios["vs_walk"] = min(report.ratios.values())
    report.show()


def _wires(signal: Signal, unpacked: list[bytes]) -> list[bytes]:
    """Protobuf messages of a few megabytes each; logs come as JSON lines and are transcoded first."""
    if unpacked[0].lstrip().startswith(b"{"):
        return [wire for text in unpacked for wire in to_protobuf(signal, text).messages.to_pylist()]
    return unpacked


def _agree(signal: Signal, wires: list[bytes]) -> None:
    """Both ways give the same rows, ids aside (the walk's do not know the resource)."""
    ours, walked = (
        batch.drop_columns(["record_id"])
        for batch in (decode(signal, wires[:1], INTAKE).batch, walk(signal, wires[:1], INTAKE))
    )
    assert ours.num_rows == walked.num_rows
    for name in ("timestamp", "service_name", "attributes", "resource_attrs"):
        assert _plain(ours.column(name)) == _plain(walked.column(name)), name


def _plain(column: pa.Array) -> list[object]:
    return [sorted(_text(pair) for pair in value) if isinstance(value, list) else value for value in column.to_pylist()]


def _text(pair: tuple[str, str | None]) -> str:
    key, value = pair
    try:
        return f"{key}={float(value or '')}"  # 5 and 5.0 are the same double, written by two libraries
    except ValueError:
        return f"{key}={value}"


def _best(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The best CPU time of each way; ways take turns, so that noise meets all of them."""
    best = dict.fromkeys(ways, float("inf"))
    for _round in range(ROUNDS):
        for name, way in ways.items():
            gc.collect()
            started = time.process_time()
            way()
            best[name] = min(best[name], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
