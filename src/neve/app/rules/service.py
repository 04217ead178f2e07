"""The service of rules: cycles under a lease, status documents, and a thread for each destination of alerts."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import LeaseLost, LeaseTaken, NeveError
from neve.logger import get_logger
from neve.rules.notify.delivery_queue import DeliveryQueue
from neve.rules.notify.destination import Destination, DestinationUnavailable
from neve.rules.notify.outgoing_alert import AddedLabels, prepare_alert
from neve.rules.notify.silences import Silences
from neve.rules.status import RuleStatuses
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from neve.rules.notify.outgoing_alert import OutgoingAlert
    from neve.rules.notify.silences import Silence
    from neve.rules.running.cycle_result import CycleResult, SentAlert
    from neve.rules.running.runner import RuleRunner
    from neve.state.documents import Documents
    from neve.state.leases import Lease

__all__ = ["LEASE", "RuleService"]

LEASE = "rules"
TURN_SECONDS = 1.0  # between two checks whether a group is due
STANDBY_SECONDS, MAX_PAUSE_SECONDS, JOIN_SECONDS = 2.0, 60.0, 5.0

log = get_logger("neve.rules")


@dataclass
class RuleService:
    """Rules of a lake, in one process. `steal` takes the lease of a process that is known to be dead.

    `committed` is called after each commit.
    """

    runner: RuleRunner
    documents: Documents
    steal: bool = False
    committed: Callable[[], None] = lambda: None
    queues: list[DeliveryQueue] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = self.runner.config
        self.queues = [
            DeliveryQueue(Destination(one, config.external_url), self.documents, self._list_active_silences)
            for one in config.destinations
        ]
        self._statuses = RuleStatuses(self.documents)
        self._silences = Silences(self.documents)

    def _list_active_silences(self, organization: str) -> list[Silence]:
        now = self.runner.ports.now_ms()
        return [one for one in self._silences.of(organization, now) if one.state(now) == "active"]

    @contextmanager
    def hold_lease(self) -> Iterator[Lease]:
        """Hold the lease of the rules. Raises `LeaseTaken` while another process does."""
        seconds = self.runner.config.lease_seconds
        with hold_worker_lease(self.documents, LEASE, seconds=seconds, what="rules", steal=self.steal) as lease:
            self.steal = False
            yield lease

    def open(self) -> None:
        """Load the state, and the alerts that destinations have not received."""
        position = self.runner.load()
        for queue in self.queues:
            after = queue.open(position.cycle)
            if after < position.cycle:
                queue.add(self._prepare(self.runner.load_notifications(after)), position.cycle)
        self._statuses.remove_others(self.runner.known_groups)

    def run_cycle(self, lease: Lease) -> CycleResult:
        """Run a cycle, publish its status, and hand its alerts to the queues."""
        try:
            result = self.runner.run(lease)
        except BaseException:
            self.runner.forget()
            raise
        if result.results:
            for queue in self.queues:
                queue.add(self._prepare(result.sent), result.cycle)
            intervals = {key: self.runner.interval_ms(group) for key, group in self.runner.known_groups.items()}
            self._statuses.publish(result.results, result.cycle, result.snapshot_id, intervals, self._added_labels)
            self.committed()
        return result

    def deliver(self) -> list[str]:
        """Deliver everything that waits, once. Return the errors of unavailable destinations."""
        errors = []
        for queue in self.queues:
            try:
                queue.deliver()
            except DestinationUnavailable as error:
                errors.append(error.message)
        return errors

    @property
    def _added_labels(self) -> AddedLabels:
        has_several = len({key.organization for key in self.runner.groups}) > 1
        return AddedLabels(self.runner.config.external_labels, has_several)

    def _prepare(self, alerts: Iterable[SentAlert]) -> list[OutgoingAlert]:
        return [prepare_alert(one, self._added_labels, self.runner.config.external_url) for one in alerts]

    def run_once(self) -> CycleResult:
        """Run a cycle, and those that were missed up to now, and deliver the alerts. Return the last one."""
        started_ms = self.runner.ports.now_ms()
        with self.hold_lease() as lease:
            self.open()
            result = self.run_cycle(lease)
            while self.runner.is_behind and min(one.time_ms for one in result.results) < started_ms:
                result = self.run_cycle(lease)
            for error in self.deliver():
                log.warning("destination is unavailable", error=error)
        return result

    def run_forever(self, stop: threading.Event, report: Callable[[dict[str, object]], None]) -> None:
        """Run cycles until asked to stop. While another process does, be on standby."""
        try:
            while not stop.is_set():
                try:
                    with self.hold_lease() as lease:
                        self._lead(lease, stop, report)
                except LeaseTaken as error:
                    report({"standby": error.message})
                    stop.wait(STANDBY_SECONDS)
                except LeaseLost as error:
                    log.warning("lease lost", error=error.message)
        finally:
            for queue in self.queues:
                queue.destination.close()

    def _lead(self, lease: Lease, stop: threading.Event, report: Callable[[dict[str, object]], None]) -> None:
        ended = threading.Event()
        threads: list[threading.Thread] = []
        pause, is_open = TURN_SECONDS, False
        try:
            while not stop.is_set():
                try:
                    if not is_open:
                        self.open()
                        is_open = True
                        threads = threads or self._start_deliveries(ended)
                    details = self._turn(lease)
                    pause = TURN_SECONDS
                except LeaseLost:
                    raise
                except Exception as error:
                    # Any error of the catalog, the storage or the state store: the state is loaded again.
                    message = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {error}"
                    log.error("cycle failed", error=message)
                    details, is_open = {"error": message}, False
                    pause = min(pause * 2, MAX_PAUSE_SECONDS)
                report(self._describe(details))
                stop.wait(0 if self.runner.is_behind and is_open else pause)
        finally:
            ended.set()
            until = time.monotonic() + JOIN_SECONDS
            for thread in threads:
                thread.join(max(0.0, until - time.monotonic()))

    def _turn(self, lease: Lease) -> dict[str, object]:
        lease.check()
        now = self.runner.ports.now_ms()
        if now >= self._next_correction_ms:
            self._next_correction_ms = now + round(self.runner.config.correct_seconds * 1000)
            self.runner.correct(lease)
        if now < self.runner.next_due_ms():
            return self._last
        result = self.run_cycle(lease)
        if result.results:
            log.info("cycle ended", **result.as_document())
            self._last = {"cycle": result.as_document()}
        return self._last

    _last: dict[str, object] = field(default_factory=dict, init=False)
    _next_correction_ms: int = field(default=0, init=False)

    def _describe(self, details: dict[str, object]) -> dict[str, object]:
        away = [
            f"{queue.destination.name} is unavailable, alerts wait: {queue.error}"
            for queue in self.queues
            if queue.error
        ]
        errors = "; ".join([str(details["error"]), *away] if "error" in details else away)
        return {**details, "error": errors} if errors else details

    def _start_deliveries(self, ended: threading.Event) -> list[threading.Thread]:
        threads = [threading.Thread(target=queue.run, args=(ended,), daemon=True) for queue in self.queues]
        for thread in threads:
            thread.start()
        return threads
