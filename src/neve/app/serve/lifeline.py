"""How a process notices that the one that started it is gone: a pipe that nobody writes to, and that ends with it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

# That an orphan may take to end: whoever takes its parent's place waits for its ports and its leases.
ORPHAN_SECONDS = 10.0
ORPHANED = 75  # the exit code of one that took longer

log = structlog.get_logger("neve.serve")


class Lifeline:
    """The parent's hold on the pipe: children get `far_end`, and read its end when the parent is gone, however."""

    def __init__(self) -> None:
        self.far_end, self._near_end = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._near_end)
        os.close(self.far_end)


def drain_with_parent(far_end: int, orphan_seconds: float = ORPHAN_SECONDS) -> None:
    """Have this process told to stop, as by SIGTERM, when its parent is gone, and ended when it takes too long."""

    def wait() -> None:
        os.read(far_end, 1)
        log.warning("parent is gone: stopping too", seconds=orphan_seconds)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(orphan_seconds)
        log.error("ended: what was begun was not finished in time")
        sys.stderr.flush()
        os._exit(ORPHANED)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
