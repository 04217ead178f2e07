"""The screen of SQL: statements run, are cancelled, downloaded and found again."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from tests.page.demo_lake import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.page.conftest import Keyed, Visitor
    from tests.page.demo_lake import DemoLake

COUNTS = "SELECT service_name, count(*) AS logs, '=1+1' AS formula FROM logs GROUP BY 1 ORDER BY 2 DESC"
ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"


def write_statement(page: Page, sql: str) -> None:
    """Type a statement over that of the editor."""
    editor = page.get_by_role("textbox", name="SQL statement")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(sql)


def test_run_chart_and_plan(visitor: Visitor) -> None:
    """A statement runs by Ctrl and Enter; its result is a table, a chart and a plan, and the address has it all."""
    page = visitor.open("/sql")
    write_statement(page, COUNTS)
    page.keyboard.press("Control+Enter")
    result = page.get_by_role("grid", name="Result")
    result.get_by_text("payment").wait_for()
    page.get_by_text("12 rows").wait_for()
    page.reload()
    result.get_by_text("payment").wait_for()
    page.get_by_role("button", name="Chart").click()
    page.get_by_text("A chart needs a column of times").wait_for()
    page.get_by_role("button", name="Plan").click()
    page.get_by_text("logs").first.wait_for()
    sql = "SELECT date_trunc('minute', timestamp) AS minute, count(*) AS logs FROM logs GROUP BY 1 ORDER BY 1"
    write_statement(page, sql)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("button", name="Chart").click()
    page.get_by_text("Result as a table").click()
    page.get_by_role("rowheader", name="2026-02-02 10:03:00").wait_for()


def test_error(visitor: Visitor) -> None:
    """A wrong statement gets the words of the API, and the page stays."""
    page = visitor.open("/sql")
    write_statement(page, "SELECT nothing FROM nowhere")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("alert").get_by_text("nowhere").first.wait_for()
    page.get_by_role("button", name="Run", exact=True).wait_for()


def test_completion(visitor: Visitor) -> None:
    """Tables and functions are completed."""
    page = visitor.open("/sql")
    page.wait_for_load_state("networkidle")
    write_statement(page, "SELECT * FROM trace_d")
    page.keyboard.type("e")
    page.get_by_role("option", name="trace_decisions").wait_for()
    write_statement(page, "SELECT approx_quanti")
    page.keyboard.type("l")
    page.get_by_role("option", name="approx_quantile").wait_for()


def test_cancel(visitor: Visitor, visit: Callable[..., Visitor], server: str) -> None:
    """A running statement is cancelled where it was started, or from the list of running queries."""
    page = visitor.open("/sql")
    write_statement(page, ENDLESS)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("toolbar", name="Statement").get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for()
    page.get_by_role("button", name="Run", exact=True).click()
    other = visit(server).open("/sql?view=running")
    row = other.get_by_role("row").filter(has_text="a.range * b.range")
    row.get_by_role("button", name="Cancel").first.click()
    page.get_by_role("alert").get_by_text("the query was cancelled").wait_for()


def test_download(visitor: Visitor, demo_lake: DemoLake, tmp_path: Path) -> None:
    """A download has all rows in its format, under a name of the page; texts are no formulas in CSV."""
    page = visitor.open("/sql?all=1")
    write_statement(page, COUNTS.replace("GROUP", f"WHERE timestamp >= '{BEGINNING}' GROUP"))
    for form in ("csv", "jsonl", "json", "parquet"):
        with page.expect_download() as found:
            page.get_by_label("Download").select_option(form)
        path = tmp_path / form
        found.value.save_as(path)
        assert found.value.suggested_filename == f"neve-query.{form}"
        rows = read_rows(path, form)
        assert sum(int(row["logs"]) for row in rows) == demo_lake.telemetry.logs
        assert {row["formula"] for row in rows} == {"'=1+1" if form == "csv" else "=1+1"}


def read_rows(path: Path, form: str) -> list[dict[str, Any]]:
    """Return the rows of a downloaded file."""
    if form == "parquet":
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    text = path.read_text()
    if form == "csv":
        return list(csv.DictReader(io.StringIO(text)))
    if form == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    document = json.loads(text)
    names = [one["name"] for one in document["columns"]]
    return [dict(zip(names, row, strict=True)) for row in document["rows"]]


def test_history(visit: Callable[..., Visitor], keyed: Keyed) -> None:
    """A statement that ran is in the history, and leads back into the editor."""
    page = visit(keyed.server, extra_http_headers=keyed.header("globex")).open("/sql")
    write_statement(page, "SELECT 40 + 2 AS answer_of_the_history")
    page.keyboard.press("Control+Enter")
    page.get_by_role("grid", name="Result").get_by_text("42").wait_for()
    page.get_by_role("button", name="History").click()
    entry = page.get_by_role("link", name="answer_of_the_history").first
    for _ in range(60):
        page.get_by_role("button", name="Look again").click()
        page.wait_for_load_state("networkidle")
        if entry.count():
            break
        page.wait_for_timeout(500)
    entry.click()
    page.get_by_role("textbox", name="SQL statement").get_by_text("answer_of_the_history").wait_for()
