"""Empty and huge screens of operators; `test_states.py` has slow and failing ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.page.conftest import Visitor
    from tests.page.operator_lake import Operated

expect.set_options(timeout=60_000)


def answer(page: Page, call: str, status: int, document: Any) -> None:
    """Answer a call of the API in the place of the server."""
    body = json.dumps(document)
    page.route(
        lambda url: url.split("?")[0].endswith(f"/api/v1/{call}"),
        lambda route: route.fulfill(status=status, content_type="application/json", body=body),
    )


def test_empty_screens_say_why_and_what_fills_them(visit: Callable[..., Visitor], operated: Operated) -> None:
    """Each with a command, or with where to look."""
    window = visit(operated.server)
    sums = {"received": 0, "stored": 0, "refused": 0, "resends": 0, "difference": 0}
    empty: dict[str, Any] = {
        "jobs": {"jobs": []},
        "plan": {"at": "", "source": "", "lines": [], "warnings": []},
        "lake/tables": {"tables": []},
        "lake/tables/spans/runs": {"total": 0, "offset": 0, "runs": []},
        "quarantine/groups": {"total": 0, "groups": [], "left_out": 0, "step_seconds": 60, "bars": []},
        "layouts": {"total": 0, "offset": 0, "attempts": []},
        "pauses": {"pauses": []},
        "ledger": {"since": None, "total": 0, "offset": 0, "batches": [], "days": [], "sums": sums},
    }
    for call, document in empty.items():
        answer(window.page, call, 200, document)
    words = {
        "/jobs": "neve jobs start compact spans",
        "/jobs/next": "neve init",
        "/lake": "neve init",
        "/lake/spans/runs": "neve compact spans",
        "/proof": "neve ingest FILE",
        "/proof/quarantine": "Nothing was refused in this range",
        "/layouts": "neve autopilot recommend",
        "/jobs/pauses": "neve jobs pause",
        "/lake/recorded": "neve ingest FILE",
        "/lake/recorded/snapshots": "neve ingest FILE",
        "/sql?view=history": "No statement of the last seven days",
    }
    for path, text in words.items():
        window.go(path)
        window.wait_for(text)
        assert window.violations() == [], path


def test_a_table_of_ten_thousand_partitions_stays_small(visit: Callable[..., Visitor], operated: Operated) -> None:
    """A page has a thousand, of which the list draws those in sight, and it says how many there are."""
    parts = {"sizes": 10.0, "equality_deletes": 40.0, "position_deletes": 20.0}
    partitions = [
        {
            "partition": f"organization_id=acme/timestamp_day=2026-01-{1 + number % 28:02}/trace_id_bucket={number}",
            "health": float(number % 100),
            "files": number,
            "bytes": number * 1000,
            "rows": number,
            "fragments": number,
            "undersized": 0,
            "delete_files": 0,
            "parts": parts,
            "average_bytes": 1000.0,
        }
        for number in range(1000)
    ]
    document = {
        "snapshot": "1",
        "target_bytes": 512_000_000,
        "health": 50.0,
        "parts": parts,
        "total": 10_000,
        "offset": 0,
        "partitions": partitions,
    }
    window = visit(operated.server)
    answer(window.page, "lake/tables/spans/partitions", 200, document)
    page = window.open("/lake/spans")
    window.wait_for("1 to 1,000 of 10,000")
    assert window.violations() == []
    assert page.get_by_role("grid", name="Partitions").get_by_role("row").count() < 60
    assert page.evaluate("() => document.querySelectorAll('*').length") < 1500
