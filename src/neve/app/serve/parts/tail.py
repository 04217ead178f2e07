"""The tail sampling part: runs decision cycles and deliveries, and reports their status."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.tail import build_selector, run_forever
from neve.errors import LeaseTaken
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.app.serve.part import ReportDetails
    from neve.app.settings import Settings
    from neve.errors import NeveError
    from neve.lake.lake import Lake
    from neve.tail.decisions import CycleResult
    from neve.tail.export.destination import DeliveryResult

log = get_logger("neve.tail")


@dataclass(frozen=True)
class TailPart:
    """Part that runs decision cycles at an interval, and delivers sampled traces to their destinations."""

    settings: Settings
    lake: Lake
    name: str = "tail"

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Run cycles until asked to stop; of selectors of one name, one decides and the others are on standby."""
        selector = build_selector(self.settings, self.lake)
        account = TailReporter(report, {"policies": len(selector.policies.policies)})
        try:
            run_forever(
                selector,
                export=bool(self.settings.tail.export.destinations),
                tell=account.report_cycle,
                exported=account.report_deliveries,
                failed=account.report_failure,
                stop=stop,
            )
        finally:
            selector.documents.close()


class TailReporter:
    """Status of the part: the last cycle, and the errors of the part or of a destination. Threads share it."""

    def __init__(self, report: ReportDetails, details: Mapping[str, object]) -> None:
        self._report = report
        self._details = details
        self._error = ""
        self._away: dict[str, str] = {}
        self._changing = threading.Lock()
        report(details)

    def report_cycle(self, result: CycleResult) -> None:
        """Report a successful cycle."""
        document = result.as_document()
        log.info("cycle ended", **document)
        with self._changing:
            self._details, self._error = {"cycle": document}, ""
            self._tell()

    def report_failure(self, error: NeveError) -> None:
        """Report a failed cycle, or one that another process runs."""
        with self._changing:
            if isinstance(error, LeaseTaken):
                self._details, self._error = {"standby": error.message}, ""
            else:
                log.error("cycle failed", error=error.message)
                self._error = error.message
            self._tell()

    def report_deliveries(self, results: Sequence[DeliveryResult]) -> None:
        """Report deliveries; an unavailable destination is logged when that begins and when it ends."""
        with self._changing:
            for one in results:
                if one.batches:
                    log.info("traces delivered", destination=one.destination, **vars(one.delivery))
                self._note(one)
            self._tell()

    def _note(self, one: DeliveryResult) -> None:
        was_away = one.destination in self._away
        if one.error is None:
            if was_away:
                del self._away[one.destination]
                log.warning("destination is available again", destination=one.destination, left_to_others=one.note)
            return
        self._away[one.destination] = one.error.message
        if not was_away:
            log.warning(
                "destination is unavailable",
                destination=one.destination,
                position=one.position,
                error=one.error.message,
                hint=one.error.hint,
            )

    def _tell(self) -> None:
        """Report the whole status; the lock must be held."""
        away = [f"{name} is unavailable, kept traces wait: {words}" for name, words in self._away.items()]
        ailments = "; ".join(filter(None, (self._error, *away)))
        self._report({**self._details, "error": ailments} if ailments else self._details)
