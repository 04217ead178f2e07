"""The exporter: build the configured destinations and deliver kept traces to each, batch by batch, from its cursor.

A destination that is unavailable does not delay the others.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.errors import ConfigError, LeaseTaken
from neve.state.leases import hold_worker_lease
from neve.tail.config import DestinationKind
from neve.tail.export.cursor import CursorMoved, ExportCursors, Position
from neve.tail.export.datadog import DatadogDestination
from neve.tail.export.destination import Delivery, DeliveryResult, export_batches
from neve.tail.export.otlp import OtlpGrpcDestination, OtlpHttpDestination
from neve.tail.export.storage_destinations import IcebergDestination, OtlpFilesDestination
from neve.tail.metrics import UNAVAILABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from neve.tail.config import DestinationConfig
    from neve.tail.export.cursor import Cursor
    from neve.tail.export.destination import Destination
    from neve.tail.export.kept_spans import CycleSpans, KeptSpans


TLS_HINTS = {
    "ca_file": "name a PEM file with certificates, or remove ca_file to trust those of the system",
    "client_certificate": "name a PEM file with the certificate that the destination expects",
    "client_key": "name a PEM file with the private key of client_certificate",
}


def build_destination(config: DestinationConfig, lake: Lake) -> Destination:
    """Build the destination of a configuration section.

    Nothing is connected before the first use.
    """
    for name, hint in TLS_HINTS.items():
        path: str = getattr(config, name)
        if path and not os.access(path, os.R_OK):
            raise ConfigError(f"the destination {config.name} has {name} {path}, which can't be read", hint=hint)
    if bool(config.client_certificate) != bool(config.client_key):
        raise ConfigError(
            f"the destination {config.name} has one of client_certificate and client_key, expected both or neither"
        )
    match config.kind:
        case DestinationKind.OTLP_HTTP:
            return OtlpHttpDestination(config)
        case DestinationKind.OTLP_GRPC:
            return OtlpGrpcDestination(config)
        case DestinationKind.DATADOG:
            return DatadogDestination(config)
        case DestinationKind.OTLP_FILES:
            return OtlpFilesDestination(config, lake.s3)
        case DestinationKind.ICEBERG:
            return IcebergDestination(config, lake)


LEASE = "tail-export"


@dataclass(frozen=True)
class Exporter:
    """Delivery of a selector's kept traces to all destinations.

    `steal` takes over leases of a process known to be dead. One process at a time, among all of the selector's name,
    exports to a destination.
    """

    kept: KeptSpans
    documents: Documents
    destinations: Sequence[Destination]
    steal: bool = False

    def split_by_destination(self) -> list[Exporter]:
        """Return one exporter for each destination, so that none waits for another."""
        return [replace(self, destinations=(one,)) for one in self.destinations]

    def close(self) -> None:
        """Close connections.

        Deliveries that wait for their next attempt are aborted.
        """
        for one in self.destinations:
            one.close()

    def run(self) -> list[DeliveryResult]:
        """Deliver everything that is not delivered yet, and return the result for each destination."""
        cursors = ExportCursors(self.documents, self.kept.config.name)
        with ExitStack() as leases:
            # Cursors are read under the lease, so that batches that another process has just delivered are not
            # repeated.
            notes = [self._acquire_lease(leases, one.name) for one in self.destinations]
            runs = [
                DestinationRun(one, cursors.cursor(one.name), note)
                for one, note in zip(self.destinations, notes, strict=True)
            ]
            self._deliver([run for run in runs if not run.is_stopped])
        for run in runs:
            if run.result.error is not None:
                UNAVAILABLE.labels(self.kept.config.name, run.result.destination).inc()
        return [run.result for run in runs]

    def _acquire_lease(self, leases: ExitStack, destination: str) -> str:
        """Acquire a destination's lease.

        Return a message with the holder if another process has it.
        """
        config = self.kept.config
        name, seconds = f"{LEASE}:{config.name}:{destination}", config.lease_seconds
        try:
            leases.enter_context(
                hold_worker_lease(self.documents, name, seconds=seconds, what="export", steal=self.steal)
            )
        except LeaseTaken as error:
            return error.message
        return ""

    def _deliver(self, runs: Sequence[DestinationRun]) -> None:
        if not runs:
            return
        for cycle in self.kept.cycles(min(run.done_until for run in runs)):
            waiting = [run for run in runs if not run.is_stopped and run.done_until < cycle]
            if not waiting:
                continue
            for spans in self.kept.cycle(cycle, min(run.begin(cycle) for run in waiting)):
                for run in waiting:
                    run.deliver(spans)
                if all(run.is_stopped for run in waiting):
                    break
            for run in waiting:
                run.finish(cycle)


class DestinationRun:
    """Part of a run for one destination."""

    def __init__(self, destination: Destination, cursor: Cursor, note: str = "") -> None:
        self._destination, self._cursor = destination, cursor
        self.result = DeliveryResult(destination.name, cursor.position, 0, Delivery(), note=note)

    @property
    def done_until(self) -> int:
        """Last cycle that is delivered completely."""
        position = self._cursor.position
        return position.sequence - 1 if position else 0

    @property
    def is_stopped(self) -> bool:
        """True if the destination is unavailable, or another process exports to it."""
        return self.result.error is not None or bool(self.result.note)

    def begin(self, cycle: int) -> str:
        """Return the trace of a cycle at which the cursor is."""
        position = self._cursor.position
        return position.trace_id if position and position.sequence == cycle else ""

    def deliver(self, spans: CycleSpans) -> None:
        """Deliver the kept spans of a cycle, or a part of them."""
        if self.is_stopped:
            return
        try:
            delivered = export_batches(self._destination, self._cursor, spans.batches(self._cursor.position))
        except CursorMoved as error:
            self.result = replace(self.result, note=error.message)
            return
        self.result = DeliveryResult(
            delivered.destination,
            delivered.position,
            self.result.batches + delivered.batches,
            self.result.delivery + delivered.delivery,
            delivered.error,
            self.result.missing + spans.missing,
        )

    def finish(self, cycle: int) -> None:
        """Move the cursor past a cycle, unless the run ended before."""
        if self.is_stopped:
            return
        try:
            self._cursor.move(Position(cycle + 1))
        except CursorMoved as error:
            self.result = replace(self.result, note=error.message)
            return
        self.result = replace(self.result, position=self._cursor.position)
