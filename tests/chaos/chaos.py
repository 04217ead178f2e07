"""The run: services start, a sender sends, kills happen, and at the end everything that waits is taken in."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.chaos import session
from tests.chaos.kills import Kill, Moment, Victim
from tests.chaos.service import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.chaos.house import House
    from tests.chaos.service import Service

START_SECONDS = 120.0
COMMIT_SECONDS = 40.0  # in which a stream that is at work and has something to do makes a commit
NOTICE_SECONDS = 30.0  # in which a stream has to see that its JVM is gone
END_SECONDS = 30.0
CATCH_UP_SECONDS = 600.0

Tell = Callable[[str], None]


class Chaos:
    """A receiver and a stream that are killed and started again."""

    def __init__(self, house: House, tell: Tell = lambda _line: None) -> None:
        self.house = house
        self.kills: list[Kill] = []
        self._tell = tell
        self._receiver = house.receiver()
        self._stream = house.stream()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start both; nothing of them is left when the block ends."""
        self.house.init()
        try:
            self._receiver.start()
            self._stream.start()
            self._await_work(self._receiver)
            yield
        finally:
            self._receiver.kill()
            self._stream.kill()

    def kill_all(self, kills: Sequence[Kill], done: Callable[[float], None]) -> None:
        """Kill and start again, one after the other; `done` is told how far it is, as a share."""
        for place, kill in enumerate(kills):
            done((place + 1) / (len(kills) + 1))
            self._tell(f"kill {place + 1} of {len(kills)}: {kill}")
            self._kill(kill)
            self.kills.append(kill)

    def end(self) -> None:
        """Stop the receiver as one should, kill the stream once more, and let another one catch up."""
        code = self._receiver.end(END_SECONDS)
        if code:
            raise ServiceError(f"receiver ended with {code}\n{self._receiver.tail()}")
        self._stream.kill()
        last = self.house.last_stream()
        last.start()
        try:
            code = last.wait(CATCH_UP_SECONDS)
        finally:
            last.kill()
        if code:
            raise ServiceError(f"the last stream ended with {code}\n{last.tail()}")
        self._tell(f"caught up: {last.lines()[-1].strip()}")

    def _kill(self, kill: Kill) -> None:
        service = self._receiver if kill.victim is Victim.RECEIVER else self._stream
        self._wait_for(kill.moment, service)
        time.sleep(kill.seconds)
        if kill.victim is Victim.DRIVER:
            self._kill_driver(service)
        elif service.ended:
            raise ServiceError(f"{service.name} ended by itself: exit={service.exit_code}\n{service.tail()}")
        service.kill()
        service.start()

    def _wait_for(self, moment: Moment, service: Service) -> None:
        if moment is Moment.START:
            return
        self._await_work(service)
        # Where everything is in the tables already, no commit will come: then it is killed as it is.
        if moment is Moment.COMMIT and not service.wait_until(self.house.has_begun_to_commit, COMMIT_SECONDS):
            self._tell(f"no commit in {COMMIT_SECONDS} seconds")

    def _await_work(self, service: Service) -> None:
        at_work = self.house.has_spoken if service is self._receiver else self.house.has_workers
        if not service.wait_until(at_work, START_SECONDS):
            raise ServiceError(f"{service.name} is not at work after {START_SECONDS} seconds\n{service.tail()}")

    def _kill_driver(self, stream: Service) -> None:
        """Kill the JVM alone. The Python that it belongs to can do nothing any more, and has to say so and end."""
        session.kill(session.jvms(stream.pid))
        if stream.wait(NOTICE_SECONDS) == 0:
            raise ServiceError(f"a stream without its JVM says that all is well\n{stream.tail()}")
