"""Operators work with the page: dead jobs, what-if and rejected records; `test_workers.py` has jobs that run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from neve.jobs.job import JobState, Task
from neve.jobs.queue import JobQueue
from tests.page.demo_lake import ORGANIZATION, serve_api
from tests.page.operator_lake import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.page.conftest import Keyed, Visitor
    from tests.page.operator_lake import Operated


expect.set_options(timeout=60_000)  # a loaded machine starts the workers of queries slowly


@pytest.fixture
def window(visit: Callable[..., Visitor], operated: Operated) -> Visitor:
    """A window at the server of operators."""
    return visit(operated.server)


def confirm(page: Page, name: str, reason: str = "", typed: str = "") -> None:
    """Open a dialog by its button, fill it, and go on."""
    page.get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog", name=name)
    if typed:
        expect(dialog.get_by_role("button", name=name, exact=True)).to_be_disabled()
        dialog.get_by_label(f"Type {typed} to go on").fill(typed)
    if reason:
        dialog.get_by_label("Reason, for the log").fill(reason)
    dialog.get_by_role("button", name=name, exact=True).click()
    expect(dialog).to_be_hidden()


def test_a_dead_job_is_replayed(window: Visitor, operated: Operated) -> None:
    """The list of dead jobs shows its error; afterwards it waits again."""
    page = window.open("/jobs?state=dead")
    row = page.get_by_role("grid", name="Jobs").get_by_role("row").filter(has_text="checksum differs")
    row.click()
    beside = page.get_by_role("complementary", name="Job")
    expect(beside).to_contain_text("remove it and replay the job")
    confirm(page, "Replay job", "index removed")
    expect(beside.get_by_text("queued", exact=True)).to_be_visible()
    assert JobQueue(operated.documents).list(states=(JobState.QUEUED,), task=Task.SEARCH)


def test_what_if_of_a_policy_file(window: Visitor, operated: Operated) -> None:
    """It is checked, simulated by the worker of another process, and its result has an address."""
    page = window.open("/sampling/what-if")
    field = page.get_by_label("Policy file")
    expect(field).to_have_value(re.compile("name: errors"))
    field.fill("policies:\n  - name: slow\n    type: latency\n    latency: {treshold_ms: 1}\n")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("treshold_ms")).to_be_visible()
    field.fill("num_traces: 5\npolicies:\n  - name: errors\n    type: error\n")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("num_traces has no effect here")).to_be_visible()
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text("Waits for a worker.")).to_be_visible()
    with serve_api(operated.config, only="series"):  # a worker of any task runs simulations, too
        expect(page.get_by_role("row", name=re.compile("Traces with an error that are missed")).first).to_be_visible()
    assert window.violations() == []
    before = page.get_by_role("main").aria_snapshot()
    page.reload()
    expect(page.get_by_role("main").get_by_text("Held beside each other")).to_be_visible()
    assert page.get_by_role("main").aria_snapshot() == before


def test_a_refused_record_is_decoded_and_tried_again(window: Visitor) -> None:
    """Its bytes and its text are shown, markup stays text, and the second attempt is accepted once."""
    page = window.open("/proof/quarantine")
    page.get_by_role("button", name="time_in_future").click()
    page.get_by_role("grid", name="Refused records").get_by_role("link").first.click()
    expect(page.get_by_label("Decoded", exact=True)).to_contain_text('"stringValue": "refused once"')
    page.get_by_role("button", name="Bytes").click()
    expect(page.get_by_label("Bytes", exact=True)).to_contain_text("00000000  0a")
    confirm(page, "Try again")
    expect(page.get_by_text("tried again", exact=True)).to_be_visible()
    window.open("/proof/quarantine?reason=malformed_message")
    page.get_by_role("grid", name="Refused records").get_by_role("link").first.click()
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_contain_text("the record is still rejected")
    assert page.title().startswith("Proof")  # markup would have changed it


@pytest.mark.usefixtures("operated")
def test_tenants_see_their_own_and_no_more(visit: Callable[..., Visitor], keyed: Keyed) -> None:
    """Without the scope admin: own rejected records, decisions and costs; no work, no ledger, nothing of others."""
    for who, secret in ((ORGANIZATION, "secret"), ("globex", "line 7 has 2 columns")):
        one = visit(keyed.server, extra_http_headers=keyed.header(who))
        page = one.open("/proof")
        expect(page.get_by_role("heading", name="By reason and source")).to_be_visible()
        expect(page.get_by_role("grid", name="Refused records").get_by_role("row").nth(1)).to_be_visible()
        assert page.get_by_role("link", name="Ledger").count() == page.get_by_role("link", name="Work").count() == 0
        assert secret not in page.get_by_role("main").inner_text()
        one.go("/costs")
        expect(page.get_by_text("Queries today")).to_be_visible()
        one.go("/sampling")
        expect(page.get_by_role("main").get_by_text(re.compile("Traces decided|No trace was decided"))).to_be_visible()
