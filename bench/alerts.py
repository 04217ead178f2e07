"""Alert latency over a running `neve serve`: from the arrival of a point to the request at a webhook.

Each point begins a series that raises an alert of its own. Points are sent at random moments, commits are 10 s apart,
and rules are evaluated every 10 s. Wall time: use a machine without other load.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import urllib3
from tests.rules.running.alert_receiver import open_receiver

from bench.report import Report
from bench.serve_start import NEVE, free_ports
from bench.sizes import choose_number

if TYPE_CHECKING:
    from tests.rules.running.alert_receiver import Receiver

ALERTS = choose_number("BENCH_ALERTS", whole=100, quick=5)
PAUSE_SECONDS = float(os.environ.get("BENCH_PAUSE_SECONDS", "2"))
COMMIT_SECONDS, INTERVAL_SECONDS = 10, 10
START_SECONDS, LAST_SECONDS, STOP_SECONDS = 600.0, 120.0, 120.0
RULES = """
groups:
  - name: bench
    interval: 10s
    rules:
      - {alert: Seen, expr: 'last_over_time(failures[1h]) > 0'}
"""


def main() -> None:
    """Print the latency of alerts."""
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder, open_receiver() as hook:
        http, health = free_ports(2)
        config = _write_config(Path(folder), hook, http, health)
        subprocess.run([*NEVE, "-c", str(config), "init"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        command = [*NEVE, "-c", str(config), "serve", "--only", "receiver,ingest,rules"]
        with Path(folder, "serve.log").open("w") as log:
            service = psutil.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            latencies = _measure(hook, http, health)
        except BaseException:
            sys.stderr.write(Path(folder, "serve.log").read_text()[-4000:])
            raise
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait(STOP_SECONDS)
    report = Report("alerts")
    ordered = sorted(latencies)
    report.ours = {
        "alert_p50_s": statistics.median(ordered),
        "alert_p99_s": ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))],
        "alert_max_s": ordered[-1],
        "alerts": len(ordered),
        "commit_s": COMMIT_SECONDS,
        "interval_s": INTERVAL_SECONDS,
    }
    report.show()


def _write_config(folder: Path, hook: Receiver, http: int, health: int) -> Path:
    rules = folder / "rules.yml"
    rules.write_text(RULES)
    settings: dict[str, Any] = {
        "raw": {"min_free_bytes": 0},
        "receiver": {"http_port": http, "grpc_port": 0},
        "serve": {"port": health},
        "ingest": {"commit_seconds": COMMIT_SECONDS},
        "rules": {
            "files": {"default": [str(rules)]},
            "destinations": [{"name": "hook", "kind": "webhook", "url": f"{hook.url}/hook"}],
        },
    }
    path = folder / "neve.yaml"
    path.write_text(json.dumps(settings))
    return path


def _measure(hook: Receiver, http: int, health: int) -> list[float]:
    """Return the seconds from the answer of the receiver to the webhook, for each alert. The first one warms up."""
    _await(lambda: _is_ready(health), START_SECONDS)
    _send(http, "warm")
    _await(lambda: "warm" in _arrivals(hook), START_SECONDS)
    chance, sent = random.Random(11), {}
    for number in range(ALERTS):
        time.sleep(chance.uniform(0, 2 * PAUSE_SECONDS))
        sent[str(number)] = _send(http, str(number))
    _await(lambda: sent.keys() <= _arrivals(hook).keys(), LAST_SECONDS)
    arrived = _arrivals(hook)
    return [arrived[name] - at for name, at in sent.items()]


def _arrivals(hook: Receiver) -> dict[str, float]:
    """Return the first arrival of each alert."""
    found: dict[str, float] = {}
    for at, _, body in list(hook.requests):
        for alert in body["alerts"]:
            found.setdefault(alert["labels"].get("pod", ""), at)
    return found


def _send(port: int, pod: str) -> float:
    """Send a point, and return when the receiver had acknowledged it."""
    point = {
        "timeUnixNano": str(time.time_ns()),
        "asDouble": 1,
        "attributes": [{"key": "pod", "value": {"stringValue": pod}}],
    }
    metric = {"name": "failures", "gauge": {"dataPoints": [point]}}
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}).encode()
    url = f"http://127.0.0.1:{port}/v1/metrics"
    answer = urllib3.request("POST", url, body=body, headers={"content-type": "application/json"}, timeout=60)
    if answer.status != 200:
        raise SystemExit(f"the receiver answered {answer.status}: {answer.data!r}")
    return time.time()


def _is_ready(port: int) -> bool:
    try:
        return urllib3.request("GET", f"http://127.0.0.1:{port}/readyz", timeout=5, retries=False).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _await(is_done: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing happened within {seconds:g} s")
        time.sleep(0.2)
