"""TraceQL's metrics: spans to series, and what is computed from series."""
