"""CPU time of ingestion with ten redaction rules, beside ingestion without rules in the same run.

Ingestion here is its least expensive form, without Spark: the check of the receiver, decoding, and Parquet files.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.decode import INTAKE, SEED, _wires
from bench.report import Report
from bench.telemetry import hour, messages
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.otlp import decode
from neve.raw.frame import Encoding
from neve.receive.config import ReceiverConfig
from neve.receive.examine import Rules, examine
from neve.redaction.config import RedactionConfig
from neve.redaction.rules import compile_rules

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
TEN: list[dict[str, Any]] = [
    {"keys": ["user.email", "enduser.*"], "action": "hash"},
    {"keys": ["http.request.header.*", "http.response.header.*"], "action": "drop"},
    {"keys": ["*password*", "*secret*"], "action": "mask"},
    {"keys": ["card.number"], "action": "drop"},
    {"keys": ["session.id"], "action": "hash"},
    {"pattern": r"\b[\w.+-]+@[\w-]+\.[\w.]+\b", "action": "hash"},
    {"pattern": r"\b\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}\b", "action": "mask"},
    {"pattern": r"(?i)bearer [a-z0-9._-]{8,}", "action": "mask"},
    {"pattern": r"\b\d{3}-\d{2}-\d{4}\b", "action": "drop"},
    {"pattern": r"AKIA[0-9A-Z]{16}", "action": "mask"},
]
EVERY: list[dict[str, Any]] = [
    {"keys": ["service.name", "http.*", "rpc.*", "db.*", "k8s.*", "log.*"], "action": "hash"}
]


def main() -> None:
    """Ingest an hour of each signal without rules, with ten rules, and with a rule that changes every record."""
    pa.set_cpu_count(1)
    folder = hour(SEED)
    report = Report("redact", baselines={"no_rules": {}})
    total: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        lake = Lake(LakeConfig(warehouse=f"{place}/warehouse"), CatalogConfig(path=f"{place}/catalog.db"))
        init_tables(lake)
        for signal in Signal:
            wires = _wires(signal, [*messages(folder / signal.value)])
            target = Target.of(lake.table(BY_SIGNAL[signal].name))
            ways = {
                "none": _ingestion(signal, wires, target, []),
                "ten": _ingestion(signal, wires, target, TEN),
                "every": _ingestion(signal, wires, target, [*EVERY, *TEN[1:]]),
            }
            best = _best(ways)
            report.baselines["no_rules"][f"{signal.value}_s"] = best["none"]
            report.ours[f"{signal.value}_ten_rules_s"] = best["ten"]
            report.ours[f"{signal.value}_share_of_messages_decoded"] = _share(signal, wires)
            report.ratios[f"{signal.value}_ten_rules"] = best["ten"] / best["none"]
            report.ratios[f"{signal.value}_every_record"] = best["every"] / best["none"]
            total = {name: total.get(name, 0) + seconds for name, seconds in best.items()}
    report.ratios["ten_rules"] = total["ten"] / total["none"]
    report.ratios["every_record"] = total["every"] / total["none"]
    report.show()


def _ingestion(signal: Signal, wires: list[bytes], target: Target, rules: list[dict[str, Any]]) -> Callable[[], None]:
    config = RedactionConfig.model_validate({"rules": rules, "salt": "a salt for benchmarks"})
    limits = Rules.of(ReceiverConfig(), config)

    def run() -> None:
        checked = [(wire, examine(signal, wire, Encoding.PROTOBUF, INTAKE, limits)) for wire in wires]
        stored = [wire if found.message is None else found.message for wire, found in checked]
        rows = decode(signal, stored, INTAKE).batch
        write_files(target, pa.Table.from_batches([rows]))

    return run


def _share(signal: Signal, wires: list[bytes]) -> float:
    rules = compile_rules(RedactionConfig.model_validate({"rules": TEN, "salt": "a salt for benchmarks"}).rules)
    found = rules.may_match(pa.array(wires, pa.binary()))
    del signal
    return float(sum(found.to_pylist()) / max(1, len(wires)))


def _best(ways: dict[str, Callable[[], None]]) -> dict[str, float]:
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, run in ways.items():
            started = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - started)
    return best


if __name__ == "__main__":
    main()
