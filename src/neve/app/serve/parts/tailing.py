"""Tail sampling as a part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.app.tail import build_selector
from neve.app.tail_loop import run_forever
from neve.errors import LeaseTaken

if TYPE_CHECKING:
    import threading

    from neve.app.serve.part import Say
    from neve.app.settings import Settings
    from neve.errors import NeveError
    from neve.lake.lake import Lake
    from neve.tail.export.pump import PumpResult
    from neve.tail.result import CycleResult

log = structlog.get_logger("neve.tail")


@dataclass(frozen=True)
class TailPart:
    """Decides about traces every so often, and brings the kept ones to their destinations."""

    settings: Settings
    lake: Lake
    name: str = "tail"

    def run(self, stop: threading.Event, say: Say) -> None:
        """Cycles until told to stop; among selectors of one name one decides, and the others stand by."""
        selector = build_selector(self.settings, self.lake)
        say({"policies": len(selector.policies.policies)})

        def decided(result: CycleResult) -> None:
            document = result.as_document()
            log.info("cycle ended", **document)
            say({"cycle": document})

        def exported(results: list[PumpResult]) -> None:
            for one in results:
                log.info("traces delivered", destination=one.destination, **vars(one.delivery))

        def failed(error: NeveError) -> None:
            if isinstance(error, LeaseTaken):
                say({"standby": error.message})
                return
            log.error("cycle failed", error=error.message)
            say({"error": error.message})

        try:
            run_forever(
                selector,
                export=bool(self.settings.tail.export.destinations),
                tell=decided,
                exported=exported,
                failed=failed,
                stop=stop,
            )
        finally:
            selector.documents.close()
