"""The three kinds of telemetry and the table that each one lands in."""

from enum import StrEnum


class Signal(StrEnum):
    """A kind of OpenTelemetry data."""

    LOGS = "logs"
    METRICS = "metrics"
    TRACES = "traces"

    @property
    def table(self) -> str:
        """The table that holds this signal's records.

        >>> Signal.TRACES.table
        'spans'
        """
        return "spans" if self is Signal.TRACES else self.value

    @property
    def record(self) -> str:
        """What one record of this signal is called, in the plural."""
        return {Signal.LOGS: "log records", Signal.METRICS: "metric points", Signal.TRACES: "spans"}[self]
