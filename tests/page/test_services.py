"""The screens of services, their map, and metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.page.conftest import Visitor

EMPTY = "from=2020-01-01T00:00:00.000Z&to=2020-01-02T00:00:00.000Z"
HISTOGRAM = "http_server_request_duration_seconds"


def test_map_and_table_say_the_same(visitor: Visitor) -> None:
    """Every call of the table is an edge of the map, and a service of the map opens its operations."""
    page = visitor.open("/services?tab=calls")
    calls = page.get_by_role("table", name="Calls between services")
    calls.get_by_role("row").nth(1).wait_for()
    count = calls.get_by_role("row").count() - 1
    page.get_by_role("link", name="Map").click()
    page.locator("svg .edge").first.wait_for()
    assert page.locator("svg .edge").count() == count
    page.locator("svg .node", has_text="payment").first.click()
    page.get_by_role("table", name=re.compile("Operations of payment")).get_by_role("row").nth(1).wait_for()
    page.get_by_role("button", name="Neighbours on the map").click()
    page.get_by_text("other nodes not shown").wait_for()
    assert 1 < page.locator("svg .edge").count() < count
    page.reload()
    page.get_by_text("other nodes not shown").wait_for()


def test_metric_chart_leads_to_a_trace(visitor: Visitor) -> None:
    """A metric has a chart by an attribute, says which level answered, and its exemplars lead to traces."""
    page = visitor.open("/metric")
    page.get_by_role("searchbox", name="Filter metrics").fill(HISTOGRAM)
    page.get_by_role("grid", name="Metrics").get_by_text(HISTOGRAM).click()
    page.get_by_text("Answered by points").wait_for()
    page.get_by_text("(quantiles) as a table").click()
    page.get_by_role("columnheader", name="frontend").wait_for()
    page.get_by_role("button", name="rate", exact=True).click()
    page.get_by_text("(rate) as a table").wait_for()
    page.get_by_label("by").select_option("http_route")
    page.get_by_role("columnheader", name="/", exact=True).wait_for()
    page.get_by_role("region", name="Exemplars").get_by_role("link").first.click()
    page.get_by_role("complementary", name="Span").wait_for()


def test_wrong_expression(visitor: Visitor) -> None:
    """An error of PromQL is shown in its words, and the expression can be reset."""
    page = visitor.open(f"/metric?metric={HISTOGRAM}&expr=sum(")
    page.get_by_role("alert").get_by_text("unclosed left parenthesis").wait_for()
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("Answered by points").wait_for()


def test_axe_of_empty_screens(visitor: Visitor) -> None:
    """No violation when there is nothing in the range."""
    for path, words in {
        "/services": "No spans in this range",
        "/metric": "No metrics in this range",
        "/trace": "No traces in this range",
    }.items():
        visitor.go(path, EMPTY)
        visitor.wait_for(words)
        assert visitor.violations() == [], path
