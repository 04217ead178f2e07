"""What a siege does, and what each side may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from neve.query.config import LimitRule
from neve.receive.config import ReceiverConfig

HONEST, HOSTILE = "honest", "hostile"
MB = 1024 * 1024


@dataclass(frozen=True)
class Plan:
    """A run: the siege between two quiet phases in which only the honest side is there.

    The tables grow all the time, and with them the cost of a query. The siege is compared with the better of the two.
    """

    seconds: float = 300.0
    quiet_seconds: float = 60.0
    warm_seconds: float = 15.0  # before it is measured
    requests_per_second: float = 10.0  # of the honest side, for each protocol
    queries_per_second: float = 3.0
    records: int = 20  # in each of its requests
    slow_clients: int = 200
    settle_seconds: float = 600.0  # until everything that was acknowledged is in the tables
    commit_seconds: float = 5.0


def limits() -> dict[str, Any]:
    """What an operator would allow: settings by section. Those that this version does not have are left out."""
    rules: list[dict[str, Any]] = [
        {"organization": HOSTILE, "places": 2, "concurrency": 2, "memory": "500MB", "seconds": 20, "cpu_seconds": 20},
        {"organization": HONEST, "places": 6, "concurrency": 6},
    ]
    known = [{name: value for name, value in rule.items() if name in LimitRule.model_fields} for rule in rules]
    return {"receiver": _ingestion(), "query": {"limits": known}}


def _ingestion() -> dict[str, Any]:
    if "limits" not in ReceiverConfig.model_fields:
        return {}
    rates = {HOSTILE: (1 * MB, 2_000), HONEST: (20 * MB, 50_000)}
    return {
        "limits": [
            {"organization": name, "bytes_per_second": size, "records_per_second": records, "burst_seconds": 5}
            for name, (size, records) in rates.items()
        ]
    }
