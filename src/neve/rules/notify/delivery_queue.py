"""Queue of one destination: alerts that it has not accepted yet, and the cycle up to which it has accepted all.

The cursor in the state store moves after the delivery, so that a killed process delivers again what it may have
delivered: at least once. Alertmanager recognizes an alert by its labels. Of several states of one firing the last is
sent, so that a destination that was unavailable for an hour gets each alert once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from neve.logger import get_logger
from neve.rules import metrics
from neve.rules.config import DestinationKind
from neve.rules.notify.destination import DestinationUnavailable, RejectedAlerts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.rules.notify.destination import Destination
    from neve.rules.notify.outgoing_alert import OutgoingAlert
    from neve.rules.notify.silences import Silence
    from neve.state.documents import Documents

__all__ = ["DeliveryQueue"]

SPACE = "rules_cursors"
MAX_PENDING = 50_000
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 30.0
MAX_RETRY_AFTER_SECONDS = 300.0  # of the delay that a destination requests
CURSOR_CYCLES = 60  # cycles without alerts after which the cursor is stored anyway

log = get_logger("neve.rules")
ListSilences = Callable[[str], "Sequence[Silence]"]  # active silences of an organization


@dataclass
class DeliveryQueue:
    """Alerts on their way to a destination. The runner adds to it, one thread delivers."""

    destination: Destination
    documents: Documents
    silences: ListSilences
    error: str = ""
    _pending: dict[str, OutgoingAlert] = field(default_factory=dict)
    _cycle: int = 0
    _stored_cycle: int = 0
    _sent: dict[str, int] = field(default_factory=dict)  # firing alerts that a webhook got, with the time
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def open(self, current_cycle: int) -> int:
        """Load the cursor, and return the cycle after which alerts are missing. A new destination misses none."""
        document = self.documents.get(SPACE, self.destination.name)
        with self._changed:
            self._pending = {}
            if document is None:
                self._cycle, self._sent = current_cycle, {}
                self._store()
            else:
                sent = document.get("sent")
                self._sent = {str(key): int(at) for key, at in sent.items()} if isinstance(sent, dict) else {}
                self._cycle = self._stored_cycle = int(str(document["cycle"]))
            return self._cycle

    @property
    def pending(self) -> int:
        """Return the number of alerts that wait."""
        return len(self._pending)

    def add(self, alerts: Iterable[OutgoingAlert], cycle: int) -> None:
        """Add the alerts of a cycle. A later state of a firing replaces an earlier one."""
        with self._changed:
            for alert in alerts:
                if self.destination.accepts(alert.organization):
                    self._pending[alert.key] = _replace_state(self._pending.get(alert.key), alert)
            self._drop_excess()
            self._cycle = max(self._cycle, cycle)
            self._changed.notify_all()
        metrics.PENDING.labels(self.destination.name).set(len(self._pending))

    def _drop_excess(self) -> None:
        """Drop the oldest alerts of the organization that has most, so that none costs another its alerts."""
        excess = len(self._pending) - MAX_PENDING
        counts = Counter(one.organization for one in self._pending.values()) if excess > 0 else Counter[str]()
        for _ in range(excess):
            most = counts.most_common(1)[0][0]
            key = next(key for key, one in self._pending.items() if one.organization == most)
            counts[most] -= 1
            log.error("alert dropped: too many wait", destination=self.destination.name, organization=most)
            metrics.SENT.labels(self.destination.name, "dropped").inc()
            del self._pending[key]

    def run(self, ended: threading.Event) -> None:
        """Deliver until the event is set. An unavailable destination is tried again after a pause."""
        pause = FIRST_PAUSE_SECONDS
        while not ended.is_set():
            with self._changed:
                if not self._pending and self._cycle - self._stored_cycle < CURSOR_CYCLES:
                    self._changed.wait(0.5)
                    continue
            try:
                self.deliver()
                pause = FIRST_PAUSE_SECONDS
            except Exception as error:  # the state store, too, may be unavailable: the thread goes on
                self._note_failure(error)
                after = error.after_seconds if isinstance(error, DestinationUnavailable) else None
                ended.wait(max(pause, min(after or 0.0, MAX_RETRY_AFTER_SECONDS)))
                pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def deliver(self) -> int:
        """Send everything that waits, then move the cursor. Return the number of alerts that were sent.

        Raises `DestinationUnavailable`: the rest stays in the queue.
        """
        with self._changed:
            waiting, cycle = list(self._pending.values()), self._cycle
        wanted, left = self._choose(waiting)
        self._remove(left)
        for part in self.destination.split(wanted):
            self._send(part)
            self._remove(part)
        self._clear_failure()
        if waiting or cycle - self._stored_cycle >= CURSOR_CYCLES:
            self._store(cycle)
        return len(wanted)

    def _choose(self, waiting: Sequence[OutgoingAlert]) -> tuple[list[OutgoingAlert], list[OutgoingAlert]]:
        """Return the alerts to send, and those that are not sent: silenced, or known to a webhook."""
        active = {one: self.silences(one) for one in {alert.organization for alert in waiting}}
        wanted: list[OutgoingAlert] = []
        left: list[OutgoingAlert] = []
        for alert in waiting:
            is_silenced = any(silence.matches(alert.labels) for silence in active[alert.organization])
            is_sent = not is_silenced and self._is_news(alert)
            (wanted if is_sent else left).append(alert)
        return wanted, left

    def _is_news(self, alert: OutgoingAlert) -> bool:
        config = self.destination.config
        if alert.is_resolved and not config.send_resolved:
            return False
        if config.kind is DestinationKind.ALERTMANAGER or not alert.is_repeated:
            return True
        last = self._sent.get(alert.key)
        is_old = last is None or alert.sent_at_ms - last >= config.repeat_seconds * 1000
        return is_old and not alert.is_resolved

    def _send(self, alerts: Sequence[OutgoingAlert]) -> None:
        """Send a request. If its content is rejected, send halves of it, and drop the alerts that are the reason."""
        name = self.destination.name
        try:
            self.destination.send(alerts)
        except RejectedAlerts as error:
            if len(alerts) > 1:
                self._send(alerts[: len(alerts) // 2])
                self._send(alerts[len(alerts) // 2 :])
                return
            log.error("alert rejected", destination=name, alert=alerts[0].name, error=error.message)
            metrics.SENT.labels(name, "rejected").inc()
            return
        metrics.SENT.labels(name, "sent").inc(len(alerts))
        if self.destination.config.kind is DestinationKind.WEBHOOK:
            for one in alerts:
                self._sent.pop(one.key, None) if one.is_resolved else self._sent.update({one.key: one.sent_at_ms})

    def _remove(self, alerts: Iterable[OutgoingAlert]) -> None:
        """Remove alerts from the queue, unless a later state replaced them meanwhile."""
        with self._changed:
            for alert in alerts:
                if self._pending.get(alert.key) is alert:
                    del self._pending[alert.key]
        metrics.PENDING.labels(self.destination.name).set(len(self._pending))

    def _store(self, cycle: int | None = None) -> None:
        done = self._cycle if cycle is None else cycle
        newest = max(self._sent.values(), default=0)
        oldest = newest - 2 * round(self.destination.config.repeat_seconds * 1000)
        self._sent = {key: at for key, at in self._sent.items() if at >= oldest}
        self.documents.put(SPACE, self.destination.name, {"cycle": done, "sent": self._sent})
        self._stored_cycle = done

    def _note_failure(self, error: Exception) -> None:
        message = str(getattr(error, "message", error))
        if not self.error:
            log.warning("destination is unavailable", destination=self.destination.name, error=message)
        self.error = message or type(error).__name__

    def _clear_failure(self) -> None:
        if self.error:
            log.warning("destination is available again", destination=self.destination.name)
        self.error = ""


def _replace_state(before: OutgoingAlert | None, alert: OutgoingAlert) -> OutgoingAlert:
    """Return the later state of an alert. A repetition of a change that was not delivered is still that change."""
    is_change = before is not None and not before.is_repeated and before.is_resolved == alert.is_resolved
    return replace(alert, is_repeated=False) if is_change else alert
