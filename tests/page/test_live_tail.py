"""Live tail: shown + left out = sent, through a hidden tab, a changed filter and a restart of the API."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.page.demo_lake import serve_api
from tests.page.test_tabs import HIDE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.page.conftest import Visitor
    from tests.page.demo_lake import DemoLake

TRUTH = re.compile(r"(\d+) shown(?:\s*\+ (\d+) waiting)?\s*\+ (\d+) left out = (\d+) matched")


class Sender:
    """Commits log records and counts them."""

    def __init__(self, lake: DemoLake, organization: str) -> None:
        self.lake, self.organization, self.sent = lake, organization, 0

    def send(self, count: int, word: str = "live") -> None:
        """Commit some records that are received now."""
        now = int(datetime.now(UTC).timestamp() * 1e9)
        records = [
            LogRecord(time_unix_nano=now + n, body=AnyValue(string_value=f"{word} {self.sent + n}"))
            for n in range(count)
        ]
        message = ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])])
        decoded = decode(Signal.LOGS, [message.SerializeToString()], Intake(self.organization, now))
        table = self.lake.lake.table("logs")
        files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
        append_once(table, files, batch_id=f"{self.organization}-{self.sent}-{word}", operation="test")
        self.sent += count


def wait_until_live(page: Page) -> None:
    """Wait for the first event of a stream: later records belong to it. The organization has the same name."""
    page.locator(".bar .badge", has_text=re.compile("^live$")).wait_for()


def wait_for_matched(page: Page, matched: int) -> None:
    """Wait until the truth line counts this many records, and check that its sum is right."""
    page.get_by_text(re.compile(rf"= {matched} matched")).wait_for()
    line = TRUTH.search(page.locator(".truth").inner_text())
    assert line is not None
    shown, waiting, left_out, total = (int(number or 0) for number in line.groups())
    assert shown + waiting + left_out == total == matched


def test_the_truth_line_holds(demo_lake: DemoLake, visit: Callable[..., Visitor]) -> None:
    """For many records, a hidden tab, a server that ends and comes back, and a filter that changes."""
    sender = Sender(demo_lake, "live")
    config = demo_lake.write_config("live", organization="live", query={"log": False})
    with serve_api(config) as addresses:
        visitor = visit(addresses["query"])
        page = visitor.open("/logs?live=1", "from=-5m")
        wait_until_live(page)
        wait_for_matched(page, 0)
        sender.send(3)
        wait_for_matched(page, 3)
        page.get_by_text("live 2", exact=True).wait_for()
        sender.send(700)
        wait_for_matched(page, 703)
        assert "left out" in page.locator(".truth").inner_text()
        page.evaluate(HIDE, True)
        before = len(visitor.requests)
        sender.send(4, "hidden")
        assert visitor.requests[before:] == []
        page.evaluate(HIDE, False)
        wait_for_matched(page, 707)
    page.get_by_text("reconnecting").first.wait_for()
    sender.send(2, "meanwhile")
    port = urlsplit(addresses["query"]).port or 0
    with serve_api(config, port):
        wait_for_matched(page, 709)
        page.get_by_role("searchbox", name="Search logs").fill("other")
        page.keyboard.press("Enter")
        wait_for_matched(page, 0)
        wait_until_live(page)
        sender.send(2, "other")
        wait_for_matched(page, 2)
        page.get_by_role("button", name="Pause").click()
        sender.send(1, "other")
        wait_for_matched(page, 3)
        page.get_by_role("button", name="Show 1 new record").click()
        page.get_by_text("paused by you", exact=True).wait_for()
    visitor.complaints.clear()  # the browser says that the server was gone
