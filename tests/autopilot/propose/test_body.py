"""What a proposal says: all that those who decide want to know, and no literal that is not allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.propose.proposal import (
    Proposal,
    RejectedCandidate,
    escape_text,
    format_body,
    format_code,
    format_fence,
    format_message,
    format_title,
)
from tests.autopilot.propose.examples import BEFORE, LITERAL, PROPOSAL, layouts

if TYPE_CHECKING:
    from neve.autopilot.layout import Layout

BODY = format_body(PROPOSAL)


def test_the_body_has_all_that_is_asked_of_it() -> None:
    """Delta, estimate with its interval, canary, cost, payback, rollback, reasons, rejected candidates."""
    for said in (
        "-sort: [trace_id]\n-zorder: []\n",
        "+sort: []\n+zorder: [service_name, time]\n",
        "| estimate, from a sample | 62.0 % | 55.5 % | 70.0 % |",
        "| canary, on the branch | 60.0 % | 57.0 % | 63.0 % |",
        "2 of 2 queries returned the same result",
        "| `f00d` | equal | 900 B | 300 B | 1.50 | 0.50 | `SELECT a\\|b FROM t WHERE c = ?` |",
        " and costs $0.42; it pays back in 3.5 days",
        "neve autopilot rollback telemetry.spans --attempt a1",
        "- service\\_name is filtered in 61 % of the queries",
        "| sorted by name | only 12 % less to scan |",
    ):
        assert said in BODY
    assert format_title(PROPOSAL) == "telemetry.spans: z-order, 60 % less to scan"


def test_a_long_proposal_fits_into_a_pull_request() -> None:
    """Hundreds of everything: what matters is listed, the rest is counted, and a forge takes it."""
    long = "| name_with_marks " * 200
    line = replace(PROPOSAL.canary[0], text=long, example="`" * 500)
    different = replace(line, fingerprint="differs", equal=False, bytes_main=0)
    proposal = replace(
        PROPOSAL,
        table=long,
        canary=(*[line] * 300, different),
        reasons=(long,) * 300,
        rejected=(RejectedCandidate(long, long),) * 300,
    )
    body = format_body(proposal, allow_literals=True)
    assert len(body) < 65_000
    assert body.index("`differs`") < body.index("`f00d`")
    for said in ("281 more queries", "280 more reasons", "280 more candidates"):
        assert said in body
    assert len(format_title(proposal)) <= 200


def test_literals_are_shown_only_where_they_may_be() -> None:
    """Neither the body nor the commit has one, unless it is allowed."""
    assert LITERAL not in BODY + format_message(PROPOSAL) + format_title(PROPOSAL)
    assert LITERAL in format_body(PROPOSAL, allow_literals=True)


@given(layouts)
def test_a_commit_message_can_be_mailed(after: Layout) -> None:
    """No line of it looks like the beginning of a patch, and its title is one line."""
    message = format_message(
        replace(PROPOSAL, before=replace(after, target_file_bytes=7), after=replace(after, target_file_bytes=8))
    )
    assert not any(line.startswith(("---", "diff ", "Index: ")) for line in message.splitlines())
    assert message.split("\n")[1] == ""


def test_a_difference_and_a_loss_are_said_plainly() -> None:
    """A result that differs stands out; a rewrite that never pays back says so; no canary is no silence."""
    different = replace(PROPOSAL, canary=(replace(PROPOSAL.canary[0], equal=False),), payback_days=None)
    assert "0 of 1 queries" in format_body(different)
    assert "**different**" in format_body(different)
    assert "never pays back" in format_body(different)
    assert not different.canary_passed
    assert "No canary was run." in format_body(replace(PROPOSAL, canary=(), measured=None))


@given(st.text())
def test_texts_stay_texts(text: str) -> None:
    """No text ends its cell, its line or its fence, or calls anybody by name."""
    shown = escape_text(text)
    assert "\n" not in shown
    assert "|" not in shown.replace("\\|", "")
    assert "@" not in shown.replace("@\u200b", "")
    assert "|" not in format_code(text).replace("\\|", "")
    fence = format_fence(text).split("\n")[0]
    assert set(fence) == {"`"}
    assert fence not in text


def test_a_proposal_survives_the_way_into_the_store() -> None:
    """As a document of JSON, for a later run to read."""
    assert Proposal.of(json.loads(json.dumps(PROPOSAL.as_document()))) == PROPOSAL
    with pytest.raises(ValueError, match="does not change"):
        replace(PROPOSAL, after=BEFORE)
