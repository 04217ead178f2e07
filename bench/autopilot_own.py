"""Neve's own `spans` and `logs`, as ingestion leaves an hour of the demo's telemetry, asked the demo's questions.

The questions about one service are asked of every service, as a dashboard does. They are DuckDB's SQL, most of which
Spark does not know: canaries ask for the same rows in Spark's, and the questions themselves are asked of DuckDB before
and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.autopilot_round import Place, Round, log_queries, round_on
from bench.autopilot_truth import Before, Errors, Scale, compare, joined
from bench.telemetry import START_UNIX_NANO, hour, messages
from neve.autopilot.layout import Layout, PartField
from neve.demo.questions import QUESTIONS
from neve.model.properties import TARGET_FILE_SIZE_BYTES
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.otlp.json import to_protobuf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.autopilot.analyzer import Analysis
    from neve.lake.lake import Lake

SEED = 7
ORGANIZATION = "shop"
ASKED_SERVICE = "'payment'"
CANARY_SERVICES = ("cart", "checkout", "frontend", "payment")
CANARIES = (
    "SELECT service_name, count(*) AS n, max(duration_ms) AS slowest FROM telemetry.spans "
    "WHERE organization_id = 'shop' AND span_kind = 2 GROUP BY service_name",
    "SELECT count(*) AS n, max(duration_ms) AS slowest FROM telemetry.spans WHERE organization_id = 'shop' "
    "AND operation_name = 'POST /checkout' AND status_code = 2 AND parent_span_id IS NULL",
)
CANARIES_OF_SERVICE = (
    "SELECT date_trunc('minute', timestamp) AS minute, count(*) AS n, max(duration_ms) AS slowest FROM telemetry.spans "
    "WHERE organization_id = 'shop' AND service_name = 'payment' AND span_kind = 2 GROUP BY 1",
    "SELECT service_name, count(*) AS n FROM telemetry.spans WHERE organization_id = 'shop' AND span_kind = 3 "
    "AND attributes['peer.service'] = 'payment' GROUP BY service_name",
    "SELECT date_trunc('minute', timestamp) AS minute, count(*) AS n, max(severity_number) AS worst "
    "FROM telemetry.logs WHERE organization_id = 'shop' AND service_name = 'payment' GROUP BY 1",
)
ANY_OF_SEVERAL = "says"  # a column of an answer: one of several values, whichever comes first
FILE_BYTES = 128 * 1024
SAMPLE_ROWS = 2_000_000  # as many as by default: all of them
FILES = 64  # that layouts are made of for the comparison
SIGNALS = {"spans": Signal.TRACES, "logs": Signal.LOGS}
OWN_TABLES = tuple(f"telemetry.{name}" for name in SIGNALS)
TENANT = (PartField("organization_id", "identity"), PartField("timestamp", "day"))
LAYOUTS = {
    "spans": (
        Layout(TENANT, sort=("service_name", "timestamp")),
        Layout(TENANT, sort=("operation_name", "timestamp")),
        Layout(TENANT, sort=("span_kind", "service_name")),
        Layout(TENANT, zorder=("service_name", "timestamp")),
        Layout(TENANT, zorder=("service_name", "operation_name")),
        Layout((*TENANT, PartField("service_name", "identity")), sort=("timestamp",)),
        Layout((*TENANT, PartField("trace_id", "bucket[16]")), sort=("service_name", "timestamp")),
    ),
    "logs": (
        Layout(TENANT, sort=("service_name", "timestamp")),
        Layout(TENANT, sort=("timestamp",)),
        Layout(TENANT, sort=("severity_number", "service_name")),
        Layout(TENANT, zorder=("service_name", "timestamp")),
        Layout((*TENANT, PartField("service_name", "identity")), sort=("timestamp",)),
        Layout((*TENANT, PartField("service_name", "truncate[2]")), sort=("timestamp",)),
    ),
}


@dataclass(frozen=True)
class Own:
    """Estimates beside the truth, a round on each table, and how many questions have the same answer after them."""

    errors: Errors
    rounds: dict[str, Round]
    questions_identical: int


def own_rounds(place: Place) -> Own:
    """What is compared first leaves the lake as it is; then come the rounds."""
    from neve.app.autopilot import open_pilot  # noqa: PLC0415

    settings, lake = place.settings, place.lake
    rows = {name: _filled(lake, name) for name in SIGNALS}
    services = sorted(set(rows["spans"]["service_name"].to_pylist()))
    log_queries(lake, ORGANIZATION, list(_statements(services)), rows["spans"].nbytes)
    with open_pilot(settings, lake) as pilot:
        analysis = pilot.scan.analyze()
        errors = joined([_compared(place.folder, name, rows[name], analysis) for name in SIGNALS])
        before = _answers(settings, lake)
        rounds = {name: round_on(pilot, f"telemetry.{name}") for name in SIGNALS}
        same = [one == other for one, other in zip(before, _answers(settings, lake), strict=True)]
        return Own(errors, rounds, sum(same))


def canaries() -> Iterator[str]:
    """What a canary asks in Spark's SQL."""
    yield from CANARIES
    for sql in CANARIES_OF_SERVICE:
        yield from (sql.replace(ASKED_SERVICE, f"'{service}'") for service in CANARY_SERVICES)


def _answers(settings: Settings, lake: Lake) -> list[list[str]]:
    """The answers to the demo's questions, their rows in any order."""
    from neve.query.service import run_query  # noqa: PLC0415

    found = []
    for question in QUESTIONS:
        answer = run_query(lake, settings.query, question.sql, ORGANIZATION).read_all()
        kept = answer.select([name for name in answer.column_names if name != ANY_OF_SEVERAL])
        found.append(sorted(map(repr, kept.to_pylist())))
    return found


def _statements(services: list[str]) -> Iterator[str]:
    """Every question, of every service that it may be about."""
    for question in QUESTIONS:
        about = services if ASKED_SERVICE in question.sql else [ASKED_SERVICE.strip("'")]
        yield from (question.sql.replace(ASKED_SERVICE, f"'{service}'") for service in about)


def _filled(lake: Lake, name: str) -> pa.Table:
    """A table of telemetry, a commit for each file of the collector; all of its rows."""
    from neve.lake.commit.append import append_once  # noqa: PLC0415
    from neve.lake.write.table_writer import Target, write_files  # noqa: PLC0415

    table, signal = lake.table(name), SIGNALS[name]
    with table.transaction() as transaction:
        transaction.set_properties({TARGET_FILE_SIZE_BYTES: str(FILE_BYTES)})
    intake = Intake(ORGANIZATION, START_UNIX_NANO + SEED * 10**13)
    batches = []
    for number, text in enumerate(messages(hour(SEED) / signal.value)):
        wires = to_protobuf(signal, text).messages if text.lstrip().startswith(b"{") else [text]
        batches.append(pa.Table.from_batches([decode(signal, wires, intake).batch]))
        append_once(table, write_files(Target.of(table), batches[-1]), batch_id=f"{name}{number}", operation="bench")
        table.refresh()
    return pa.concat_tables(batches).combine_chunks()


def _compared(folder: Path, name: str, rows: pa.Table, analysis: Analysis) -> Errors:
    uses = [use for query in analysis.queries for use in query.uses if use.table == f"telemetry.{name}"]
    filters = list(dict.fromkeys(use.filter for use in uses))
    layouts = LAYOUTS[name]
    columns = {*(field.column for one in layouts for field in one.partition)}
    columns |= {column for one in layouts for column in (*one.sort, *one.zorder)}
    before = Before.of(folder, name, rows, FILES, sorted(columns))
    return compare(before, {SEED: filters}, layouts, Scale(files=FILES, sample_rows=SAMPLE_ROWS))
