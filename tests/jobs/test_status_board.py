"""The board, as the state store keeps it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.jobs.status_board import EXPIRY_SECONDS, LOST, SILENT_SECONDS, SPACE, PartReport, PartStatus, StatusBoard

if TYPE_CHECKING:
    from neve.state.documents import Documents

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def status(name: str = "tail", state: str = "running", **more: object) -> PartStatus:
    """How a part is."""
    return PartStatus(name=name, state=state, since=MOMENT, **more)  # type: ignore[arg-type]


def heard(documents: Documents, seconds_ago: float, state: str = "running", name: str = "tail") -> None:
    """A report that is so old by the store's clock."""
    seen = documents.now() - timedelta(seconds=seconds_ago)
    report = PartReport(
        name=name, state=state, since=MOMENT, error="it was cold", instance="a", process="tend", pid=7, seen=seen
    )
    documents.put(SPACE, f"a/tend/{name}", report.document)


def test_what_a_part_says_is_read_as_it_was(documents: Documents) -> None:
    """Every field, whoever reads; what is no value of JSON becomes its words."""
    before = documents.now()
    said = status(restarts=2, error="no policies", details={"lag": 1.5, "at": MOMENT, "by": {"logs": 3}})
    StatusBoard(documents, "host-1", "tend").report(said)
    (report,) = StatusBoard(documents).all()
    assert (report.instance, report.process, report.name, report.state) == ("host-1", "tend", "tail", "running")
    assert (report.since, report.restarts, report.error) == (MOMENT, 2, "no policies")
    assert report.details == {"lag": 1.5, "at": str(MOMENT), "by": {"logs": 3}}
    assert before <= report.seen <= documents.now()


def test_each_part_has_one_report(documents: Documents) -> None:
    """The last one, for each instance, process and name."""
    one, two = StatusBoard(documents, "one", "tend"), StatusBoard(documents, "two", "tend")
    for state in ("started", "running"):
        one.report(status(state=state))
    one.report(status("ingest"))
    two.report(status(state="draining"))
    assert [(part.instance, part.name, part.state) for part in two.all()] == [
        ("one", "ingest", "running"),
        ("one", "tail", "running"),
        ("two", "tail", "draining"),
    ]


@pytest.mark.parametrize(
    ("seconds", "state", "expected"),
    [
        (SILENT_SECONDS - 10, "running", "running"),
        (SILENT_SECONDS + 1, "running", LOST),
        (SILENT_SECONDS + 1, "failed", LOST),
        (SILENT_SECONDS + 1, "stopped", "stopped"),
    ],
)
def test_silence_is_loss(documents: Documents, seconds: float, state: str, expected: str) -> None:
    """Unless the part has ended, which is what it said last."""
    heard(documents, seconds, state)
    (report,) = StatusBoard(documents).all()
    assert report.state == expected
    if expected == LOST:
        assert report.error.startswith("no heartbeat since 20")
        assert report.error.endswith(f"when it was {state}: it was cold")


def test_what_is_long_gone_is_forgotten(documents: Documents) -> None:
    """It is not shown, and its document goes when somebody begins anew."""
    heard(documents, EXPIRY_SECONDS + 1, name="old")
    heard(documents, EXPIRY_SECONDS - 100, name="lost")
    board = StatusBoard(documents, "b", "tend")
    assert [part.name for part in board.all()] == ["lost"]
    assert (board.forget_old(), board.forget_old()) == (1, 0)
    assert [key for key, _document in documents.entries(SPACE)] == ["a/tend/lost"]


def test_a_newer_release_may_say_more(documents: Documents) -> None:
    """What this one does not know is left alone."""
    heard(documents, 1)
    document = documents.get(SPACE, "a/tend/tail") or {}
    documents.put(SPACE, "a/tend/tail", {**document, "mood": "good"})
    assert [part.name for part in StatusBoard(documents).all()] == ["tail"]


def test_lost_parts_of_a_replaced_instance_are_not_listed(documents: Documents) -> None:
    """A service that was killed and started again on its machine is one service; any other loss stays visible."""
    now = documents.now()

    def put(instance: str, began: float, seen: float, name: str = "tail") -> None:
        since, last = now - timedelta(seconds=began), now - timedelta(seconds=seen)
        report = PartReport(
            name=name, state="running", since=since, instance=instance, process="tend", pid=7, seen=last
        )
        documents.put(SPACE, f"{instance}/tend/{name}", report.document)

    put("db-1-10-aaaa", began=900, seen=600)  # killed, and replaced below
    put("db-1-10-aaaa", began=900, seen=600, name="ingest")  # a part that the new instance does not run
    put("db-1-20-bbbb", began=500, seen=1)
    put("db-1-30-cccc", began=900, seen=400)  # another instance of the machine, lost when the new one ran already
    put("db-2-10-dddd", began=900, seen=600)  # of another machine
    assert [(part.instance, part.name, part.state) for part in StatusBoard(documents).all()] == [
        ("db-1-10-aaaa", "ingest", LOST),
        ("db-1-20-bbbb", "tail", "running"),
        ("db-1-30-cccc", "tail", LOST),
        ("db-2-10-dddd", "tail", LOST),
    ]
