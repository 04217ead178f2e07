"""A run with the senders that people have: telemetrygen, through a collector that retries and writes down what it took.

Half of the load leaves the collector over gRPC, half over HTTP. telemetrygen's logs have nothing but their time to tell
them apart, and two of its workers may make two in the same nanosecond: those are equal in every byte and become one.
"""

from __future__ import annotations

import http.client
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.model.signals import Signal
from tests.chaos.chaos import Chaos, Tell
from tests.chaos.collected import Key, collected_keys
from tests.chaos.house import House
from tests.chaos.outcome import Outcome
from tests.chaos.service import ServiceError
from tests.chaos.tables import RECORD_ID, duplicates_dropped, quarantined, rows
from tests.chaos.telemetrygen import Generators, Load
from tests.chaos.verdict import Verdict, judge
from tests.parts.collector import collector
from tests.parts.process import HOST, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from neve.lake.lake import Lake
    from tests.chaos.kills import Kill

SETTLED_SECONDS = 6.0  # longer than the collector waits before it tries again
FINISH_SECONDS = 600.0
RECORDS = "neve_receiver_records_total"
WAYS = ("grpc", "http")


@dataclass(frozen=True)
class StockPlan:
    """How much of each signal is sent, how fast, and who is killed meanwhile."""

    records: int
    seconds: float
    kills: Sequence[Kill]


def run(plan: StockPlan, folder: Path, tell: Tell = lambda _line: None) -> Outcome:
    """Send, kill, wait until the collector has nothing left, catch up, judge."""
    started, house = time.monotonic(), House(folder)
    chaos, ports = Chaos(house, tell), free_ports(len(WAYS))
    outcome = Outcome(kills=chaos.kills)
    try:
        with chaos.running():
            with collector(config_of(house, ports), ports[0]) as part:
                try:
                    _send(plan, chaos, ports, outcome)
                finally:
                    _listen(part.log.read_text(errors="replace"), outcome)
            chaos.end()
    except ServiceError as error:
        outcome.troubles.append(str(error))
    _judge(outcome, house, tell)
    outcome.seconds = time.monotonic() - started
    return outcome


def config_of(house: House, ports: Sequence[int]) -> str:
    """A collector with two ways through it, which never gives up and keeps a file of each signal."""
    patience = (
        "retry_on_failure: {initial_interval: 200ms, max_interval: 1s, max_elapsed_time: 0}, "
        "sending_queue: {queue_size: 100000, num_consumers: 4}"
    )
    files = "".join(f'  file/{signal}: {{path: "{_file(house, signal)}"}}\n' for signal in Signal)
    receivers = "".join(
        f'  otlp/{way}: {{protocols: {{grpc: {{endpoint: "{HOST}:{port}"}}}}}}\n'
        for way, port in zip(WAYS, ports, strict=True)
    )
    pipelines = "".join(
        f"    {signal}/{way}: {{receivers: [otlp/{way}], exporters: [otlp_{way}, file/{signal}]}}\n"
        for signal in Signal
        for way in WAYS
    )
    return f"""\
receivers:
{receivers}exporters:
  otlp_grpc: {{endpoint: "{HOST}:{house.grpc_port}", compression: gzip, tls: {{insecure: true}}, {patience}}}
  otlp_http: {{endpoint: "http://{HOST}:{house.http_port}", compression: zstd, {patience}}}
{files}service:
  pipelines:
{pipelines}"""


def _send(plan: StockPlan, chaos: Chaos, ports: Sequence[int], outcome: Outcome) -> None:
    loads = [
        Load(signal, plan.records // len(WAYS), plan.records / len(WAYS) / plan.seconds, port, f"chaos-{way}")
        for signal in Signal
        for way, port in zip(WAYS, ports, strict=True)
    ]
    generators = Generators(loads, chaos.house.folder)
    try:
        chaos.kill_all(plan.kills, lambda _share: None)
        outcome.troubles += generators.finish(FINISH_SECONDS)
        _settle(chaos.house)
    finally:
        generators.abandon()


def _listen(said: str, outcome: Outcome) -> None:
    """What the collector says of its exports."""
    outcome.retried = said.count("Will retry the request")
    outcome.troubles += [line for line in said.splitlines() if "Dropping data" in line]


def _settle(house: House) -> None:
    """Return when the receiver got nothing new for a while."""
    last, since = -1.0, time.monotonic()
    while time.monotonic() - since < SETTLED_SECONDS:
        with suppress(OSError, http.client.HTTPException):
            received = _received(house)
            if received != last:
                last, since = received, time.monotonic()
        time.sleep(0.5)


def _received(house: House) -> float:
    connection = http.client.HTTPConnection(HOST, house.http_port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(RECORDS))


def _judge(outcome: Outcome, house: House, tell: Tell) -> None:
    lake = house.lake
    outcome.troubles += quarantined(lake)
    outcome.duplicates = duplicates_dropped(lake)
    for signal in Signal:
        lines = _file(house, signal).read_text().splitlines()
        taken = collected_keys(signal, lines)
        tell(f"the collector took {len(taken):,} {signal.record}, {len(set(taken)):,} different ones")
        outcome.records += len(taken)
        outcome.exports += len(lines)
        outcome.verdicts.append(_judge_table(lake, signal, taken))


def _judge_table(lake: Lake, signal: Signal, taken: Sequence[Key]) -> Verdict:
    found = rows(lake, signal.table, *COLUMNS[signal], RECORD_ID)
    keys = [tuple(map(_plain, key)) for key in _tuples(found, COLUMNS[signal])]
    return judge(signal.table, taken, keys, found.column(RECORD_ID).to_pylist())


def _tuples(found: pa.Table, columns: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(found.column(name).to_pylist() for name in columns), strict=True))


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


def _file(house: House, signal: Signal) -> Path:
    return house.folder / f"collected-{signal}.jsonl"


# The columns that say what `collected_keys` says of a record.
COLUMNS = {
    Signal.TRACES: ("trace_id", "span_id"),
    Signal.LOGS: ("service_name", "time_unix_nano", "message"),
    Signal.METRICS: ("service_name", "time_unix_nano", "metric_name", "value_int"),
}
