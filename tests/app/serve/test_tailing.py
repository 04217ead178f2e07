"""What tail sampling says of itself as a part."""

from __future__ import annotations

from typing import Any, cast

from structlog.testing import capture_logs

from neve.app.serve.parts.tail import TailReporter
from neve.errors import LakeError, LeaseTaken
from neve.tail.export.destination import Delivery, DeliveryResult, DestinationUnavailable

SHUT = "box is unavailable, kept traces wait: the box is shut"


class Cycle:
    """A cycle that ended."""

    def __init__(self, number: int) -> None:
        self.number = number

    def as_document(self) -> dict[str, object]:
        """What is told of it."""
        return {"cycle": self.number}


class Heard:
    """An account, and what was said last."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {}
        self.account = TailReporter(self._hear, {"policies": 2})

    def _hear(self, details: Any) -> None:
        self.last = dict(details)

    def cycle(self, number: int) -> None:
        """A cycle ends well."""
        self.account.report_cycle(cast("Any", Cycle(number)))

    def turn(self, destination: str, *, away: str = "", spans: int = 0, note: str = "") -> list[str]:
        """A destination has its turn; what is logged of it."""
        error = DestinationUnavailable(away) if away else None
        result = DeliveryResult(destination, None, int(spans > 0), Delivery(accepted=spans), error, note=note)
        with capture_logs() as said:
            self.account.report_deliveries([result])
        return [f"{line['log_level']}: {line['event']}" for line in said]


def test_a_destination_that_is_away_is_an_illness_until_it_is_back() -> None:
    """Beside the last cycle, whatever other destinations and later cycles do; its begin and end are logged."""
    heard = Heard()
    heard.cycle(1)
    assert heard.turn("box", away="the box is shut") == ["warning: destination is unavailable"]
    assert heard.last == {"cycle": {"cycle": 1}, "error": SHUT}
    assert heard.turn("box", away="the box is shut") == []
    assert heard.turn("other", spans=3) == ["info: traces delivered"]
    heard.cycle(2)
    assert heard.last == {"cycle": {"cycle": 2}, "error": SHUT}
    assert heard.turn("box", spans=3) == ["info: traces delivered", "warning: destination is available again"]
    assert heard.last == {"cycle": {"cycle": 2}}


def test_what_was_delivered_before_a_destination_went_away_is_said() -> None:
    """Both happened in its turn."""
    assert Heard().turn("box", spans=3, away="the box is shut") == [
        "info: traces delivered",
        "warning: destination is unavailable",
    ]


def test_a_destination_that_another_process_brings_to_is_no_concern_of_this_one() -> None:
    """Whether it is away is that one's to say."""
    heard = Heard()
    heard.turn("box", away="the box is shut")
    heard.turn("box", note="the lease is held by another one")
    assert heard.last == {"policies": 2}


def test_a_cycle_that_failed_is_an_illness_until_one_ends_well() -> None:
    """Beside what ails destinations; who stands by is well."""
    heard = Heard()
    heard.turn("box", away="the box is shut")
    heard.account.report_failure(LakeError("the catalog is away"))
    assert heard.last["error"] == f"the catalog is away; {SHUT}"
    heard.cycle(1)
    assert heard.last["error"] == SHUT
    heard.turn("box")
    heard.account.report_failure(LakeError("the catalog is away"))
    heard.account.report_failure(LeaseTaken("the lease is held by another one"))
    assert heard.last == {"standby": "the lease is held by another one"}
