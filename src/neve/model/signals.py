"""The three telemetry signals, the table of each, names of other tables and documents, and the namespace of tables."""

from enum import StrEnum

NAMESPACE = "telemetry"
DECISIONS_TABLE, OPEN_TRACES_TABLE = "trace_decisions", "open_traces"
RULES_SPACE = "rules"  # documents of the state store with the last evaluation of each group of rules


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
        """The name of this signal's records, in the plural."""
        return {Signal.LOGS: "log records", Signal.METRICS: "metric points", Signal.TRACES: "spans"}[self]


# The table of the series of a table, or of its streams.
SERIES_TABLES = {"metrics": "metric_series", "logs": "log_streams"}
# The table of the sizes of a table's streams.
VOLUME_TABLES = {"logs": "log_volumes"}
TRACE_SUMMARIES_TABLE, SERVICE_EDGES_TABLE = "trace_summaries", "service_edges"
# The tables about traces, each by the table that it is made from.
TRACE_TABLES = {"spans": TRACE_SUMMARIES_TABLE, TRACE_SUMMARIES_TABLE: SERVICE_EDGES_TABLE}
