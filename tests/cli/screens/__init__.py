"""Screens of commands in terminals of 80 and 200 columns, kept as text files beside this module.

`python -m tests.cli.screens` writes the files again; read the differences before you commit them.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa

from neve.cli.lake import tables
from neve.cli.main import neve
from neve.cli.maintenance.compact import plan as compact_plan
from neve.cli.status import status, top
from neve.cli.terminal.plot import draw_bars
from neve.cli.terminal.prompt import Prompt
from neve.cli.terminal.result_view import ResultView
from neve.cli.terminal.time_series import read_time_series
from neve.compact.plan import Cut, Estimate, Executor, Group, InputFile, Layout, LeftAlone, Level, Partition, Plan
from neve.lake.read.local_statistics import TableStatistics
from neve.model.tables import LOGS, SPANS
from neve.query.request import Request
from tests.cli.direct import tell
from tests.cli.test_status import part, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import click

FOLDER = Path(__file__).parent
WIDTHS = (80, 200)
START = datetime(2026, 1, 31, 8, 30, 0, 123456, UTC)


def render(name: str, width: int) -> str:
    """Return the screen of a command, without blanks at the ends of lines."""
    screen = StringIO()
    with patch.dict(os.environ, {"COLUMNS": str(width)}), redirect_stdout(screen):
        SCREENS[name]()
    return "".join(f"{line.rstrip()}\n" for line in screen.getvalue().splitlines())


def _show(table: pa.Table, **settings: Any) -> None:
    ResultView(footer=False, **settings).show(table.to_reader())


def _query_narrow() -> None:
    _show(pa.table({"service_name": ["frontend", "payment"], "requests": [9388, 289], "p95_ms": [12.5, 1021.0]}))


def _logs() -> pa.Table:
    messages = [
        "HikariPool-1 - connection pool exhausted (total=10, active=10, idle=0, waiting=1) after 30000 ms; see runbook",
        "GET /product/{id} 200",
    ]
    return pa.table(
        {
            "timestamp": [START, START + timedelta(seconds=1)],
            "service_name": ["payment", "frontend"],
            "severity_text": ["ERROR", "INFO"],
            "message": messages,
            "attributes": pa.array(
                [[("pool.name", "HikariPool-1"), ("pool.size", "10"), ("thread.name", "exec-7")], []],
                pa.map_(pa.string(), pa.string()),
            ),
        }
    )


def _query_wide() -> None:
    _show(_logs())


def _query_vertical() -> None:
    _show(_logs(), vertical="on", zone="Europe/Berlin")


def _query_all_columns() -> None:
    columns = {column.name: pa.nulls(1, column.type) for column in SPANS.columns}
    text = {"organization_id": "shop", "service_name": "payment", "operation_name": "shop.PaymentService/Charge"}
    columns |= {name: pa.array([value]) for name, value in text.items()}
    columns |= {name: pa.array([bytes(range(16))]) for name in ("trace_id", "record_id")}
    columns |= {name: pa.array([bytes(range(8))]) for name in ("span_id", "parent_span_id")}
    columns |= {name: pa.array([START], pa.timestamp("us", "UTC")) for name in ("timestamp", "ingested_at")}
    attributes = [("rpc.system", "grpc"), ("rpc.service", "shop.PaymentService"), ("rpc.method", "Charge")]
    columns |= {"attributes": pa.array([attributes], pa.map_(pa.string(), pa.string()))}
    columns |= {
        "resource_attrs": pa.array([[(f"k8s.label.{n}", f"value {n}") for n in range(40)]], pa.map_(*[pa.string()] * 2))
    }
    columns |= {"duration_ms": pa.array([1505.7]), "status_code": pa.array([2]), "span_kind": pa.array([2])}
    _show(pa.table({column.name: columns[column.name] for column in SPANS.columns}))


def _query_plot() -> None:
    rows = [
        (START + timedelta(minutes=minute), service, float(base + 40 * (25 <= minute < 32) * (base > 5)))
        for minute in range(60)
        for service, base in (("payment", 8), ("cart", 5))
    ]
    names = ("minute", "service_name", "errors")
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    for line in draw_bars(read_time_series(table.to_reader()), int(os.environ["COLUMNS"]), "UTC"):
        print(line)  # noqa: T201 - as the command does


class _Names:
    """Knows the columns of two tables."""

    def ask(self, request: Request) -> Any:
        """Is not asked."""
        raise NotImplementedError

    def names(self) -> dict[str, list[str]]:
        """Both tables."""
        return {table.name: [column.name for column in table.columns] for table in (SPANS, LOGS)}


def _query_tables() -> None:
    Prompt(_Names(), Request("", "shop"), lambda _request, _told: None)._do("\\d")


def _query_columns() -> None:
    described = ("timestamp", "service_name", "attributes", "events", "scope_dropped_attributes_count")
    rows = [column for column in SPANS.columns if column.name in described]
    _show(
        pa.table(
            {
                "column_name": [column.name for column in rows],
                "column_type": ["TIMESTAMP WITH TIME ZONE", "VARCHAR", "MAP(VARCHAR, VARCHAR)", EVENTS, "BIGINT"],
                "null": ["NO", *["YES"] * 4],
                "comment": ["start of the span", "name of the service", "attributes of the span", "events", "count"],
            }
        )
    )


EVENTS = "STRUCT(time_unix_nano BIGINT, name VARCHAR, attributes MAP(VARCHAR, VARCHAR))[]"


def _run(command: click.Command, *arguments: str) -> None:
    print(tell(command, *arguments).text, end="")  # noqa: T201 - the output of the command


@contextlib.contextmanager
def _fixed_status(*_arguments: object) -> Iterator[Callable[[], Any]]:
    raw = part(details={"lag_seconds": 1.25, "leader": True, "batches": 1234})
    failed = part(name="tail", state="failed", restarts=3, error="policies.yaml: unknown policy type 'latancy'")
    yield lambda: report(parts=[part(process="receiver", name="receiver", details={}), raw, failed])


def _status() -> None:
    with patch("neve.cli.status.open_status", _fixed_status):
        _run(status)


def _top() -> None:
    with patch("neve.cli.status.open_status", _fixed_status):
        _run(top, "--once")


def _compact_plan() -> None:
    def partition(day: str) -> Partition:
        return Partition(0, (), f"organization_id=shop/timestamp_day={day}")

    group = Group(
        id="g1",
        partition=partition("2026-01-31"),
        files=tuple(InputFile(f"{number}.parquet", 130_000, 5_000, 1) for number in range(24)),
        level=Level.MINOR,
        strategy="adaptive",
        layout=Layout("sort", ("service_name", "timestamp")),
        executor=Executor.ARROW,
        executor_reason="3.12 MB fit into the memory of this process, and no delete files apply",
        reason="24 fragments of 130 kB on average, against a target of 512 MB; the partition is closed for 3 h",
        estimate=Estimate(1, 2_400_000, 1.9, 31, 0.000061),
    )
    left = LeftAlone(partition("2026-01-30"), 1, 2_400_000, 100.0, "one file, no problems")
    cut = Cut(partition("2026-01-29"), 12, 9_000_000, "max_bytes", "the limit of 10 GB of this run is used up")
    planned = Plan(
        *("run1", "telemetry.logs", 7, 9, "adaptive", 512_000_000),
        "1 of 3 partitions is worth rewriting: 24 files become 1, and queries of a day open 24 times fewer files",
        *(62.0, 37, 14_520_000, 3, (group,)),
        left_alone=(left,),
        cut=(cut,),
    )
    with patch("neve.cli.maintenance.compact._compactor") as compactor:
        compactor.return_value.plan.return_value = planned
        _run(compact_plan, "logs")


def _help() -> None:
    with patch.object(neve, "_help_option", None):  # Click keeps the option of the first context, also of other tests
        _run(neve, "--help")


def _tables() -> None:
    rows = {
        "logs": 9_388_120,
        "metrics": 1_204_000,
        "spans": 139_040,
        "metrics_1m": 60_000,
        "quarantine": 3,
        "audit": 0,
    }
    found = [
        TableStatistics(
            *(name, number, number // 9_000, number * 31, number // 90_000),
            *((START, START + timedelta(hours=1), START + timedelta(hours=2)) if number else (None, None, None)),
        )
        for name, number in sorted(rows.items())
    ]
    with patch("neve.lake.read.local_statistics.read_local_statistics", lambda _config: found):
        _run(tables)


SCREENS: dict[str, Callable[[], None]] = {
    "query_narrow": _query_narrow,
    "query_wide": _query_wide,
    "query_vertical": _query_vertical,
    "query_all_columns": _query_all_columns,
    "query_plot": _query_plot,
    "query_tables": _query_tables,
    "query_columns": _query_columns,
    "help": _help,
    "tables": _tables,
    "status": _status,
    "top": _top,
    "compact_plan": _compact_plan,
}


def write_screens() -> None:
    """Write every screen to its file."""
    for name in SCREENS:
        for width in WIDTHS:
            (FOLDER / f"{name}_{width}.txt").write_text(render(name, width))
