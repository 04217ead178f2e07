"""How a process notices that the one that started it is gone: a pipe that nobody writes to, and that ends with it."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

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


def drain_with_parent(far_end: int) -> None:
    """Have this process told to stop, as by SIGTERM, when its parent is gone."""

    def wait() -> None:
        os.read(far_end, 1)
        log.warning("parent is gone: stopping too")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
